"""Amounts that cases like these never received: ranges, shares in closed form and by draws, and what verdicts say."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from poela.core.arrays import BoolArray, FloatArray
from poela.core.policy import gaussian_log_density
from poela.data.trajectories import Trajectories
from poela.eligibility.boxes import Boxes, DoseRanges
from poela.evaluation.evaluate import evaluate
from poela.evaluation.outside import logged_support
from poela.simulators.doses import LinearGaussian
from poela.studies.fold_data import FoldData, read_fold, write_fold

SPREAD = 1.0


def doses(n: int, seed: int, hole: bool) -> Trajectories:
    """Doses around 4 or 6, alike; with a hole, those whose first feature is above 1 only get the low ones."""
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(n, 2)).astype(np.float32)
    chance = np.where(hole & (contexts[:, 0] > 1), 0.0, 0.5)
    high = rng.random(n) < chance
    given = np.where(high, 6.0, 4.0) + 0.5 * rng.normal(size=n)
    density = (1 - chance) * norm.pdf(given, 4, 0.5) + chance * norm.pdf(given, 6, 0.5)
    rewards = given + rng.normal(size=n)
    return Trajectories(contexts, given[:, None], rewards, np.arange(n + 1), log_densities=np.log(density))


class TestEvaluate:
    """Any policy with a log density and draws."""

    def test_high_doses_for_those_who_never_got_them(self) -> None:
        logs = doses(1500, 0, hole=True)
        high = evaluate(LinearGaussian(6.0, (0.0, 0.0), 0.4), logs)
        assert 0.05 < high.diagnostics.outside_share < 0.2  # 16% of cases are in the hole
        assert high.verdict != "trust"
        assert "were never made in similar cases" in " ".join(high.reasons)
        low = evaluate(LinearGaussian(4.0, (0.0, 0.0), 0.4), logs)
        assert low.diagnostics.outside_share < 0.01
        assert "never made" not in " ".join(low.reasons)

    def test_no_false_caution_in_small_logs(self) -> None:
        for seed in range(10):
            logs = doses(500, seed, hole=False)
            for mean in (4.0, 6.0):
                found = evaluate(LinearGaussian(mean, (0.0, 0.0), 0.4), logs, interval=None)
                assert found.diagnostics.outside_share < 0.01, (seed, mean)

    def test_amounts_far_beyond_all_that_were_given(self) -> None:
        found = evaluate(LinearGaussian(11.0, (0.0, 0.0), 0.1), doses(200, 0, hole=False), interval=None)
        assert found.diagnostics.outside_share == 1.0
        assert found.verdict == "do not trust"


class Mixed:
    """A Gaussian, under a rule or not, of which everything is known."""

    def __init__(self, eligibility: "Halves | None", *, means: tuple[float, ...] = (0.3,)) -> None:
        self.eligibility, self.mean = eligibility, np.array(means)

    def moments(self, contexts: FloatArray) -> tuple[FloatArray, FloatArray]:
        shape = (len(contexts), len(self.mean))
        return np.broadcast_to(self.mean, shape).copy(), np.full(shape, SPREAD)

    def log_density(self, contexts: FloatArray, actions: FloatArray) -> FloatArray:
        return gaussian_log_density(actions, *self.moments(contexts))

    def sample(self, contexts: FloatArray, rng: np.random.Generator) -> FloatArray:
        return rng.normal(self.mean, SPREAD, (len(contexts), len(self.mean)))


class Halves:
    """Two boxes that overlap in the first column: from -1 to 1, and from 0 to 2."""

    def __init__(self, columns: int = 1) -> None:
        self.columns = columns

    def boxes(self, contexts: FloatArray) -> tuple[Boxes, BoolArray]:
        n, m = len(contexts), self.columns
        lower, upper = np.full((n, 2, m), -1.0), np.full((n, 2, m), 1.0)
        lower[:, 1, 0], upper[:, 1, 0] = 0.0, 2.0
        return Boxes(lower, upper, np.ones((n, 2), bool)), np.zeros(n, bool)


RANGES = DoseRanges(np.zeros(3), np.array([-np.inf, -0.5, 1.5]), np.array([-0.5, 1.5, np.inf]))
CONTEXTS = np.zeros((3, 1), np.float32)


class TestShares:
    """Masses of ranges against the normal distribution function."""

    def between(self, low: float, high: float) -> float:
        return float(norm.cdf(high, 0.3, SPREAD) - norm.cdf(low, 0.3, SPREAD))

    def test_a_gaussian(self) -> None:
        mixed: Any = Mixed(None)
        found = RANGES.shares(mixed, CONTEXTS, np.array([True, True, True]))
        wanted = [self.between(-np.inf, -0.5), self.between(-0.5, 1.5), self.between(1.5, np.inf)]
        np.testing.assert_allclose(found, [wanted] * 3, rtol=1e-12)

    @pytest.mark.parametrize("columns", [1, 2])
    def test_under_a_rule(self, columns: int) -> None:
        """Of two columns, the second one is the same for both boxes and cancels."""
        policy: Any = Mixed(Halves(columns), means=(0.3, -0.2)[:columns])
        found = RANGES.shares(policy, CONTEXTS, np.array([True, True, True]))
        whole = self.between(-1, 2)
        wanted = [self.between(-1, -0.5) / whole, self.between(-0.5, 1.5) / whole, self.between(1.5, 2) / whole]
        np.testing.assert_allclose(found, [wanted] * 3, rtol=1e-9)

    def test_by_draws_where_no_moments_are_known(self) -> None:
        contexts = np.zeros((2000, 2), np.float32)
        found = RANGES.shares(LinearGaussian(0.3, (0.0, 0.0), SPREAD), contexts, np.array([True, False, True]))
        np.testing.assert_allclose(
            found.mean(axis=0), [self.between(-np.inf, -0.5), 0, self.between(1.5, np.inf)], atol=0.005
        )


def test_ranges_of_few_amounts_and_of_none() -> None:
    given = np.column_stack([np.repeat([1.0, 2.0, 3.0], [60, 30, 10]), np.full(100, 7.0)])
    logs = Trajectories(np.zeros((100, 1)), given, np.zeros(100), np.arange(101))
    ranges = DoseRanges.of(logs)
    np.testing.assert_array_equal(ranges.column, 0)  # the second column never varies
    np.testing.assert_allclose(ranges.high, [0.8, 1.0, 2.0, 3.2, np.inf])
    np.testing.assert_array_equal(np.bincount(ranges.within(logs, 0).actions, minlength=5), [0, 60, 30, 10, 0])


def test_a_fold_keeps_its_ranges(tmp_path: Path) -> None:
    logs = doses(120, 0, hole=True)
    support = logged_support(logs)
    assert support is not None
    write_fold(tmp_path / "fold", FoldData(logs, logs, support=support))
    read = read_fold(tmp_path / "fold").support
    assert read is not None
    assert read.ranges is not None
    assert support.ranges is not None
    np.testing.assert_array_equal(read.outside, support.outside)
    for name in ("column", "low", "high"):
        np.testing.assert_array_equal(getattr(read.ranges, name), getattr(support.ranges, name))
