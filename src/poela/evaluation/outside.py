"""How much of what a policy does was never done in like cases: what weights of logged episodes cannot show."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from poela.core.arrays import BoolArray, FloatArray
from poela.core.log_cache import cached
from poela.core.ragged import episode_sums, running_sums
from poela.data.action_space import Box, Finite
from poela.data.trajectories import Trajectories
from poela.eligibility.boxes import DoseRanges, dose_support
from poela.eligibility.rules import USUAL_SUPPORT
from poela.eligibility.support import Support, cross_fitted_support, has_holes, limits, looks_back
from poela.stats.bounds import Bounds
from poela.stats.diagnostics import OutsideSupport
from poela.stats.weights import LogWeights

# A judge's model and a rule's draw the edge of a hole a little differently: beyond half of the limit is surely outside.
SURELY = 0.5
BEYOND_WORST = 1.5  # times as far below the mean as the worst return seen: what was never done may be worse than that
LEAST_OUTSIDE = 0.0005  # of decisions: less is not worth a word
LACKING = 0.8  # of what propensities say: an action that is rarer than that may be missing for some
MOST_STEPS, ROUNDS = 20_000, 60  # of the regression of logged propensities


@dataclass(frozen=True, eq=False)
class LoggedSupport:
    """Pairs of context and action [N, A] along a log: those without support, and those whose support is in doubt."""

    outside: BoolArray
    doubtful: BoolArray
    exact: bool  # whether logged propensities say so, rather than a model
    ranges: DoseRanges | None = None  # of real-valued actions, which stand for actions: K of them in the place of A

    def take(self, steps: BoolArray) -> "LoggedSupport":
        """At some steps."""
        return replace(self, outside=self.outside[steps], doubtful=self.doubtful[steps])

    def rows(self, policy: Any, logs: Trajectories, probabilities: FloatArray | None) -> FloatArray | None:
        """What a policy does [N, A] along the logs: its probabilities, or those of ranges of amounts (0: not asked)."""
        if self.ranges is None:
            return probabilities
        return self.ranges.shares(policy, logs.contexts, np.asarray(self.outside.any(axis=0)))


def logged_support(logs: Trajectories, behavior: Any = None) -> LoggedSupport | None:
    """The support along these logs: by the propensities of all actions, else by a model that is cross-fitted on them.

    None where every action is taken everywhere, or where nothing can be told. A model of the logging policy
    (`behavior`) tells whether it remembers.

    >>> logs = Trajectories([[0.0], [1.0]], [0, 1], [0.0, 0.0], [0, 1, 2], propensities=[[1.0, 0.0], [0.5, 0.5]])
    >>> logged_support(logs).outside
    array([[False,  True],
           [False, False]])
    """
    return SUPPORT[logs.action_space.kind](logs, behavior)


def _support_of_choices(logs: Trajectories, behavior: Any) -> LoggedSupport | None:
    if logs.n_actions < 2:
        return None
    if has_holes(logs) is not None:
        return support_along(logs, None)
    return cached(
        logs,
        "support along",
        None,
        lambda: support_along(logs, cross_fitted_support(logs, USUAL_SUPPORT, looks_back(logs, behavior))),
    )


def _support_of_doses(logs: Trajectories, behavior: Any) -> LoggedSupport | None:
    def look() -> LoggedSupport | None:
        found = dose_support(logs, USUAL_SUPPORT, SURELY)
        if found is None:
            return None
        ranges, outside = found
        # Weights cannot tell more of amounts than their mean does: nothing is in doubt.
        return LoggedSupport(outside, np.zeros_like(outside), exact=False, ranges=ranges)

    return cached(logs, "support along", None, look)


SUPPORT: Mapping[str, Callable[[Trajectories, Any], LoggedSupport | None]] = {
    Finite.kind: _support_of_choices,
    Box.kind: _support_of_doses,
}


def support_along(logs: Trajectories, support: Support | None) -> LoggedSupport | None:
    """The same, where the model is known; the propensities of all actions need none."""
    known = has_holes(logs)
    if known is not None:
        assert logs.propensities is not None
        never = logs.propensities == 0
        return LoggedSupport(never, never, exact=True) if known else None
    if support is None:
        return None
    outside = support.held_out <= SURELY * support.model.least
    doubtful = np.zeros_like(outside)
    if logs.propensities is not None and not logs.estimated:
        for part in np.unique(support.parts):
            others, own = support.parts != part, support.parts == part
            _, limit, _ = limits(support.held_out[others], np.eye(logs.n_actions)[logs.actions[others]], USUAL_SUPPORT)
            doubtful[own] = in_doubt(support.held_out[own], limit, logs, others, own)
    return LoggedSupport(outside, doubtful, exact=False)


def in_doubt(
    predicted: FloatArray, limit: FloatArray, logs: Trajectories, others: BoolArray, own: BoolArray
) -> BoolArray:
    """Where [m, A] a hole may hide: actions are predicted more rarely than usual, and than their propensities say.

    What is said of the `own` steps of the logs rests on `others` alone, so that weights can tell without bias.
    """
    said = expected_propensities(logs, others, own)
    return np.asarray((predicted <= limit) & (predicted < LACKING * said))


def expected_propensities(logs: Trajectories, others: BoolArray, own: BoolArray) -> FloatArray:
    """The propensity [m, A] that each action would have at `own` steps, by those that it had when taken at `others`."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    kinds = np.eye(logs.n_actions, dtype=np.float32)
    steps = np.flatnonzero(others)[:: max(int(others.sum()) // MOST_STEPS, 1)]
    logged = np.log(logs.logged_propensities[steps])
    rows = logs.contexts[own]
    if np.ptp(logged) == 0:
        return np.full((len(rows), logs.n_actions), float(np.exp(logged[0])))
    model = HistGradientBoostingRegressor(max_iter=ROUNDS, early_stopping=False, random_state=0)
    model.fit(np.hstack([logs.contexts[steps], kinds[logs.actions[steps]]]), logged)
    columns = [model.predict(np.hstack([rows, np.tile(kind, (len(rows), 1))])) for kind in kinds]
    return np.asarray(np.exp(np.stack(columns, axis=1)))


def outside_support(
    support: LoggedSupport, probabilities: FloatArray, logs: Trajectories, weights: LogWeights
) -> OutsideSupport:
    """What of a policy with these probabilities [N, A] lies outside support, along its own episodes (by weights).

    Of several columns of real-valued actions, what lies outside in one and in another counts twice: the careful side.

    >>> logs = Trajectories([[0.0], [1.0]], [0, 1], [0.0, 0.0], [0, 1, 2], propensities=[[1.0, 0.0], [0.5, 0.5]])
    >>> even, weights = np.full((2, 2), 0.5), LogWeights(np.log([0.5, 1.0]), logs.offsets)
    >>> outside_support(logged_support(logs), even, logs, weights)
    OutsideSupport(decisions=0.25, episodes=0.25, missing=0.25, missing_error=0.25)
    """
    there = np.minimum(np.where(support.outside, probabilities, 0.0).sum(axis=1), 1.0)  # [N]
    with np.errstate(divide="ignore"):
        staying = np.exp(episode_sums(np.log(np.maximum(1.0 - there, 0.0)), logs.offsets))
    if not support.doubtful.any():
        return OutsideSupport(float(there.mean()), float(1.0 - staying.mean()))
    in_doubt = np.where(support.doubtful, probabilities, 0.0).sum(axis=1)
    taken = support.doubtful[np.arange(logs.n_steps), logs.actions]
    ratios = np.exp(weights.log_ratios)
    finite = np.maximum(weights.log_ratios, -700.0)
    before = np.exp(np.minimum(running_sums(finite, logs.offsets) - finite, 300.0))
    lacking = episode_sums(before * (in_doubt - np.where(taken, ratios, 0.0)), logs.offsets)
    error = float(lacking.std(ddof=1) / np.sqrt(len(lacking))) if len(lacking) > 1 else 0.0
    return OutsideSupport(float(there.mean()), float(1.0 - staying.mean()), float(lacking.mean()), error)


def lowest_return(returns: FloatArray, bounds: Bounds | None) -> float:
    """What an episode outside support is taken to return: the least that is possible, or worse than anything seen.

    >>> lowest_return(np.array([0.0, 1.0, 5.0]), None)
    -1.0
    """
    if bounds is not None:
        return float(bounds.lowest_return)
    mean = float(returns.mean())
    return mean - BEYOND_WORST * (mean - float(returns.min()))


def highest_return(returns: FloatArray, bounds: Bounds | None) -> float:
    """The mirror image of `lowest_return`.

    >>> highest_return(np.array([0.0, 1.0, 5.0]), None), highest_return(np.array([0.5]), Bounds(0.0, 1.0))
    (6.5, 1.0)
    """
    turned = None if bounds is None else Bounds(-bounds.highest_return, -bounds.lowest_return)
    return -lowest_return(-returns, turned)


def lost_outside(outside: OutsideSupport | None, value: float, lowest: float, known: bool) -> tuple[float, float]:
    """By how much a value may be too high for what lies outside support, and the standard error of that.

    What was never done is taken to be worth the `lowest` return: what weights miss of doubtful decisions where
    propensities are `known`, if that is more than its standard error, and every episode with a decision that is surely
    outside.

    >>> lost_outside(OutsideSupport(0.01, 0.02, 0.05, 0.01), value=3.0, lowest=-1.0, known=True)
    (0.2, 0.04)
    """
    if outside is None:
        return 0.0, 0.0
    worst = max(value - lowest, 0.0)
    missing, error = outside.missing, outside.missing_error
    if not known or missing <= error:  # no more than chance makes of a log without a hole
        missing, error = 0.0, 0.0
    return worst * max(outside.episodes, missing), worst * error
