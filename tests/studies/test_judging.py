"""Folds put together: means by their number of episodes, and errors as those of independent parts."""

import numpy as np
import pytest

from poela.studies.held_out import HeldOut
from poela.studies.judging import _averaged


def held_out(episodes: int) -> HeldOut:
    return HeldOut(np.zeros((1, episodes)), np.zeros((1, 1, episodes), np.float32))


def test_the_metrics_of_folds_of_different_sizes_by_hand() -> None:
    folds: list[dict[str, float | None]] = [
        {"wdr": 1.0, "wdr_error": 0.3, "model": None},
        {"wdr": 3.0, "wdr_error": 0.4, "model": 2.0},
    ]
    found = _averaged(folds, [held_out(10), held_out(30)])
    assert found["wdr"] == pytest.approx(0.25 * 1.0 + 0.75 * 3.0)
    assert found["wdr_error"] == pytest.approx(np.sqrt((0.25 * 0.3) ** 2 + (0.75 * 0.4) ** 2))
    assert found["model"] is None


def test_the_error_of_equal_folds_is_that_of_their_mean() -> None:
    """Five means of 20 numbers each, and the mean of all 100."""
    values = np.random.default_rng(0).normal(size=(5, 20)) * np.array([[1.0], [2.0], [0.5], [3.0], [1.0]])
    errors = values.std(axis=1) / np.sqrt(20)
    found = _averaged([{"wdr_error": float(error)} for error in errors], [held_out(20)] * 5)
    around = values - values.mean(axis=1, keepdims=True)
    assert found["wdr_error"] == pytest.approx(np.sqrt(np.square(around).sum()) / 100)
