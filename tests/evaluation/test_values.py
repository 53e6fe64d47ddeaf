"""Values of Q models that the caller gives."""

from typing import Any

import numpy as np
import pytest
from tests.problems import BEHAVIOR, PROBLEM, TARGET

from poela.core.errors import InputError
from poela.data.trajectories import Trajectories
from poela.evaluation.evaluate import evaluate
from poela.evaluation.value_model import given_values
from poela.simulators.episodes import run


@pytest.fixture(scope="module")
def logs() -> Trajectories:
    return run(PROBLEM, BEHAVIOR, episodes=2000, seed=0)


class ExactQ:
    def q(self, trajectories: Trajectories) -> Any:
        return PROBLEM.q_values(TARGET.table)[trajectories.step_numbers, trajectories.contexts.argmax(axis=1)]


def test_a_given_model_is_used_as_it_is(logs: Trajectories) -> None:
    starts = np.bincount(logs.initial_contexts.argmax(axis=1), minlength=2) / logs.n_episodes
    exact = float(starts @ (TARGET.table * PROBLEM.q_values(TARGET.table)[0]).sum(axis=1))
    assert evaluate(TARGET, logs, estimator="direct", q=ExactQ(), interval=None).value == pytest.approx(
        exact, abs=1e-12
    )


def test_the_exact_model_leaves_weighted_doubly_robust_a_smaller_error(logs: Trajectories) -> None:
    plain = evaluate(TARGET, logs, estimator="cwpdis", interval=None)
    helped = evaluate(TARGET, logs, estimator="wdr", q=ExactQ(), interval=None)
    assert helped.standard_error < plain.standard_error


class Fixed:
    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def q(self, trajectories: Trajectories) -> Any:
        return self.rows


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (object(), "object is no Q model"),
        (Fixed(np.zeros((2, 3))), r"shape \(2, 3\) where the logs need \(2, 2\)"),
        (Fixed(np.array([[0.0, 0.0], [np.nan, 0.0]])), "1 rows of the Q model are NaN or infinite, first at step 1"),
    ],
)
def test_bad_models_are_refused(model: Any, message: str) -> None:
    logs = Trajectories([[0.0], [0.0]], [0, 1], [1.0, 2.0], [0, 1, 2])
    with pytest.raises(InputError, match=message):
        given_values(model, np.full((2, 2), 0.5), logs)
