"""Eligible real-valued actions: invariants of the rule, and a density that is exactly normalised."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from poela import ContinuousEligibility, InputError, Trajectories
from poela.core.arrays import FloatArray
from poela.core.policy import gaussian_log_density
from poela.eligibility.boxes import Boxes, log_interval, most_boxes, truncated_normal
from poela.eligibility.continuous import FittedContinuousEligibility


def logs_of(seed: int, n: int = 30, m: int = 1) -> Trajectories:
    rng = np.random.default_rng(seed)
    return Trajectories(rng.normal(size=(n, 2)), rng.normal(size=(n, m)) * 3 + 1, np.zeros(n), [*range(0, n, 3), n])


def kept(rule: FittedContinuousEligibility, mean: FloatArray, std: FloatArray) -> Any:
    context = np.zeros((1, 2), np.float32)
    return lambda *action: np.exp(rule.log_density(context, np.array([action]), mean, std)[0])


cases = st.tuples(
    st.integers(0, 10_000), st.sampled_from([0.05, 0.3, 1.0, "q50", "q100"]), st.integers(1, 2), st.floats(0.2, 3.0)
)


@settings(deadline=None, max_examples=40)
@given(cases)
def test_the_rule_keeps_its_promises(case: tuple[int, Any, int, float]) -> None:
    seed, radius, m, std = case
    logs, rng = logs_of(seed, m=m), np.random.default_rng(seed)
    rule = ContinuousEligibility(radius, neighbours=8).fit(logs)
    contexts = rng.normal(size=(20, 2)).astype(np.float32) * 2
    mean, spread = rng.normal(size=(20, m)) * 4, np.full((20, m), std)
    drawn = rule.sample(contexts, mean, spread, rng)
    # What is drawn is eligible, and what is eligible has a density; what is not has none.
    assert rule.eligible(contexts, drawn).all()
    asked = rng.normal(size=(20, m)) * 4
    for actions in (drawn, asked):
        density = rule.log_density(contexts, actions, mean, spread)
        np.testing.assert_array_equal(density > -np.inf, rule.eligible(contexts, actions))
        # Keeping to fewer actions can only raise the density of those.
        plain = gaussian_log_density(actions, mean, spread)
        assert (density[density > -np.inf] >= plain[density > -np.inf] - 1e-9).all()
    # Logged pairs are eligible where they were logged, whatever the radius.
    assert rule.eligible(logs.contexts, logs.actions).all()
    # Eligible means near: by the rule's own distance, unless nothing is near; and so by the smoother one.
    near = rule.eligible(contexts, asked) & ~rule.stranded(contexts)
    assert not isinstance(rule.settings.radius, str)
    assert (rule.distances(contexts, asked, largest=True)[near] <= rule.settings.radius * (1 + 1e-9) + 1e-12).all()
    assert (rule.distances(contexts, asked) <= rule.distances(contexts, asked, largest=True) + 1e-12).all()
    # The order of questions changes nothing.
    order = rng.permutation(20)
    np.testing.assert_array_equal(rule.eligible(contexts[order], asked[order]), rule.eligible(contexts, asked)[order])


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.floats(0.01, 1.0), st.floats(1.0, 4.0))
def test_a_larger_radius_bars_no_more(seed: int, radius: float, factor: float) -> None:
    logs, rng = logs_of(seed), np.random.default_rng(seed)
    small, large = (ContinuousEligibility(r, neighbours=8).fit(logs) for r in (radius, radius * factor))
    contexts, actions = rng.normal(size=(50, 2)), rng.normal(size=(50, 1)) * 4
    # Where nothing is near, the nearest case stands for the context itself, whatever its distance.
    near = ~small.stranded(contexts)
    assert not (small.eligible(contexts, actions) & ~large.eligible(contexts, actions) & near).any()
    assert (small.stranded(contexts) >= large.stranded(contexts)).all()


@pytest.mark.parametrize("seed", range(5))
def test_the_density_integrates_to_one(seed: int) -> None:
    rule = ContinuousEligibility(0.2, neighbours=8).fit(logs_of(seed))
    density = kept(rule, np.array([[2.0]]), np.array([[1.5]]))
    boxes, _ = rule.boxes(np.zeros((1, 2), np.float32))
    ends = np.unique(np.concatenate([boxes.lower[boxes.there], boxes.upper[boxes.there]]))
    total = sum(integrate.quad(density, a + 1e-12, b - 1e-12)[0] for a, b in pairwise(ends))
    assert total == pytest.approx(1.0, abs=1e-6)


def test_two_columns_integrate_to_one_and_draws_follow_the_density() -> None:
    rule = ContinuousEligibility(0.3, neighbours=6).fit(logs_of(1, m=2))
    mean, std, context = np.array([[0.5, 2.0]]), np.array([[2.0, 3.0]]), np.zeros((1, 2), np.float32)
    grid = np.linspace(-14, 14, 700)
    actions = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    rows = [np.repeat(part, len(actions), axis=0) for part in (context, mean, std)]
    density = np.exp(rule.log_density(rows[0], actions, rows[1], rows[2]))
    cell = (grid[1] - grid[0]) ** 2
    assert density.sum() * cell == pytest.approx(1.0, abs=0.01)
    many = [np.repeat(part, 20_000, axis=0) for part in (context, mean, std)]
    drawn = rule.sample(many[0], many[1], many[2], np.random.default_rng(0))
    expected = (density[:, None] * actions).sum(axis=0) * cell
    np.testing.assert_allclose(drawn.mean(axis=0), expected, atol=0.06)


@settings(deadline=None, max_examples=60)
@given(st.floats(-30, 30), st.floats(1e-6, 10), st.floats(0.001, 0.999))
def test_intervals_and_draws_are_exact_in_the_tails(low: float, width: float, uniform: float) -> None:
    high = low + width
    ours = log_interval(*(torch.tensor([end], dtype=torch.float64) for end in (low, high)))
    a, b = (low, high) if low + high <= 0 else (-high, -low)
    expected = stats.norm.logcdf(b) + np.log1p(-np.exp(stats.norm.logcdf(a) - stats.norm.logcdf(b)))
    assert float(ours) == pytest.approx(float(expected), rel=1e-6, abs=1e-6)
    drawn = truncated_normal(np.array([low]), np.array([high]), np.array([uniform]))[0]
    assert drawn == pytest.approx(float(stats.truncnorm.ppf(uniform, low, high)), abs=1e-5)


def test_the_mass_of_overlapping_boxes_is_counted_once() -> None:
    boxes = Boxes(
        np.array([[[-1.0], [0.0], [5.0]]]), np.array([[[1.0], [2.0], [6.0]]]), np.array([[True, True, False]])
    )
    mass = boxes.cells().log_mass(torch.zeros(1, 1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64))
    assert float(mass.exp()) == pytest.approx(stats.norm.cdf(2) - stats.norm.cdf(-1))


@pytest.mark.parametrize("columns", [2, 3])
def test_masses_near_and_far_are_those_of_all_cells(columns: int) -> None:
    rng = np.random.default_rng(columns)
    lower = rng.normal(size=(6, 5, columns))
    cells = Boxes(lower, lower + rng.random((6, 5, columns)), rng.random((6, 5)) < 0.9).cells()
    mean = torch.tensor(rng.normal(size=(6, columns)))
    mean[3:] += 60.0 * torch.tensor([[1.0], [-1.0], [1.0]])  # beyond what products of numbers can tell
    mean.requires_grad_()
    std = torch.full((6, columns), 0.5, dtype=torch.float64)
    by_cell = torch.logsumexp(cells.log_masses(mean, std).flatten(1), dim=1)
    torch.testing.assert_close(cells.log_mass(mean, std), by_cell, rtol=1e-10, atol=1e-10)
    slopes = [torch.autograd.grad(mass.sum(), mean)[0] for mass in (cells.log_mass(mean, std), by_cell)]
    torch.testing.assert_close(*slopes, rtol=1e-8, atol=1e-8)


def test_explanations_name_the_nearest_logged_pair() -> None:
    logs = Trajectories(
        [[0.0], [0.0], [9.0]], [[1.0], [2.0], [5.0]], [0, 0, 0], [0, 1, 2, 3], episode_ids=["anna", "ben", "cleo"]
    )
    rule = ContinuousEligibility(0.01).fit(logs)
    barred, near = rule.explain([0.0], [3.5]), rule.explain([0.0], [1.05])
    assert (barred.eligible, near.eligible, near.cases[0].episode) == (False, True, "anna")
    assert "barred, since the nearest logged case" in str(barred)
    assert near.to_dict()["cases"][0]["action"] == (1.0,)


def test_too_many_neighbours_for_several_columns_are_refused() -> None:
    assert (2 * most_boxes(3) - 1) ** 3 <= 4096
    with pytest.raises(InputError, match="with 3 action columns at most 8 can be looked at together"):
        ContinuousEligibility(0.1, neighbours=9).fit(logs_of(0, m=3))
    with pytest.raises(InputError, match="radius is infinite"):
        ContinuousEligibility(float("inf")).fit(logs_of(0))
