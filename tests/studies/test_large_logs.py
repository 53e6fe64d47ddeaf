"""Large logs: what rests on a part of the log, and what is read again, changes no claim."""

from pathlib import Path

import numpy as np
import pytest

import poela
from poela.data.trajectories import Trajectories
from poela.evaluation import value_model
from poela.learners import value_learner
from poela.regression import ridge
from poela.studies import final_gain, logging_policy, pooled_points, samples
from poela.studies.logging_policy import best_behavior


def logs_of(count: int) -> Trajectories:
    """Two actions by lot; the second one gains where the first feature is positive, and loses as much elsewhere."""
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(count, 3)).astype(np.float32)
    actions = rng.integers(2, size=count)
    rewards = actions * np.sign(contexts[:, 0]) + 0.5 * rng.normal(size=count)
    return Trajectories(contexts, actions, rewards, np.arange(count + 1), np.full(count, 0.5), n_actions=2)


def test_evidence_that_is_read_again_gives_the_same_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = logs_of(300)
    plain = poela.learn(logs, out=tmp_path / "plain", learners=["fittedq", "consensus"], backend="inline")
    for module in (pooled_points, final_gain):
        monkeypatch.setattr(module, "MOST_KEPT", 0)
    again = poela.learn(logs, out=tmp_path / "again", learners=["fittedq", "consensus"], backend="inline")
    assert again.points == plain.points
    assert again.gain == plain.gain


def test_a_study_that_rests_on_parts_says_so_and_finds_what_is_to_be_gained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_model, "MANY_SINGLE", 200)
    for module, name, most in (
        (value_model, "MOST_FITTED", 200),
        (samples, "MOST_FITTED", 200),
        (value_learner, "MOST_COMPARED", 200),
        (samples, "MOST_COMPARED", 200),
        (ridge, "MOST_LEFT_OUT", 200),
        (samples, "MOST_LEFT_OUT", 200),
        (logging_policy, "MANY_STEPS", 200),
        (logging_policy, "MOST_COMPARED", 200),
        (logging_policy, "MOST_BESIDE", 200),
    ):
        monkeypatch.setattr(module, name, most)
    study = poela.learn(logs_of(1000), out=tmp_path / "study", learners=["fittedq"], backend="inline")
    note = study.record.data.propensities
    assert "fitted on about 200 of 1,000 steps" in note
    assert "of 1,000 decisions every one teaches" in note
    assert "values that steady the weights are fitted on 200" in note
    # The best policy takes the second action where it gains: 1/2 for half of the cases, beside half of that by lot.
    assert study.record.data.validation_episodes == 1000
    assert study.gain is not None
    assert study.gain.low is not None
    assert 0.2 < study.gain.low < 0.5 < study.gain.value + 0.15


def test_neighbours_are_not_compared_on_large_logs(tiny_logs: Trajectories, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging_policy, "MANY_STEPS", tiny_logs.n_steps - 1)
    monkeypatch.setattr(logging_policy, "MOST_COMPARED", tiny_logs.n_steps // 2)
    assert set(best_behavior(tiny_logs.with_propensities(None), seed=0)[1]) == {"multinomial", "boosted"}
