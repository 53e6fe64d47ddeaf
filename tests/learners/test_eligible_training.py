"""Remembered distances give the masks that fresh ones give."""

import gc

import numpy as np
import pytest

from poela.data.trajectories import Trajectories
from poela.eligibility.rules import Eligibility
from poela.learners import eligible_training
from poela.learners.eligible_training import eligible_in_training


def logs() -> Trajectories:
    rng = np.random.default_rng(0)
    return Trajectories(rng.normal(size=(60, 2)), rng.integers(3, size=60), np.zeros(60), np.arange(0, 61, 6))


@pytest.mark.parametrize("other", [{}, {"metric": "euclidean"}, {"neighbours": "same_step"}, {"weights": (1.0, 0.0)}])
def test_masks_equal_those_of_the_rule_alone(other: dict[str, object]) -> None:
    data = logs()
    for radius in (0.05, 0.3, 1.0):
        rule = Eligibility(radius=radius, **other)  # type: ignore[arg-type]
        fitted, mask = eligible_in_training(rule, data, None)
        np.testing.assert_array_equal(mask, rule.fit(data).mask(data.contexts, data.step_numbers))
        assert fitted.settings == rule


def test_distances_are_measured_once_and_go_with_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    data = logs()
    eligible_in_training(Eligibility(radius=0.1), data, None)
    held = len(eligible_training._distances)
    fitted = Eligibility(radius=0.1).fit(data)
    monkeypatch.setattr(type(fitted), "distances", lambda *args: pytest.fail("measured again"))
    eligible_in_training(Eligibility(radius=0.7), data, None)
    del data, fitted
    gc.collect()
    assert len(eligible_training._distances) < held
