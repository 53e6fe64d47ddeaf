"""Outcomes that stand otherwise than they happened void weights; ordinary ones say nothing."""

import numpy as np
import pytest

from poela.data.trajectories import Trajectories
from poela.studies.audit import outcome_slips


def _logs(rewards: np.ndarray, length: int) -> Trajectories:
    offsets = np.arange(0, len(rewards) + 1, length)
    return Trajectories(np.zeros((len(rewards), 1)), np.zeros(len(rewards), np.int64), rewards, offsets, n_actions=2)


def _kinds(rewards: np.ndarray, length: int) -> list[str]:
    slips = outcome_slips(_logs(np.asarray(rewards, np.float64), length))
    assert all(slip.voids_weights for slip in slips)
    return [slip.kind for slip in slips]


def test_an_outcome_of_the_stay_in_each_of_its_rows_is_found() -> None:
    rng = np.random.default_rng(0)
    assert _kinds(np.repeat(rng.normal(size=100), 3), 3) == ["repeated"]
    died = np.repeat(rng.random(400) < 0.1, 3)
    assert _kinds(died, 3) == ["repeated"]


@pytest.mark.parametrize("length", [1, 4])
def test_ordinary_outcomes_say_nothing(length: int) -> None:
    rng = np.random.default_rng(1)
    size = 400 * length
    at_the_end = np.where(np.arange(size) % length == length - 1, rng.normal(size=size), 0)
    each_step = rng.normal(size=size)
    rare = rng.random(size) < 0.02
    alive = np.ones(size)  # as in CartPole: each step earns the same, in every episode
    for rewards in (at_the_end, each_step, rare, alive, np.zeros(size), -rng.pareto(3, size)):
        assert _kinds(rewards, length) == []


def test_a_code_for_no_outcome_is_found_and_numbers_among_others_are_not() -> None:
    rng = np.random.default_rng(2)
    score, income = rng.normal(size=500), rng.uniform(0, 5000, 500)
    coded = rng.random(500) < 0.02
    assert coded.sum() >= 3
    assert _kinds(np.where(coded, -999, score), 1) == ["code"]
    assert _kinds(np.where(coded, 99, score), 1) == ["code"]
    assert _kinds(np.where(coded, 999, income), 1) == []
    assert _kinds(np.where(np.arange(500) == 7, -999, score), 1) == []  # once is an outlier
