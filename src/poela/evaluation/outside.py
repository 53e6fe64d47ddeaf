"""How much of what a policy does was never done in like cases: what weights of logged episodes cannot show."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from poela.core.arrays import BoolArray, FloatArray
from poela.core.log_cache import cached
from poela.core.ragged import episode_sums, running_sums
from poela.data.episodes import LoggedEpisodes
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import USUAL_SUPPORT
from poela.eligibility.support import Support, cross_fitted_support, has_holes, looks_back
from poela.evaluation.weights import LogWeights

# A judge's model and a rule's draw the edge of a hole a little differently: beyond half of the limit is surely outside.
SURELY = 0.5


@dataclass(frozen=True, eq=False)
class LoggedSupport:
    """Pairs of context and action [N, A] along a log: those without support, and those whose support is in doubt."""

    outside: BoolArray
    doubtful: BoolArray
    exact: bool  # whether logged propensities say so, rather than a model

    def take(self, steps: BoolArray) -> "LoggedSupport":
        """At some steps."""
        return LoggedSupport(self.outside[steps], self.doubtful[steps], self.exact)


@dataclass(frozen=True)
class OutsideSupport:
    """How much of a policy lies outside support.

    `missing` is the probability that an episode takes a doubtful pair that is never taken, as far as weights can tell:
    what it does there, less the weight of those who did. It is unbiased where propensities are known.
    """

    decisions: float  # the share of its decisions
    episodes: float  # the share of episodes with any such decision
    missing: float = 0.0
    missing_error: float = 0.0


def logged_support(logs: LoggedEpisodes, behavior: Any = None) -> LoggedSupport | None:
    """The support along these logs: by the propensities of all actions, else by a model that is cross-fitted on them.

    None where every action is taken everywhere, or where nothing can be told. A model of the logging policy
    (`behavior`) tells whether it remembers.

    >>> logs = Trajectories([[0.0], [1.0]], [0, 1], [0.0, 0.0], [0, 1, 2], propensities=[[1.0, 0.0], [0.5, 0.5]])
    >>> logged_support(logs).outside
    array([[False,  True],
           [False, False]])
    """
    if not isinstance(logs, Trajectories) or logs.n_actions < 2:
        return None
    if has_holes(logs) is not None:
        return support_along(logs, None)
    return cached(
        logs,
        "support along",
        None,
        lambda: support_along(logs, cross_fitted_support(logs, USUAL_SUPPORT, looks_back(logs, behavior))),
    )


def support_along(logs: Trajectories, support: Support | None) -> LoggedSupport | None:
    """The same, where the model is known; the propensities of all actions need none."""
    known = has_holes(logs)
    if known is not None:
        assert logs.propensities is not None
        never = logs.propensities == 0
        return LoggedSupport(never, never, exact=True) if known else None
    if support is None:
        return None
    model, rows = support.model, support.held_out
    return LoggedSupport(rows <= SURELY * model.least, rows <= model.doubtful, exact=False)


def outside_support(
    support: LoggedSupport, probabilities: FloatArray, logs: Trajectories, weights: LogWeights
) -> OutsideSupport:
    """What of a policy with these probabilities [N, A] lies outside support, along its own episodes (by weights).

    >>> logs = Trajectories([[0.0], [1.0]], [0, 1], [0.0, 0.0], [0, 1, 2], propensities=[[1.0, 0.0], [0.5, 0.5]])
    >>> even, weights = np.full((2, 2), 0.5), LogWeights(np.log([0.5, 1.0]), logs.offsets)
    >>> outside_support(logged_support(logs), even, logs, weights)
    OutsideSupport(decisions=0.25, episodes=0.25, missing=0.25, missing_error=0.25)
    """
    there = np.where(support.outside, probabilities, 0.0).sum(axis=1)  # [N]
    with np.errstate(divide="ignore"):
        staying = np.exp(episode_sums(np.log(np.maximum(1.0 - there, 0.0)), logs.offsets))
    in_doubt = np.where(support.doubtful, probabilities, 0.0).sum(axis=1)
    taken = support.doubtful[np.arange(logs.n_steps), logs.actions]
    ratios = np.exp(weights.log_ratios)
    finite = np.maximum(weights.log_ratios, -700.0)
    before = np.exp(np.minimum(running_sums(finite, logs.offsets) - finite, 300.0))
    lacking = episode_sums(before * (in_doubt - np.where(taken, ratios, 0.0)), logs.offsets)
    error = float(lacking.std(ddof=1) / np.sqrt(len(lacking))) if len(lacking) > 1 else 0.0
    return OutsideSupport(float(there.mean()), float(1.0 - staying.mean()), float(lacking.mean()), error)


def lost_outside(outside: OutsideSupport | None, value: float, lowest: float, known: bool) -> tuple[float, float]:
    """By how much a value may be too high for what lies outside support, and the standard error of that.

    What was never done is taken to be worth the `lowest` return: what weights miss of doubtful decisions where
    propensities are `known`, and every episode with a decision that is surely outside.

    >>> lost_outside(OutsideSupport(0.01, 0.02, 0.05, 0.01), value=3.0, lowest=-1.0, known=True)
    (0.2, 0.04)
    """
    if outside is None:
        return 0.0, 0.0
    worst = max(value - lowest, 0.0)
    missing, error = (max(outside.missing, 0.0), outside.missing_error) if known else (0.0, 0.0)
    return worst * max(outside.episodes, missing), worst * error
