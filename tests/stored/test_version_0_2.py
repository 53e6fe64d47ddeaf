"""Files that version 0.2 wrote are read as they were meant."""

import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import poela
from poela.data.trajectories import Trajectories
from poela.studies.records import ChoiceRecord
from poela.studies.study import Study

HERE = Path(__file__).parent
# What version 0.2 itself said of this study.
LOW, VALUE = 0.2822257789659824, 0.4678748773571429
SECOND_ACTION = (0.8107260541192888, 0.9147654757259456, 0.6765748838462659, 0.984011831511939, 0.6375274224538257)
# And of doses, in a study of the first days of that version.
DOSES_LOW, DOSES_VALUE = -0.2304296641045805, -0.05401807333033304
MEANS = (3.077906642944268, 3.424898238229823, 3.40338170525424, 3.8190542249403374, 2.6125535717858113)
LOG_DENSITIES = (-1.1281277431448982, -1.434406941388208, -1.0206006954532025, -0.6279798074155386, -1.020963448290321)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return unpacked("study-0.2", tmp_path)


@pytest.fixture
def doses(tmp_path: Path) -> Study:
    return unpacked("doses-study-0.2", tmp_path)


def unpacked(name: str, folder: Path) -> Study:
    with tarfile.open(HERE / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return Study.open(folder / name)


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


def test_a_study_of_doses_has_its_answer_and_its_policies(doses: Study) -> None:
    assert doses.gain is not None
    assert (doses.gain.low, doses.gain.value) == (DOSES_LOW, DOSES_VALUE)
    assert str(doses.answer).startswith("Keep what you do: nothing is shown to be better")
    logs = poela.read_logs(HERE / "doses-0.2.parquet")
    promising = poela.load_policy(doses.directory / "promising")
    assert promising.action_names == ("dose",)
    np.testing.assert_allclose(promising.moments(logs.contexts[:5])[0][:, 0], MEANS, rtol=1e-6)
    found = doses.fold_policy(doses.points[-1], 0).log_density(logs.contexts[:5], logs.actions[:5])
    np.testing.assert_allclose(found, LOG_DENSITIES, rtol=1e-6)


def test_a_result_of_other_settings_is_none_of_the_study(doses: Study) -> None:
    settings = doses.settings
    stricter = replace(settings.scoring.thresholds, outside_share=(0.02, 0.1))
    other = replace(doses.record, settings=replace(settings, scoring=replace(settings.scoring, thresholds=stricter)))
    stored = doses.store.read(ChoiceRecord)
    assert stored is not None
    assert doses.record.is_of(stored.study)
    assert not other.is_of(stored.study)
    assert not replace(doses.record, settings=replace(settings, seed=1)).is_of(stored.study)
