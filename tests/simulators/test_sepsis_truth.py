"""Exact and variance-reduced truth in the sepsis simulator."""

import numpy as np
import pytest
from numpy.typing import ArrayLike

from poela.core.arrays import Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.policy import LoggedSteps, Memoryless
from poela.data.cohorts import FEATURES
from poela.simulators.episodes import run
from poela.simulators.sepsis import Sepsis, SepsisBehavior
from poela.simulators.sepsis_truth import best_sepsis_value, exact_sepsis_value, sepsis_value
from poela.simulators.tabular import TabularMDP

UNIFORM = np.full((713, 25), 1 / 25)


@pytest.mark.parametrize(
    ("variant", "extra_death", "truncated", "expert", "uniform", "optimal"),
    [
        # The authors of icu-sepsis publish 0.78 for clinicians and for random actions, and 0.88 for the optimum.
        ("harmless", None, False, 78.18, 78.01, 87.51),
        ("harmless", None, True, 78.18, 78.03, 85.86),
        # Actions without support act as the mean of the others, and 2% of those who get one die.
        ("harmless", 0.02, False, 76.55, 66.94, None),
        # They act as the worst of the others, and 2% die.
        ("harmful", None, False, 74.70, 59.09, None),
        ("harmful", None, True, 74.70, 60.65, None),
    ],
)
def test_exact_values(
    variant: str, extra_death: float | None, truncated: bool, expert: float, uniform: float, optimal: float | None
) -> None:
    simulator = Sepsis(variant, extra_death)
    assert exact_sepsis_value(simulator.model.expert, simulator, truncated) == pytest.approx(expert, abs=0.006)
    assert exact_sepsis_value(UNIFORM, simulator, truncated) == pytest.approx(uniform, abs=0.006)
    if optimal is not None:
        assert best_sepsis_value(simulator, truncated) == pytest.approx(optimal, abs=0.006)


def test_exact_values_are_those_of_the_general_finite_problem() -> None:
    simulator = Sepsis("harmful")
    model = simulator.model
    outcomes = model.outcomes[model.row_of]
    problem = TabularMDP(
        outcomes[:, :, :713], 100 * outcomes[:, :, 713], model.initial, horizon=20, final=100 * model.expert_values
    )
    table = np.random.default_rng(0).dirichlet(np.ones(25), size=713)
    assert exact_sepsis_value(table, simulator) == pytest.approx(problem.value(table), abs=1e-9)
    assert best_sepsis_value(simulator) == pytest.approx(problem.optimal()[0], abs=1e-9)


class Uniform(Memoryless):
    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        return np.full((len(np.asarray(contexts)), 25), 1 / 25)


class BySofa(Memoryless):
    """More vasopressor for those who look worse: depends on the context, and not on the logging policy."""

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        sofa = np.asarray(contexts, np.float64)[:, FEATURES.index("SOFA")]
        scores = np.outer(sofa, np.arange(25) % 5)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("variant", ["harmless", "harmful"])
def test_identity_gives_the_exact_value_where_it_is_known(variant: str) -> None:
    simulator = Sepsis(variant)
    truth = sepsis_value(Uniform(), simulator, episodes=4000, seed=3)
    assert abs(truth.value - exact_sepsis_value(UNIFORM, simulator)) < 4 * truth.standard_error
    assert 0 < truth.standard_error < 0.3


@pytest.mark.parametrize("policy", [BySofa(), SepsisBehavior()])
def test_identity_agrees_with_plain_returns_at_a_fraction_of_the_variance(policy: Memoryless) -> None:
    simulator = Sepsis("harmful")
    returns = run(simulator, policy, episodes=4000, seed=5).returns()
    plain_error = returns.std() / np.sqrt(len(returns))
    truth = sepsis_value(policy, simulator, episodes=4000, seed=5)
    assert abs(truth.value - returns.mean()) < 4 * np.hypot(plain_error, truth.standard_error)
    assert truth.standard_error < plain_error / 3


class Steady:
    """Always gives what was given first: a policy with memory."""

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        raise AssertionError("a policy with memory must act through its actor")

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        raise AssertionError("not asked in roll-outs")

    def actor(self, n: int) -> "SteadyActor":
        return SteadyActor(n)


class SteadyActor:
    def __init__(self, n: int) -> None:
        self.first: IntArray | None = None
        self.n = n

    def probabilities(self, contexts: Float32Array) -> FloatArray:
        assert contexts.shape == (self.n, 44)
        return np.full((self.n, 25), 1 / 25) if self.first is None else np.eye(25)[self.first]

    def record(self, actions: IntArray) -> None:
        self.first = actions.copy() if self.first is None else self.first


def test_policies_with_memory_have_a_truth_too() -> None:
    simulator = Sepsis("harmful")
    truth = sepsis_value(Steady(), simulator, episodes=3000, seed=1)
    model = simulator.model
    always = [exact_sepsis_value(np.eye(25)[np.full(713, action)], simulator) for action in range(25)]
    assert model.admissible.shape == (713, 25)
    assert abs(truth.value - np.mean(always)) < 4 * truth.standard_error


def test_equal_seeds_give_equal_bits() -> None:
    values = [sepsis_value(BySofa(), Sepsis(), episodes=200, seed=seed) for seed in (0, 0, 1)]
    assert values[0] == values[1] != values[2]


def test_one_roll_out_has_no_standard_error() -> None:
    with pytest.raises(InputError, match="at least 2"):
        sepsis_value(Uniform(), Sepsis(), episodes=1)
