"""Log densities that cannot be those of the logged actions are named as wrong, and right ones never are."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

import poela
from poela import Candidate, GaussianBehavior, Trajectories
from poela.core.errors import PoelaWarning
from poela.evaluation.densities import density_problem
from poela.simulators.registry import simulate

N = 600
RNG = np.random.default_rng(1)
X = RNG.normal(size=(N, 2))
NORMAL, SIDES, LEVELS = RNG.normal(size=N), RNG.choice([-3.0, 3.0], N), RNG.choice([1.0, 2.0, 5.0, 10.0], N)
JUMP = np.where(X[:, 0] > 0, 10.0, 2.0)


def logged(actions: Any, log_densities: Any) -> Trajectories:
    return Trajectories(X, actions[:, None], np.zeros(N), np.arange(N + 1), log_densities=log_densities)


def right(shape: str) -> Trajectories:
    if shape == "linear":
        return logged(X[:, 0] + NORMAL, stats.norm.logpdf(NORMAL))
    if shape == "a jump with little noise":
        return logged(JUMP + 0.3 * NORMAL, stats.norm.logpdf(NORMAL) - np.log(0.3))
    if shape == "two peaks":
        doses = SIDES + 0.2 * NORMAL
        return logged(doses, np.log(stats.norm.pdf(doses, 3, 0.2) / 2 + stats.norm.pdf(doses, -3, 0.2) / 2))
    if shape == "four levels with gaps":
        return logged(LEVELS + RNG.uniform(-0.1, 0.1, N), np.full(N, np.log(0.25 / 0.2)))
    if shape == "skewed":
        return logged(np.exp(NORMAL), stats.lognorm.logpdf(np.exp(NORMAL), 1.0))
    doses = stats.cauchy.rvs(size=N, random_state=0)
    return logged(doses, stats.cauchy.logpdf(doses))


@pytest.mark.parametrize(
    "shape", ["linear", "a jump with little noise", "two peaks", "four levels with gaps", "skewed", "heavy tails"]
)
def test_right_log_densities_are_not_called_wrong(shape: str) -> None:
    assert density_problem(right(shape)) == ""


@pytest.mark.parametrize(
    ("wrong", "least", "most"),
    [
        (lambda given: given - 3.0, 18.0, 22.0),
        (lambda given: given + 0.7, 0.45, 0.55),
        (lambda given: -given, 0.0, 0.2),
        (lambda given: given / np.log(10), 0.0, 0.7),
        (lambda given: np.full(N, -0.5), 0.0, 0.7),
    ],
)
def test_wrong_ones_are(wrong: Any, least: float, most: float) -> None:
    logs = right("linear")
    said = density_problem(logs.with_log_densities(wrong(logs.log_propensities)))
    assert said.startswith("the logged log densities cannot be those of these 600 actions")
    assert least < float(said.partition("have mean ")[2].partition(",")[0]) < most


def test_a_few_rows_tell_nothing() -> None:
    few = right("linear").take(np.arange(40))
    assert density_problem(few.with_log_densities(few.log_propensities - 3.0)) == ""


def test_an_evaluation_says_why_it_is_not_to_be_trusted() -> None:
    logs = right("linear")
    wrong = logs.with_log_densities(logs.log_propensities - 3.0)
    estimate = poela.evaluate(GaussianBehavior(hidden=()).fit(logs), wrong, interval=None)
    assert estimate.verdict == "do not trust"
    assert estimate.reasons[0] == density_problem(wrong) in estimate.warnings
    assert estimate.advice.startswith("Fix the logs")


def test_a_study_says_it_before_it_begins_and_as_the_reason_of_its_answer() -> None:
    logs = simulate("dosing", episodes=150, seed=1)
    wrong = logs.with_log_densities(logs.log_propensities - 3.0)
    quick = Candidate("continuousclone", {"hidden": (8,), "clone_steps": 20})
    with pytest.warns(PoelaWarning, match="cannot be those of these"):
        study = poela.learn(wrong, candidates=[quick], folds=2, backend="inline")
    assert study.keeps_logging_policy
    assert study.result is not None
    assert study.result.needed is None
    assert density_problem(wrong) in study.answer.why
    assert {point.verdict for point in study.points} == {"do not trust"}
