"""The robots' table in miniature."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.experiments.tiny import tiny

from poela_experiments import mujoco as experiment
from poela_experiments import mujoco_tasks
from poela_experiments.mujoco_logs import Episodes
from poela_experiments.mujoco_tasks import CLONE, INTERPRETER, LOGGING, PENALISED, PLAIN, RobotLog, peer_arrays

# Stands in for d3rlpy where it is not: tells that it trained, and answers every context with the same action.
PEER = """
import json, sys
settings = json.loads(sys.argv[2])
sys.stdout.buffer.write(json.dumps({"steps": settings["steps"], "steps / s": 1.0, "device": "none"}).encode() + b"\\n")
sys.stdout.buffer.flush()
import numpy as np
width = np.load(sys.argv[1])["actions"].shape[1]
features = np.load(sys.argv[1])["observations"].shape[1]
while line := sys.stdin.buffer.readline():
    count = int(line)
    sys.stdin.buffer.read(8 * count * features)
    sys.stdout.buffer.write(np.full((count, width), 0.25).tobytes())
    sys.stdout.buffer.flush()
"""


@pytest.fixture
def peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "d3rlpy_peer.py").write_text(PEER, encoding="utf-8")
    monkeypatch.setattr(mujoco_tasks, "PEER", tmp_path / "d3rlpy_peer.py")
    monkeypatch.setenv(INTERPRETER, sys.executable)


def small(out: Path, **settings: Any) -> Any:
    few = {"steps": 2, "checkpoints": 1, "clone_steps": 2}
    avoiding = {"steps": 2, "every": 1, "learning_rate": 1e-3, "rows": 16, "roll_outs": 1}
    poela = {**few, "ratios": "step", "value_steps": 2}
    learners = {"clone": {"clone_steps": 2}, "poela": poela, "iql": few, "avoiding": avoiding}
    return tiny("mujoco", out, **{"seeds": 2, "episodes": 2, "roll_outs": 1, **learners, **settings})


def rows_of(out: Path, key: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(out / "mujoco" / f"{key}.parquet").to_pylist()
    return rows


@pytest.mark.usefixtures("peer")
def test_every_log_has_its_row_and_every_learner_its_column(tmp_path: Path) -> None:
    pytest.importorskip("mujoco", reason="extra mujoco")
    experiment.mujoco(small(tmp_path))
    rows = rows_of(tmp_path, "scores")
    assert len(rows) == 12
    here = [row for row in rows if row["from"] == "here"]
    assert all(row[column] for row in here for column in experiment.COLUMNS)
    ends = {row["log"]: float(row[LOGGING].split(" ±")[0]) for row in here}
    assert (ends["Hopper random"], ends["Hopper expert"], ends["Walker2D expert"]) == (0.0, 100.0, 100.0)
    paper = next(row for row in rows if row["from"] == "paper" and row["log"] == "Walker2D medium")
    assert (paper["POELA, β > 0"], paper["BCQ"], paper["CQL"]) == ("33.8", "31.1", "49.6")
    assert [row["steps"] for row in rows_of(tmp_path, "avoidance")] == [0, 1, 2] * 2


def test_without_d3rlpy_its_columns_are_empty_and_the_table_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mujoco", reason="extra mujoco")
    monkeypatch.delenv(INTERPRETER, raising=False)
    report = experiment.mujoco(small(tmp_path, seeds=1))
    assert rows_of(tmp_path, "scores")[0]["BCQ"] is None
    assert f"BCQ and CQL need d3rlpy: set {INTERPRETER}" in str(report)


def test_scores_and_pairs_by_hand() -> None:
    """Random 0 and expert 10 on average: a return of 7 is a score of 70; pairs are differences on the same seed."""
    values = {
        (LOGGING, "random"): [-1.0, 1.0],
        (LOGGING, "expert"): [8.0, 12.0],
        (CLONE, "medium"): [4.0, 6.0],
        (PLAIN, "medium"): [7.0, 7.0],
        (PENALISED, "medium"): [6.0, 9.0],
    }
    found = {
        (learner, "hopper", level): [{"seed": seed, "value": value} for seed, value in enumerate(own)]
        for (learner, level), own in values.items()
    }
    assert experiment.scored(found, PLAIN, "hopper", "medium") == [70.0, 70.0]
    differences = {row["difference"]: row for row in experiment.pairs(found, ("hopper",))}
    assert differences[f"{PLAIN} - {CLONE}"]["score"] == pytest.approx(20.0)
    assert differences[f"{PLAIN} - {CLONE}"]["standard error"] == pytest.approx(10.0)
    assert differences[f"{PENALISED} - {PLAIN}"]["won"] == "1 of 2"


def test_d3rlpy_is_given_what_the_environment_saw() -> None:
    """Clipped actions; the first episode fell, the second was cut short."""
    actions = np.array([[2.0], [0.5], [-3.0]])
    made = Episodes(np.zeros((3, 2)), actions, np.arange(3.0), np.array([0, 1, 3]), np.array([True, False]))
    arrays = peer_arrays(made)
    assert arrays["actions"][:, 0].tolist() == [1.0, 0.5, -1.0]
    assert arrays["terminals"].tolist() == [1, 0, 0]
    assert arrays["timeouts"].tolist() == [0, 0, 1]


def test_a_log_is_told_apart_by_what_it_is_and_not_by_its_folder(tmp_path: Path) -> None:
    assert repr(RobotLog("hopper", "medium", 1, 200, tmp_path)) == repr(
        RobotLog("hopper", "medium", 1, 200, tmp_path / "other")
    )
    assert json.dumps(repr(tmp_path)) not in repr(RobotLog("hopper", "medium", 1, 200, tmp_path))
