"""A tour as an attacker: many hostile cases of each class, counted; nothing may be lost, leaked or traced back.

    python tests/robustness/hostile_tour.py --times 10 --seed 0

Without a seed it is the day's, so that every day tries others; a failure prints it.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[2]))  # for a script, the root of the repository is not on the path

from tests.robustness import tour_of_files
from tests.robustness.fuzz_logs import fuzz
from tests.robustness.seeds import seed
from tests.serving.episodes import graph_inputs, inputs_of, logs, random_episodes
from tests.serving.policies import POLICIES

from poela.core.errors import InputError
from poela.core.paths import output_file, output_folder
from poela.data.history import StepsToFollow
from poela.data.rewards import reward_formula
from poela.data.spreadsheets import as_meant, harmless
from poela.data.trajectories import Trajectories
from poela.serving.application import Limits, application
from poela.serving.decisions import Answering
from poela.serving.export import export_onnx
from poela.serving.source import PolicySource

SECRET = "SECRET-77125"
Class = Callable[[np.random.Generator, int], None]


def body(rng: np.random.Generator) -> bytes:
    """A request, right or with something odd in it."""
    odd = [None, True, 1e999, -1, 2**70, SECRET, [SECRET], {SECRET: SECRET}, "", "\ud800", float("nan"), 0.5, " " * 200]

    def value(plain: Any) -> Any:
        return odd[rng.integers(len(odd))] if rng.random() < 0.15 else plain

    features = {name: value(float(rng.normal())) for name in ("age", "sofa", "dose so far")}
    if rng.random() < 0.1:
        features[SECRET] = 1.0
    case = {"id": value("p1"), "step": value(int(rng.integers(1001))), "features": value(features)}
    text = json.dumps(value({"cases": value([value(case)] * int(rng.integers(1, 4))), "seed": value(3)})).encode()
    if rng.random() < 0.3:
        content = bytearray(text)
        for position in rng.integers(0, len(content), 3):
            content[position] = rng.integers(256)
        text = bytes(content)
    return text if rng.random() < 0.95 else text[: rng.integers(len(text))]


def _message(work: Callable[[], object]) -> str:
    """What is said where something is refused."""
    try:
        work()
    except InputError as error:
        return str(error)
    return ""


def requests(rng: np.random.Generator, count: int) -> None:
    """Bodies of requests, as the server reads them."""
    form = Answering(PolicySource(POLICIES["poela"](logs()), "a policy")).form
    for _ in range(count):
        message = _message(lambda: form.parsed(body(rng)))
        assert "77125" not in message.replace(repr(SECRET), ""), message  # names may be told, and values not


def headers(rng: np.random.Generator, count: int) -> None:
    """Paths, methods and headers, at the door of the server: an answer, and never 500."""
    app = application(PolicySource(POLICIES["pocrm"](logs()), "a policy"), limits=Limits(rate=1e9))
    app.health.rate = 1e9
    hosts = [
        b"127.0.0.1",
        b"[::1].evil",
        b"evil",
        b"[::1]:80",
        b"localhost:1",
        b"\xff",
        b"",
        b"127.0.0.1@x",
        b"[::1%1]",
    ]
    paths = ["/", "/v1/decide", "/v1/explain", "/healthz", "/metrics", f"/{SECRET}", "/../etc", "//", "/v1/policy"]
    methods = ["GET", "POST", "HEAD", "PUT", "TRACE", "ODD"]
    names = [b"content-type", b"authorization", b"upgrade", b"x-forwarded-for", b"content-length", b"expect"]
    values = [b"application/json", b"websocket", b"\xff\x00", b"Bearer x", b"9" * 50, SECRET.encode()]

    async def ask() -> None:
        for _ in range(count):
            path = paths[rng.integers(len(paths))]
            given = [(b"host", hosts[rng.integers(len(hosts))]) for _ in range(rng.integers(1, 3))]
            given += [(names[rng.integers(6)], values[rng.integers(6)]) for _ in range(rng.integers(3))]
            scope = {
                "type": "http",
                "method": methods[rng.integers(len(methods))],
                "path": path,
                "raw_path": path.encode(),
                "query_string": SECRET.encode(),
                "headers": given,
                "client": ("127.0.0.1", 5),
                "server": ("127.0.0.1", 80),
                "scheme": "http",
                "http_version": "1.1",
                "root_path": "",
            }
            sent: list[Any] = []

            async def receive() -> Any:
                return {"type": "http.request", "body": b"{}", "more_body": False}

            async def send(message: Any, sent: list[Any] = sent) -> None:
                sent.append(message)

            await app(scope, receive, send)
            assert sent[0]["status"] < 500, (scope, sent)
            assert SECRET.encode() not in b"".join(one.get("body", b"") for one in sent)

    with ThreadPoolExecutor(1) as pool:  # a browser's event loop may run in this thread
        pool.submit(asyncio.run, ask()).result()


def graphs(rng: np.random.Generator, count: int) -> None:
    """Contexts of any bits: a graph defers where `decide` does, and what is no number always."""
    import onnxruntime

    train = logs()
    _odd_steps(rng, train, count)
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(("poela", "pocrm")):
            policy = POLICIES[name](train)
            export_onnx(policy, f"{folder}/{number}.onnx")
            graph = onnxruntime.InferenceSession(f"{folder}/{number}.onnx")
            rows = (count + 1) // 2
            near = train.contexts[rng.integers(len(train.contexts), size=rows)]
            bits = rng.integers(0, 2**32, near.shape, np.uint32).view(np.float32)
            contexts = np.where(rng.random(near.shape) < 0.3, bits, near)
            for part in np.array_split(contexts, max(rows // 256, 1)):
                steps = StepsToFollow(
                    part, np.zeros(len(part), np.int64), np.arange(len(part) + 1), train.feature_names
                )
                every = {"contexts": part, "steps": np.zeros(len(part), np.int64)}
                inputs = {one.name: every[one.name] for one in graph.get_inputs()}
                chances, defer, _, in_range = graph.run(None, inputs)
                finite = np.isfinite(part).all(axis=1)
                assert defer[~finite].all()
                assert not in_range[~finite].any()
                sound = StepsToFollow(
                    part[finite], steps.actions[finite], np.arange(finite.sum() + 1), train.feature_names
                )
                if not finite.any():
                    continue
                with np.errstate(over="ignore", invalid="ignore"):
                    stranded = policy.eligibility.along(sound).stranded
                    expected = policy.along(sound)
                assert (defer[finite] == stranded).all(), f"{(defer[finite] != stranded).sum()} of {len(stranded)}"
                kept = ~stranded
                assert np.allclose(chances[finite][kept], expected[kept], atol=1e-4)


ODD_STEPS = (0, 1, 5, -1, -(2**63), 2**31, 2**62, 2**63 - 1)
POLICIES_EACH = 100  # cases for each further policy


def _odd_steps(rng: np.random.Generator, train: Trajectories, count: int) -> None:
    """Policies of every kind in turn, at odd steps and contexts of any bits: an answer, and no number is deferred."""
    import onnxruntime

    some = rng.permutation(sorted(POLICIES))[: max(count // POLICIES_EACH, 1)]
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(some):
            export_onnx(POLICIES[name](train), f"{folder}/{number}.onnx")
            graph = onnxruntime.InferenceSession(f"{folder}/{number}.onnx")
            every = graph_inputs(random_episodes(train, 64, int(rng.integers(2**31))))
            bits = rng.integers(0, 2**32, every["contexts"].shape, np.uint32).view(np.float32)
            every["contexts"] = np.where(rng.random(bits.shape) < 0.1, bits, every["contexts"])
            every["steps"] = np.array(ODD_STEPS)[rng.integers(len(ODD_STEPS), size=64)]
            wanted = inputs_of(graph, every)
            told = dict(zip((one.name for one in graph.get_outputs()), graph.run(None, wanted), strict=True))
            finite = np.isfinite(every["contexts"]).all(axis=1)
            assert told["defer"][~finite].all(), name
            assert not told["in_range"][~finite].any(), name
            if "steps" in wanted:
                assert told["defer"][every["steps"] < 0].all(), name
                huge = (every["steps"] > 1000) & ("previous_contexts" not in wanted)
                again = {**wanted, "steps": np.where(huge, 1001, wanted["steps"])}
                for output, found in zip(graph.get_outputs(), graph.run(None, again), strict=True):
                    np.testing.assert_array_equal(told[output.name][huge], found[huge], err_msg=name)
            acts = told["probabilities"][~told["defer"]]
            assert np.isfinite(acts).all(), name
            assert ((acts >= 0) & (acts <= 1 + 1e-5)).all(), name
            np.testing.assert_allclose(acts.sum(axis=1), 1, atol=1e-4, err_msg=name)


def texts(rng: np.random.Generator, count: int) -> None:
    """Cells that spreadsheets might run."""
    letters = np.array(list("'=+-@\t\r1.e5a\n\",;ü"))
    cells = ["".join(rng.choice(letters, rng.integers(0, 8))) for _ in range(count)]
    written = harmless(pa.table({"text": cells}))
    assert as_meant(written)["text"].to_pylist() == cells
    for cell in written["text"].to_pylist():
        assert not cell.startswith(("=", "@", "\t", "\r")), repr(cell)


def places(rng: np.random.Generator, count: int) -> None:
    """Names for what is written: outside of one's folder only plain new files are let through, and nothing is made."""
    parts = [
        "dev",
        "proc",
        "sys",
        "..",
        ".",
        "null",
        "new",
        "link",
        "study",
        "pipe",
        "x" * 300,
        "\0",
        "~",
        "é",
        "\udce9",
        "",
    ]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "study").mkdir()
        (root / "study" / ".poela-study").touch()
        (root / "link").symlink_to("/dev")
        os.mkfifo(root / "pipe")
        before = sorted(os.listdir(root))
        for _ in range(count):
            start = ["/", f"{root}/", f"{root}/study/", f"{root}/link/"][rng.integers(4)]
            name = start + "/".join(parts[one] for one in rng.integers(len(parts), size=rng.integers(1, 4)))
            for gate in (output_file, output_folder):
                try:
                    path = gate(name, "a file")
                except InputError:
                    continue
                true = os.path.realpath(path)
                assert not true.startswith(("/dev/", "/proc/", "/sys/", f"{os.path.realpath(root)}/study/")), name
        assert sorted(os.listdir(root)) == before


def formulas(rng: np.random.Generator, count: int) -> None:
    """The language of rewards: parsed, or one sentence; never executed."""
    pieces = [
        "a",
        "b",
        "1e9",
        "**",
        "*",
        "+",
        "-",
        "(",
        ")",
        "__import__('os')",
        "lambda:0",
        "[0]",
        ".x",
        "if",
        "%",
        "'s'",
        ",",
    ]
    for _ in range(count):
        text = " ".join(pieces[one] for one in rng.integers(len(pieces), size=rng.integers(1, 9)))
        _message(partial(reward_formula, text))


def files(rng: np.random.Generator, count: int) -> None:
    """Mutated files of logs."""
    with tempfile.TemporaryDirectory() as folder:
        fuzz(float("inf"), int(rng.integers(2**31)), Path(folder), most=count)


CLASSES: dict[str, tuple[Class, int]] = {
    "bodies of requests": (requests, 1000),
    "hosts, paths and headers": (headers, 200),
    "contexts for ONNX graphs": (graphs, 400),
    "cells of CSV files": (texts, 400),
    "names of places": (places, 200),
    "formulas of rewards": (formulas, 200),
    "mutated log files": (files, 40),
    "tampered studies": (tour_of_files.studies, 10),
    "tampered policies": (tour_of_files.policies, 60),
    "bombs": (tour_of_files.bombs, 20),
    "logs of real-valued actions": (tour_of_files.doses, 40),
    "arrays as d3rlpy has them": (tour_of_files.arrays, 100),
    "bars and counts of a few": (tour_of_files.few, 100),
    "names on pages": (tour_of_files.names, 100),
    "writers and what is no file": (tour_of_files.writers, 60),
}


def tour(times: float, seed: int, only: Collection[str] = ()) -> Counter[str]:
    """Every class, so many times as often as in the tests; how many cases there were."""
    counts: Counter[str] = Counter()
    for number, (name, (work, usual)) in enumerate(CLASSES.items()):
        if only and name not in only:
            continue
        count = max(int(usual * times), 1)
        try:
            work(np.random.default_rng([seed, number]), count)
        except Exception as error:
            raise AssertionError(f"{name}: {type(error).__name__} with --seed {seed} --times {times}") from error
        counts[name] = count
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=float, default=10)
    parser.add_argument("--seed", type=int, default=seed())
    parser.add_argument("--only", nargs="*", choices=CLASSES, default=[], metavar="CLASS")
    parser.add_argument("--out", type=Path, default=None, help="file for the counts, as JSON")
    asked = parser.parse_args()
    counts = tour(asked.times, asked.seed, asked.only)
    if asked.out is not None:
        found = {"command": f"hostile_tour.py --times {asked.times:g} --seed {asked.seed}", "counts": dict(counts)}
        asked.out.write_text(json.dumps(found, indent=2) + "\n")
    for name, count in counts.items():
        print(f"{count:8,}  {name}")
    print(f"{sum(counts.values()):8,}  in all, seed {asked.seed}: nothing lost, leaked or traced back")


if __name__ == "__main__":
    main()
