"""Remembered distances give the masks that fresh ones give."""

import gc

import numpy as np
import pytest

from poela.core import log_cache
from poela.data.trajectories import Trajectories
from poela.eligibility.logged import LoggedContexts
from poela.eligibility.rules import Eligibility
from poela.learners.learner import eligible_in_training


def logs() -> Trajectories:
    rng = np.random.default_rng(0)
    return Trajectories(rng.normal(size=(60, 2)), rng.integers(3, size=60), np.zeros(60), np.arange(0, 61, 6))


@pytest.mark.parametrize("other", [{}, {"metric": "euclidean"}, {"neighbours": "same_step"}, {"weights": (1.0, 0.0)}])
def test_masks_equal_those_of_the_rule_alone(other: dict[str, object]) -> None:
    data = logs()
    for radius in (0.05, 0.3, 1.0):
        rule = Eligibility(radius=radius, **other)  # type: ignore[arg-type]
        fitted, eligible = eligible_in_training(rule, data, None)
        np.testing.assert_array_equal(eligible.mask, rule.fit(data).mask(data.contexts, data.step_numbers))
        assert fitted.settings == rule


def test_distances_are_measured_once_and_go_with_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    data = logs()
    eligible_in_training(Eligibility(radius=0.1), data, None)
    held = len(log_cache._known)
    fitted = Eligibility(radius=0.1).fit(data)
    monkeypatch.setattr(LoggedContexts, "squared_distances", lambda *args: pytest.fail("measured again"))
    eligible_in_training(Eligibility(radius=0.7), data, None)
    with pytest.raises(pytest.fail.Exception):
        eligible_in_training(Eligibility(radius=0.7), logs(), None)
    del data, fitted
    gc.collect()
    assert len(log_cache._known) < held


def test_behaviors_are_not_mistaken_for_each_other() -> None:
    data = logs()
    for chances in ([0.9, 0.05, 0.05], [0.05, 0.9, 0.05]):
        known = data.with_propensities(np.tile(chances, (60, 1)))
        mask = Eligibility(minimum_probability=0.5).fit(known).along(data).mask
        np.testing.assert_array_equal(mask, np.tile(np.array(chances) > 0.5, (60, 1)))
