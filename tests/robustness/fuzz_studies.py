"""Tampered studies, with checksums made right again: whatever is asked of one, it answers or says what is wrong.

Run as a script for as long as you like: python tests/robustness/fuzz_studies.py --seconds 60
"""

import argparse
import json
import math
import random
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from poela.core.errors import PoelaError, PoelaWarning
from poela.core.files import sha256
from poela.core.stored import canonical
from poela.data.trajectories import Trajectories
from poela.studies.candidates import Candidate
from poela.studies.evaluation import evaluate_study
from poela.studies.learning import learn
from poela.studies.run_files import PackedPolicies, opened, run_file
from poela.studies.selection import Selection
from poela.studies.study import Study

DOCUMENTS = ("study.json", "choice.json", "looks.json", "runs/*.safetensors")
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 10**9, 10**400, 0.5, 1e308, -1e300, "", "x", "../../etc/passwd", "\0", "q50", [], {},
    [[]], [None], {"": None}, [1, "a"], "nan", "x" * 10_000,
)  # fmt: skip
SECONDS_EACH = 20  # of processor time


def logs() -> Trajectories:
    rng = np.random.default_rng(0)
    contexts, actions = rng.normal(size=(90, 2)), rng.integers(0, 2, 90)
    return Trajectories(contexts, actions, actions + contexts[:, 0], np.arange(0, 91, 3))


SETTINGS: tuple[dict[str, Any], ...] = (
    {"shares": (0.5, 0.3, 0.2), "selection": Selection("sntis", "final")},
    {"folds": 2, "test": 0.2},
)


def make_study(out: Path, settings: dict[str, Any] = SETTINGS[0]) -> None:
    """A finished study with estimated propensities: every kind of document is in it."""
    tiny = {"steps": 3, "warm_start_steps": 1, "hidden": (3,), "checkpoints": 2, "device": "cpu"}
    candidates = [Candidate("poela", {"radius": "q75", **tiny}), Candidate("fittedq", {"history": 0})]
    learn(
        logs(), candidates=candidates, restarts=1, out=out, backend="inline", behavior="multinomial", **settings
    )  # fmt: skip


def uses(settings: dict[str, Any] = SETTINGS[0]) -> Iterator[tuple[str, Callable[[Path], object]]]:
    """What people do with a study."""

    def on_study(use: Callable[[Study], object]) -> Callable[[Path], object]:
        return lambda directory: use(Study.open(directory))

    yield "table", on_study(lambda study: study.table())
    yield "frontier", on_study(lambda study: (study.frontier(), study.ladder()))
    yield "answer", on_study(lambda study: (str(study.answer), study.gain, study.estimate))
    yield "promising", on_study(lambda study: study.promising)
    yield "exact policy", on_study(lambda study: study.exact_policy.along(logs()))
    yield "choice", on_study(lambda study: (study.chosen_name, study.choice, study.left_out))
    yield "result", on_study(lambda study: (study.result, study.test_evaluation, study.evaluations))
    yield "policy", on_study(lambda study: study.policy.along(logs()))
    yield "evaluate", on_study(lambda study: evaluate_study(study, logs()))
    yield "resume", lambda directory: learn(
        logs(), candidates=[Candidate("fittedq", {"history": 0})], restarts=1, out=directory, resume=True,
        backend="inline", behavior="multinomial", **settings,
    )  # fmt: skip


def tampered(document: Any, rng: random.Random) -> Any:
    """The document with one value, somewhere in it, changed, removed, doubled or moved."""
    places = list(_places(document))
    place, key = rng.choice(places)
    kind = rng.randrange(4)
    if kind == 0:
        del place[key]
    elif kind == 1 and isinstance(place, dict):
        place[rng.choice(["x", "format", "task", "__class__", str(key) + " "])] = place[key]
    elif kind == 2:
        other, another = rng.choice(places)
        place[key], other[another] = other[another], place[key]
    else:
        place[key] = rng.choice(ODD)
    return document


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    entries = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in list(entries):
        yield document, key
        if isinstance(value, dict | list):
            yield from _places(value)


def document_in(path: Path) -> Any:
    """A document of a study: a JSON file, or the record in the file of a run."""
    return json.loads(path.read_text()) if path.suffix == ".json" else opened(path.read_bytes())[1]


def put_document(path: Path, document: Any) -> None:
    """Put it back."""
    if path.suffix == ".json":
        path.write_text(json.dumps(document))
    else:
        path.write_bytes(run_file(document, PackedPolicies(opened(path.read_bytes())[0], {})))


def tamper(directory: Path, rng: random.Random) -> str:
    """Change one document, and make its checksum right again; which one."""
    path = rng.choice([found for pattern in DOCUMENTS for found in sorted(directory.glob(pattern))])
    document = document_in(path)
    document.pop("checksum")
    for _ in range(rng.choice([1, 1, 2])):
        document = tampered(document, rng)
    if isinstance(document, dict):
        document["checksum"] = sha256(canonical(document))
    put_document(path, document)
    return path.name


def fuzz(seconds: float, seed: int, most: float = math.inf) -> int:
    """How many tampered studies were tried; fails on the first that does anything but answer or refuse."""
    rng = random.Random(seed)
    tried = 0
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", PoelaWarning)
        bad = Path(folder) / "bad"
        good = [Path(folder) / f"good-{number}" for number in range(len(SETTINGS))]
        for out, settings in zip(good, SETTINGS, strict=True):
            make_study(out, settings)
        until = time.monotonic() + seconds
        while (time.monotonic() < until and tried < most) or not tried:
            shutil.rmtree(bad, ignore_errors=True)
            number = rng.randrange(len(SETTINGS))
            shutil.copytree(good[number], bad)
            name = tamper(bad, rng)
            use, act = rng.choice(list(uses(SETTINGS[number])))
            started = time.process_time()
            try:
                act(bad)
            except PoelaError as error:
                assert len(str(error)) < 3000, (seed, tried, name, use, str(error)[:300])  # noqa: PT017
            except Exception as error:
                kept = shutil.copytree(bad, Path(tempfile.mkdtemp()) / "study")
                raise AssertionError(f"seed {seed}, case {tried}: {name}, {use}: {error!r}; see {kept}") from error
            assert time.process_time() - started < SECONDS_EACH, (seed, tried, name, use)
            tried += 1
    return tried


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    print(f"{fuzz(options.seconds, options.seed)} tampered studies, seed {options.seed}")
