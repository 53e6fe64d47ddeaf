"""Propensities of the nearest logged context: one model for each log, which is asked once."""

from typing import Any

import numpy as np
import pytest

from poela.behavior.propensities import NearestPropensities, nearest_propensities
from poela.core.arrays import FloatArray
from poela.core.policy import along_once
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import Eligibility
from poela.learners.learner import logging_policy
from poela.neighbours.scales import FeatureScale
from poela.neighbours.search import Neighbours


def logs_of(seed: int) -> Trajectories:
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet(np.ones(2), size=30)
    return Trajectories(rng.normal(size=(30, 2)), np.arange(30) % 2, np.zeros(30), np.arange(31), propensities=chances)


def chances_of(logs: Trajectories) -> FloatArray:
    assert logs.propensities is not None
    return logs.propensities


def test_candidates_of_one_log_ask_once(monkeypatch: pytest.MonkeyPatch) -> None:
    train, held_out = logs_of(0), logs_of(1)
    expected = NearestPropensities(train.contexts, chances_of(train)).along(held_out)
    asked = []
    plain = Neighbours.nearest

    def recorded(own: Neighbours, queries: Any) -> Any:
        asked.append(queries)
        return plain(own, queries)

    monkeypatch.setattr(Neighbours, "nearest", recorded)
    for _ in range(3):
        rule = Eligibility(relative_probability=0.1).fit(train, None)
        for model in (logging_policy(train, None), rule.behavior):
            np.testing.assert_array_equal(along_once(model, held_out), expected)
    assert len(asked) == 1


def test_other_scales_and_other_logs_have_their_own_models() -> None:
    train, wide = logs_of(0), FeatureScale(np.array([1.0, 100.0]))
    models = [nearest_propensities(train), nearest_propensities(train, wide), nearest_propensities(logs_of(1))]
    assert len({id(model) for model in models}) == 3
    contexts = logs_of(2).contexts
    plain = NearestPropensities(train.contexts, chances_of(train), wide)
    np.testing.assert_array_equal(models[1].probabilities(contexts), plain.probabilities(contexts))
    assert not np.array_equal(models[1].probabilities(contexts), models[0].probabilities(contexts))
