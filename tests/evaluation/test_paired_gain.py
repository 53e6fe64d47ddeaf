"""The gain is one paired quantity: its error by hand, what widens it, and a step towards a surer action."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, t

from poela.core.arrays import FloatArray, IntArray
from poela.core.policy import Memoryless
from poela.data.trajectories import Trajectories
from poela.evaluation.evaluate import evaluate
from poela.stats.bounds import Bounds, Interval
from poela.stats.contributions import Contributions
from poela.stats.gain import Gain, gain_over_logging


class Chooser(Memoryless):
    def __init__(self, p: float) -> None:
        self.p = p

    def probabilities(self, contexts: object) -> FloatArray:
        return np.tile([1 - self.p, self.p], (len(np.asarray(contexts)), 1))


def ends(gain: Gain) -> tuple[float, float]:
    assert gain.low is not None
    assert gain.high is not None
    return gain.low, gain.high


def paired_error(weights: FloatArray, returns: FloatArray, clusters: IntArray | None = None) -> float:
    """The root of the sum of squares of d = w (R − v) / mean(w) − (R − v₀), summed in clusters, over n."""
    value = weights @ returns / weights.sum()
    d = weights * (returns - value) / weights.mean() - (returns - returns.mean())
    if clusters is not None:
        d = np.bincount(clusters, d)
    return float(np.sqrt(d @ d)) / len(returns)


def value_error(weights: FloatArray, returns: FloatArray, clusters: IntArray | None = None) -> float:
    terms = weights * (returns - weights @ returns / weights.sum())
    if clusters is not None:
        terms = np.bincount(clusters, terms)
    return float(np.sqrt(terms @ terms) / weights.sum())


@pytest.mark.parametrize("clustered", [False, True])
def test_each_end_is_as_many_paired_errors_away_as_the_values_is_of_its_own(clustered: bool) -> None:
    rng = np.random.default_rng(0)
    returns, weights = rng.normal(size=200), rng.lognormal(sigma=0.7, size=200)
    clusters = np.arange(200) // 2 if clustered else None
    contributions = Contributions.ratio(weights * returns, weights)
    own = value_error(weights, returns, clusters)
    interval = Interval(contributions.value - 3 * own, contributions.value + 4 * own, "any")
    gain = gain_over_logging(contributions, returns, interval, 0.95, clusters=clusters)
    error = paired_error(weights, returns, clusters)
    low, high = ends(gain)
    assert (gain.value - low, high - gain.value) == pytest.approx((3 * error, 4 * error), rel=1e-9)


def test_a_narrow_interval_still_reaches_as_far_as_students() -> None:
    returns, weights = np.tile([0.0, 4.0, 1.0, 3.0], 25), np.tile([1.0, 1.0, 3.0, 3.0], 25)
    contributions = Contributions.ratio(weights * returns, weights)
    gain = gain_over_logging(contributions, returns, Interval(contributions.value, contributions.value, "none"), 0.95)
    low, high = ends(gain)
    error = paired_error(weights, returns)
    assert norm.ppf(0.975) * error < gain.value - low < t.ppf(0.975, 60) * error
    assert high - gain.value == pytest.approx(gain.value - low)


def test_so_does_one_that_ends_where_nothing_more_is_possible() -> None:
    """The value's interval is cut off, the gain's is not: it is far from what is possible."""
    returns, weights = (np.arange(200) % 4 == 0).astype(float), np.tile([1.0, 1.2, 0.8, 1.0, 0.9, 1.1], 34)[:200]
    contributions = Contributions.ratio(weights * returns, weights)
    interval = Interval(contributions.value, contributions.value, "cut off")
    low, high = ends(gain := gain_over_logging(contributions, returns, interval, 0.95, bounds=Bounds(0.0, 1.0)))
    error = paired_error(weights, returns)
    assert norm.ppf(0.975) * error < gain.value - low < t.ppf(0.975, 30) * error
    assert high - gain.value == pytest.approx(gain.value - low)


def test_a_policy_that_avoids_what_varies_takes_the_farther_reach_on_both_sides() -> None:
    logs = risky_against_sure(0)
    weights = np.where(logs.actions == 1, 0.65 / 0.6, 0.35 / 0.4)
    contributions = Contributions.ratio(weights * logs.rewards, weights)
    own, error = value_error(weights, logs.rewards), paired_error(weights, logs.rewards)
    for below, above in ((3.0, 5.0), (5.0, 3.0)):
        interval = Interval(contributions.value - below * own, contributions.value + above * own, "any")
        low, high = ends(gain := gain_over_logging(contributions, logs.rewards, interval, 0.95))
        assert (gain.value - low, high - gain.value) == pytest.approx((5 * error, 5 * error), rel=1e-9)


def test_few_departures_reach_farther() -> None:
    """Where four of two hundred episodes decide, the quantile is that of about four observations."""
    rng = np.random.default_rng(1)
    returns, weights = rng.normal(size=200), np.ones(200)
    weights[:4], returns[:4] = 0.5, (2.0, -2.0, 2.0, -2.0)
    contributions = Contributions.ratio(weights * returns, weights)
    gain = gain_over_logging(contributions, returns, Interval(contributions.value, contributions.value, "none"), 0.95)
    errors = (gain.value - ends(gain)[0]) / paired_error(weights, returns)
    assert t.ppf(0.975, 12) < errors < t.ppf(0.975, 3)


def test_the_logging_policy_gains_exactly_nothing() -> None:
    returns = np.random.default_rng(2).normal(size=100)
    for interval in (Interval(-5.0, 5.0, "wide"), Interval(returns.mean(), returns.mean(), "none")):
        gain = gain_over_logging(Contributions.mean(returns), returns, interval, 0.95)
        assert (gain.value, *ends(gain)) == (0.0, 0.0, 0.0)


LOGS = st.lists(st.tuples(st.floats(-3, 3), st.floats(-2, 2), st.integers(0, 1)), min_size=4, max_size=20)
WIDTH = st.floats(0, 4)


@settings(max_examples=150)
@given(rows=LOGS, kind=st.sampled_from(["real", "yes/no", "clusters"]), widths=st.tuples(*(WIDTH,) * 4))
def test_widening_the_values_interval_never_narrows_the_gains(
    rows: list[tuple[float, float, int]], kind: str, widths: tuple[float, float, float, float]
) -> None:
    returns, log_weights, events = np.array(rows, np.float64).T
    weights, clusters, bounds = np.exp(log_weights), None, None
    if kind == "yes/no":
        returns, bounds = events, Bounds(0.0, 1.0)
        widths = tuple(min(width / 4, 1.0) for width in widths)  # type: ignore[assignment]
    if kind == "clusters":
        clusters = np.arange(len(rows)) // 2
    contributions = Contributions.ratio(weights * returns, weights)
    value, (below, above, more_below, more_above) = contributions.value, widths

    def gain(down: float, up: float, fit: float = 0.0, level: float = 0.95) -> tuple[float, float]:
        interval = Interval(value - down, value + up, "any")
        given_ones = replace(contributions, fit_variance=fit)
        return ends(gain_over_logging(given_ones, returns, interval, level, clusters=clusters, bounds=bounds))

    low, high = gain(below, above)
    for wider in (
        gain(below + more_below, above),
        gain(below, above + more_above),
        gain(below + more_below, above + more_above),
        gain(below, above, level=0.99),
    ):
        assert wider[0] <= low + 1e-9
        assert wider[1] >= high - 1e-9
    if bounds is not None:
        # Within what is possible, once the value's interval is.
        lowest, highest = gain(min(below, value), min(above, 1 - value))
        assert -1 - 1e-9 <= lowest <= highest <= 1 + 1e-9


@given(rows=LOGS, factor=st.floats(1, 3))
def test_an_uncertain_fit_never_narrows_it(rows: list[tuple[float, float, int]], factor: float) -> None:
    """The value's interval knows of the fit: as many errors as before, of a larger error."""
    returns, log_weights, _ = np.array(rows, np.float64).T
    weights = np.exp(log_weights)
    contributions = Contributions.ratio(weights * returns, weights)
    own = value_error(weights, returns)
    gains = []
    for fit in (0.0, 0.3):
        reach = factor * np.hypot(own, np.sqrt(fit))
        interval = Interval(contributions.value - reach, contributions.value + reach, "any")
        gains.append(ends(gain_over_logging(replace(contributions, fit_variance=fit), returns, interval, 0.95)))
    (low, high), (wide_low, wide_high) = gains
    assert wide_low <= low + 1e-9
    assert wide_high >= high - 1e-9


def test_a_rate_without_events_under_the_policy_has_a_width() -> None:
    """No event has weight, so the value has no error; what may have been missed widens the gain upwards."""
    returns = (np.arange(400) < 40).astype(float)
    weights = np.where(returns == 1, 0.0, 1.0)
    contributions = Contributions.ratio(weights * returns, weights)
    gain = gain_over_logging(contributions, returns, Interval(0.0, 3 / 360, "x"), 0.95, bounds=Bounds(0.0, 1.0))
    low, high = ends(gain)
    assert gain.value == -0.1
    assert 1.9 * np.sqrt(0.09 / 400) < gain.value - low < 2.3 * np.sqrt(0.09 / 400)
    assert 3 / 360 < high - gain.value < 3 / 360 + 2.3 * np.sqrt(0.09 / 400)


def test_yes_no_outcomes_without_any_event_leave_the_gain_open() -> None:
    weights, returns = np.tile([0.5, 1.5], 100), np.zeros(200)
    contributions = Contributions.ratio(weights * returns, weights)
    gain = gain_over_logging(contributions, returns, Interval(0.0, 0.02, "x"), 0.95, bounds=Bounds(0.0, 1.0))
    low, high = ends(gain)
    assert low == pytest.approx(-3 / 200, abs=0.003)  # the rule of three for the log
    assert high == pytest.approx(0.02)


def risky_against_sure(seed: int, rows: int = 400) -> Trajectories:
    """The first action pays 1 − Exp(1), nothing on average; the second, which is taken in 60%, always nothing."""
    rng = np.random.default_rng((31, seed))
    actions = (rng.random(rows) < 0.6).astype(np.int64)
    rewards = np.where(actions == 1, 0.0, 1 - rng.exponential(size=rows))
    return Trajectories(np.zeros((rows, 1)), actions, rewards, np.arange(rows + 1), np.tile([0.4, 0.6], (rows, 1)))


def test_a_step_towards_the_sure_action_is_not_claimed_to_gain() -> None:
    gains = []
    for seed in range(60):
        estimate = evaluate(Chooser(0.65), risky_against_sure(seed))
        assert estimate.gain is not None
        if estimate.verdict == "trust":
            gains.append((*ends(estimate.gain), paired_error_of(seed)))
    low, high, error = np.array(gains).T
    assert len(gains) >= 45
    assert (low > 0).sum() <= 5  # 2.5% of 60 are 1.5: more than 5 have a chance of 1 in 250
    assert (high < 0).sum() <= 5
    assert ((high - low) / error).min() > 2 * norm.ppf(0.975)


def paired_error_of(seed: int) -> float:
    logs = risky_against_sure(seed)
    return paired_error(np.where(logs.actions == 1, 0.65 / 0.6, 0.35 / 0.4), logs.rewards)


def test_real_valued_actions_and_evaluate_share_it() -> None:
    """A Gaussian that shifts the logged one: weights in closed form."""
    rng = np.random.default_rng(5)
    n, shift = 300, 0.3
    actions = rng.normal(size=(n, 1))
    rewards = actions[:, 0] + rng.normal(size=n)
    logs = Trajectories(np.zeros((n, 1)), actions, rewards, np.arange(n + 1), log_densities=norm.logpdf(actions[:, 0]))

    class Shifted:
        def log_density(self, contexts: FloatArray, taken: FloatArray) -> FloatArray:
            return np.asarray(norm.logpdf(taken[:, 0], loc=shift))

        def sample(self, contexts: FloatArray, rng: np.random.Generator) -> FloatArray:
            return rng.normal(shift, size=(len(contexts), 1))

    estimate = evaluate(Shifted(), logs, interval="normal")
    weights = np.exp(shift * actions[:, 0] - shift**2 / 2)
    assert estimate.gain is not None
    low, high = ends(estimate.gain)
    half = (high - low) / 2
    error = paired_error(weights, rewards)
    # Wider, since it takes the worst and the best of the doses that nobody like them was given, too (0.2%).
    assert norm.ppf(0.975) * error < half < 1.3 * norm.ppf(0.975) * error
