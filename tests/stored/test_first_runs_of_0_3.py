"""A study of the first days of version 0.3, whose runs described each policy by itself, is read and continued.

It was made by `learn` with the candidates below, three folds and one restart, and with parts apart from 512 bytes on.
"""

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import poela
from poela.studies.candidates import Candidate
from poela.studies.study import Study

HERE = Path(__file__).parent
# What the code of those days itself said of the last policy of each path, taught without the second fold.
SECOND_ACTION = {
    "fittedq-46a82365c069-0": (1.0, 1.0, 1.0, 1.0, 1.0),
    "poela-3c85b5634087-0": (
        *(0.43813365719933195, 0.423758115147415, 0.44764070461954175, 0.4553000369823776, 0.48383220126757054),
    ),
    "rules-3b7441f4fe9f-0": (1.0, 1.0, 0.5, 1.0, 0.5),
}
RECOMMENDED = (0.8107260541192888, 0.9147654757259456, 0.6765748838462659, 0.984011831511939, 0.6375274224538257)
NETWORK = {"steps": 20, "warm_start_steps": 5, "hidden": (4,), "checkpoints": 2, "device": "cpu"}
CANDIDATES = [
    Candidate("poela", {"radius": 0.5, **NETWORK}),
    Candidate("fittedq", {"regressor": "ridge"}),
    Candidate("rules", {}),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with tarfile.open(HERE / "study-0.3.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "study-0.3"


@pytest.fixture
def logs() -> Any:
    return poela.read_logs(HERE / "logs-0.2.parquet")


def test_its_policies_act_as_they_did(folder: Path, logs: Any) -> None:
    study = Study.open(folder)
    np.testing.assert_allclose(study.policy.probabilities(logs.contexts[:5])[:, 1], RECOMMENDED, rtol=1e-12)
    last = {point.path_id: point for point in study.points}
    assert last.keys() == SECOND_ACTION.keys()
    for path_id, expected in SECOND_ACTION.items():
        found = study.fold_policy(last[path_id], 1).probabilities(logs.contexts[:5])[:, 1]
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_its_end_is_made_again_of_its_runs_as_it_was(folder: Path, logs: Any) -> None:
    before = json.loads((folder / "choice.json").read_text())
    runs = {path: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()}
    (folder / "choice.json").unlink()
    shutil.rmtree(folder / "policy")
    poela.learn(logs, out=folder, candidates=CANDIDATES, folds=3, restarts=1, backend="inline", resume=True)
    assert {path: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()} == runs
    after = json.loads((folder / "choice.json").read_text())
    assert all(after["runs"].get(run_id, known) == known for run_id, known in before["runs"].items())
    estimates, expected = estimates_in(after), estimates_in(before)
    assert estimates.keys() == expected.keys()
    for point, values in expected.items():
        assert estimates[point] == pytest.approx(values, rel=1e-9, abs=1e-12)


def estimates_in(choice: Any) -> dict[tuple[str, int], list[float]]:
    """What is estimated of each policy; what is shown of it depends on bounds, which later code may set otherwise."""
    names = ("sntis", "ess", "gain", "departure")
    return {
        (point["path_id"], point["number"]): [point["metrics"][name] for name in names] for point in choice["points"]
    }
