"""Objects in the place of names: foreign learners, policies, classifiers and regressors in studies."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression

import poela
from poela.behavior.classifier import ClassifierBehavior
from poela.core.errors import InputError, PoelaWarning
from poela.core.references import reference
from poela.data.trajectories import Trajectories
from poela.studies.candidates import Candidate
from poela.studies.defaults import SUPPORTED, default_candidates
from poela.studies.study import Study

QUICK: dict[str, Any] = {"folds": 2, "no_audit": True}


@pytest.fixture(scope="module")
def logs() -> Trajectories:
    """One decision each, between two actions: the second is better by 2 where x > 0, worse by 2 elsewhere."""
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(400, 1))
    actions = rng.integers(0, 2, 400)
    rewards = np.where(contexts[:, 0] > 0, 2.0, -2.0) * actions + rng.normal(size=400)
    return Trajectories(contexts, actions, rewards, np.arange(401), np.full((400, 2), 0.5))


class Threshold:
    """Takes the second action above a threshold that it learns, four times in five; remembers what it was taught."""

    def fit(self, logs: Trajectories) -> "Threshold":
        x, taken = logs.contexts[:, 0], logs.actions == 1
        self.better = logs.rewards[taken & (x > 0)].mean() > logs.rewards[~taken & (x > 0)].mean()
        self.n_seen = logs.n_episodes
        return self

    def probabilities(self, contexts: NDArray[np.float32]) -> NDArray[np.float64]:
        second = np.where((contexts[:, 0] > 0) == self.better, 0.8, 0.2)
        return np.column_stack([1 - second, second])


class Always:
    """A policy that is there already."""

    def probabilities(self, contexts: NDArray[np.float32]) -> NDArray[np.float64]:
        return np.tile([0.0, 1.0], (len(contexts), 1))


@pytest.mark.parametrize("backend", ["inline", "local"])
def test_a_foreign_learner_is_judged_and_decides(logs: Trajectories, backend: str) -> None:
    study = poela.learn(logs, learners=[Threshold(), Always(), "consensus"], backend=backend, jobs=1, **QUICK)
    assert {run.status for run in study.runs.values()} == {"done"}
    assert study.choice.chosen is not None
    assert study.origin(study.choice.chosen)[0].candidate.learner == "Threshold"
    # The learned policy itself is worth (0.8 − 0.5)·2 more where x > 0 and as much where x < 0.
    assert study.gain is not None
    assert study.gain.value == pytest.approx(0.6, abs=0.2)
    decided = study.decide({"x0": [-1.0, 1.0]})
    np.testing.assert_allclose(decided["propensity_1"], [0.2, 0.8])
    assert study.decide({"x0": [-1.0, 1.0]}).equals(decided)


def test_workers_find_what_this_process_finds(logs: Trajectories) -> None:
    both = [
        poela.learn(logs, learners=[Threshold(), lambda logs: Threshold().fit(logs)], backend=backend, jobs=1, **QUICK)
        for backend in ("inline", "local")
    ]
    assert [point.metrics for point in both[0].points] == [point.metrics for point in both[1].points]
    assert both[0].decide({"x0": [0.5]}).equals(both[1].decide({"x0": [0.5]}))


def test_folds_do_not_overwrite_what_each_other_learned(logs: Trajectories) -> None:
    learner = Threshold()
    study = poela.learn(logs, learners=[learner], backend="inline", **QUICK)
    assert not hasattr(learner, "n_seen")  # copies are fitted
    policies = [study.fold_policy(study.points[0], fold) for fold in (0, 1)]
    assert policies[0].content_hash != policies[1].content_hash


def test_what_goes_wrong_in_a_foreign_learner_ends_its_run_alone(logs: Trajectories) -> None:
    class Broken:
        def fit(self, logs: Trajectories) -> None:
            raise KeyError("no such thing")

    class Crooked(Always):
        def probabilities(self, contexts: NDArray[np.float32]) -> NDArray[np.float64]:
            return np.ones((len(contexts), 2))

    study = poela.learn(logs, learners=[Broken(), Crooked(), "consensus"], backend="inline", **QUICK)
    messages = {run.task.candidate.learner: run.message for run in study.runs.values()}
    assert messages["Broken"] == "Broken failed: KeyError: 'no such thing'"
    assert "do not sum to 1" in messages["Crooked"]
    assert messages["consensus"] == ""


def test_saving_says_what_cannot_be_saved_and_not_before(logs: Trajectories, tmp_path: Path) -> None:
    with pytest.warns(PoelaWarning, match="made of Threshold, an object of this Python session"):
        study = poela.learn(logs, learners=[Threshold()], backend="inline", out=tmp_path / "study", **QUICK)
    with pytest.raises(InputError, match="cannot be saved, since it is made of Threshold"):
        study.policy.save(tmp_path / "policy")
    assert not (tmp_path / "policy").exists()
    assert not (tmp_path / "study" / "policy").exists()
    code = f"""
import poela
study = poela.Study.open({str(tmp_path / "study")!r})
print(study.answer.kind, len(study.table()) > 0)
try:
    study.decide({{"x0": [0.5]}})
except poela.InputError as problem:
    print(problem)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    kind, sentence = done.stdout.splitlines()
    assert kind == "change True"
    assert "Threshold was an object of the Python session that used it, which no file can hold" in sentence


def test_no_stored_file_holds_code(logs: Trajectories, tmp_path: Path) -> None:
    with pytest.warns(PoelaWarning, match="no file can hold"):
        poela.learn(logs, learners=[Threshold()], backend="local", jobs=1, out=tmp_path / "study", **QUICK)
    for path in (tmp_path / "study").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert b"cloudpickle" not in content
            assert b"\x80\x05\x95" not in content  # how a pickle begins


def test_what_cannot_travel_says_so(logs: Trajectories) -> None:
    class Stuck(Always):
        def __init__(self) -> None:
            self.generator = (number for number in range(3))

    with pytest.raises(InputError, match=r"Stuck cannot be sent between processes .*backend='inline'"):
        poela.learn(logs, learners=[Stuck()], backend="local", jobs=1, **QUICK)


@pytest.mark.parametrize("backend", ["inline", "local"])
def test_a_classifier_is_a_behavior_model_inside_folds(backend: str) -> None:
    rng = np.random.default_rng(1)
    contexts = rng.normal(size=(600, 1))
    truth = 1 / (1 + np.exp(-contexts[:, 0]))
    actions = (rng.random(600) < truth).astype(int)
    logs = Trajectories(contexts, actions, actions * 1.0, np.arange(601))
    study = poela.learn(logs, learners=["consensus"], behavior=LogisticRegression(), backend=backend, jobs=1, **QUICK)
    assert "estimated, since the logs carry none, by LogisticRegression()" in study.record.data.propensities
    assert {run.status for run in study.runs.values()} == {"done"}
    assert study.settings.behavior.startswith("LogisticRegression()")


def test_a_classifier_estimates_propensities_as_they_were() -> None:
    rng = np.random.default_rng(2)
    contexts = rng.normal(size=(4000, 1))
    truth = 1 / (1 + np.exp(-2 * contexts[:, 0]))
    logs = Trajectories(contexts, (rng.random(4000) < truth).astype(int), np.zeros(4000), np.arange(4001))
    annotated = ClassifierBehavior(LogisticRegression()).annotate(logs)
    assert annotated.propensities is not None
    assert np.abs(annotated.propensities[:, 1] - truth).max() < 0.05


def test_a_regressor_gives_the_values_that_it_predicts(logs: Trajectories) -> None:
    policy = poela.FittedQ(regressor=LinearRegression(), temperature=1.0, temperatures=()).fit(logs)
    design = np.column_stack([logs.contexts[:, 0], logs.actions == 0, logs.actions == 1])
    solution = np.linalg.lstsq(design, logs.rewards, rcond=None)[0]
    tilt = np.exp(solution[2] - solution[1])  # of one action against the other, at any context
    np.testing.assert_allclose(policy.along(logs)[:, 1], tilt / (1 + tilt), rtol=1e-6)
    with pytest.raises(InputError, match="made of LinearRegression"):
        policy.save("nowhere")


def test_our_own_parts_stay_storable_beside_objects(logs: Trajectories, tmp_path: Path) -> None:
    study = poela.learn(logs, learners=[poela.FittedQ(temperatures=(2.0,)), "consensus"], backend="inline", **QUICK)
    study.policy.save(tmp_path / "policy")
    assert poela.load_policy(tmp_path / "policy").content_hash == study.policy.content_hash


def test_equal_objects_are_one_candidate_and_others_are_not() -> None:
    one, same, other = (Candidate("fittedq", {"regressor": LogisticRegression(C=c)}) for c in (1.0, 1.0, 2.0))
    assert one == same != other
    assert str(other) == "fittedq regressor=LogisticRegression(C=2.0)"
    assert reference(lambda logs: 1) != reference(lambda logs: 2)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"learners": [Threshold]}, "give an object, Threshold"),
        ({"learners": [3]}, "3 is no learner"),
        ({"behavior": LogisticRegression}, "behavior is the class LogisticRegression"),
        ({"behavior": 3}, "behavior is 3: give a name"),
        ({"candidates": [Candidate("fittedq", {"regressor": 3j})]}, "fit and predict"),
    ],
)
def test_what_is_no_object_of_the_kind_is_refused(logs: Trajectories, wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        poela.learn(logs, **wrong)


@pytest.mark.parametrize(
    "settings",
    [poela.POELA(radius=0.2), poela.FittedQ(), poela.KNNBehavior(k=7), poela.Eligibility(radius=0.1), poela.Rules()],
    ids=lambda one: type(one).__name__,
)
def test_settings_can_be_cloned_and_changed_by_name(settings: poela.Learner) -> None:
    copy = clone(settings)
    assert copy.get_params() == settings.get_params()
    assert type(copy) is type(settings)
    name, value = next(item for item in settings.get_params().items() if isinstance(item[1], int | float))
    assert settings.set_params(**{name: value}).get_params() == settings.get_params()
    with pytest.raises(InputError, match="has no setting 'nothing'"):
        settings.set_params(nothing=1)


def test_settings_within_settings_are_reached_by_name() -> None:
    learner = poela.FittedQ(rule=poela.Eligibility(radius=0.1))
    assert learner.get_params()["rule__radius"] == 0.1
    assert learner.set_params(rule__radius=0.3).rule == poela.Eligibility(radius=0.3)


def test_a_study_that_was_opened_has_a_readable_repr(logs: Trajectories, tmp_path: Path) -> None:
    poela.learn(logs, learners=["consensus"], backend="inline", out=tmp_path, **QUICK)
    assert "2 of 2 runs" in repr(Study.open(tmp_path))


def test_the_smallest_learner_of_the_guide_runs(logs: Trajectories) -> None:
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(import numpy.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line for line in code.splitlines() if line]
    assert sum(line.startswith("import") for line in lines) == 2
    assert len(lines) <= 10
    names: dict[str, Any] = {}
    exec(code, names)
    rates = names["Rates"]().fit(logs).probabilities(logs.contexts)[0]
    np.testing.assert_allclose(rates, np.bincount(logs.actions) / len(logs.actions))
    study = poela.learn(logs, learners=[names["Rates"]()], backend="inline", **QUICK)
    assert {run.status for run in study.runs.values()} == {"done"}


def test_the_page_of_a_study_with_objects_says_that_no_command_makes_it(logs: Trajectories, tmp_path: Path) -> None:
    study = poela.learn(logs, learners=[Threshold(), "consensus"], backend="inline", **QUICK)
    page = study.report(tmp_path / "page.html", logs).read_text(encoding="utf-8")
    assert "No command makes this study: it was made with objects of a Python session (Threshold)" in page
    assert "poela learn LOGS" not in page


def test_learners_from_elsewhere_are_held_to_the_usual_rule(logs: Trajectories) -> None:
    for thing in (Threshold(), Always(), lambda logs: Threshold().fit(logs)):
        (candidate,) = default_candidates([thing])
        assert dict(candidate.settings["rule"]) == SUPPORTED
        (free,) = default_candidates([thing], ruled=False)
        assert "rule" not in free.settings
