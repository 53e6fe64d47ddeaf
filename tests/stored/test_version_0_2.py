"""Files that version 0.2 wrote are read as they were meant."""

import tarfile
from pathlib import Path

import numpy as np
import pytest

import poela
from poela.data.trajectories import Trajectories
from poela.studies.study import Study

HERE = Path(__file__).parent
# What version 0.2 itself said of this study.
LOW, VALUE = 0.2822257789659824, 0.4678748773571429
SECOND_ACTION = (0.8107260541192888, 0.9147654757259456, 0.6765748838462659, 0.984011831511939, 0.6375274224538257)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    with tarfile.open(HERE / "study-0.2.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return Study.open(tmp_path / "study-0.2")


@pytest.fixture
def logs() -> Trajectories:
    logs = poela.read_logs(HERE / "logs-0.2.parquet")
    assert isinstance(logs, Trajectories)
    return logs


def test_its_answer_is_what_it_was(study: Study) -> None:
    assert study.gain is not None
    assert (study.gain.low, study.gain.value) == (LOW, VALUE)
    assert len(study.runs) == 4


@pytest.mark.parametrize("of", ["the study", "a run", "the folder"])
def test_its_policy_acts_as_it_did(of: str, study: Study, logs: Trajectories) -> None:
    assert study.choice.chosen is not None
    policies = {
        "the study": lambda: study.policy,
        "a run": lambda: study.policy_of(study.choice.chosen),
        "the folder": lambda: poela.load_policy(study.directory / "policy"),
    }
    np.testing.assert_allclose(policies[of]().probabilities(logs.contexts[:5])[:, 1], SECOND_ACTION, rtol=1e-12)


def test_it_can_be_judged_again(study: Study) -> None:
    held_out = [study.store.held_out(run_id) for run_id in study.runs]
    assert all(np.isfinite(part.log_weights).any() for part in held_out)
