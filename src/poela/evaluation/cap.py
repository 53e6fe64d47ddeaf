"""Capped returns: for costs and disasters, where a few episodes decide the mean and weights can verify nothing.

What is claimed is then the gain in capped returns. A return below the cap's lowest counts as that, one above its
highest as that; how many episodes lie beyond is said, and how much that may hide where the range of returns is known.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from poela.core.arrays import FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.kinds import is_number
from poela.core.ragged import running_sums, step_numbers
from poela.core.readable import readable, share_in_words
from poela.core.typed import NonNegative, Range, Share, refuse_problems, shown
from poela.data.trajectories import Trajectories
from poela.evaluation.evidence import Evidence
from poela.stats.bounds import Bounds, bounded_ends, in_clusters
from poela.stats.contributions import Contributions, standard_error
from poela.stats.weights import safe_shift

WHAT = "a share above 0.5 and below 1 (0.99), or two values, the lowest return that counts and then the highest"
UNSURE = 0.01  # for each of the two shares beyond a cap that decide what it may hide


@dataclass(frozen=True)
class Cap:
    """From which lowest to which highest value returns count; `share` says of which quantiles these are the values.

    0.99 stands for the 1% and the 99% quantile of the logged returns, whatever was done in these episodes.

    >>> Cap.of(0.75).known(np.arange(8.0))
    Cap(lowest=2.0, highest=5.0, share=0.75)
    >>> Cap.of((-50, 0)).clip(np.array([-700.0, -3.0, 2.0]))
    array([-50.,  -3.,   0.])
    """

    lowest: float | None = None  # None: not looked up yet
    highest: float | None = None
    share: Annotated[float, Range(above=0.5, below=1)] | None = None

    def __post_init__(self) -> None:
        refuse_problems(self)
        ends = self.lowest, self.highest
        if (None in ends and (self.share is None or ends != (None, None))) or (
            self.lowest is not None and self.highest is not None and self.lowest >= self.highest
        ):
            raise InputError(f"a cap must be {WHAT}")

    @classmethod
    def of(cls, asked: Any) -> "Cap | None":
        """As it is asked for: None, a share, a pair of values, or a cap itself."""
        if asked is None or isinstance(asked, cls):
            return asked
        if is_number(asked) and 0.5 < asked < 1:
            return cls(share=float(asked))
        pair = isinstance(asked, tuple | list) and len(asked) == 2 and all(map(is_number, asked))
        if pair and np.isfinite(asked).all() and asked[0] < asked[1]:
            return cls(float(asked[0]), float(asked[1]))
        raise InputError(f"cap is {shown(asked)}: it must be {WHAT}")

    def __str__(self) -> str:
        return f"{self.share:.12g}" if self.share is not None else f"{self.lowest:.12g},{self.highest:.12g}"

    @property
    def in_words(self) -> str:
        """For headlines.

        >>> Cap(-50.0, 0.0).in_words
        'returns capped to [-50.0, 0]'
        """
        return f"returns capped to [{readable(self.lowest)}, {readable(self.highest)}]"

    def known(self, returns: FloatArray) -> "Cap":
        """With its ends, which are values that these returns have, where a share was asked for."""
        if self.lowest is not None:
            return self
        assert self.share is not None
        low, high = (sign * float(np.quantile(sign * returns, self.share, method="inverted_cdf")) for sign in (-1, 1))
        if low == high:
            raise InputError(
                f"cap is {self}, which leaves all {len(returns)} returns alike: give a share nearer to 1, or two values"
            )
        return Cap(low, high, self.share)

    def refuse_blind(self, returns: FloatArray) -> None:
        """Refuse a cap that returns are all beyond, or all alike by.

        >>> Cap(0.0, 1.0).refuse_blind(np.array([2.0, 5.0, 9.0]))
        Traceback (most recent call last):
        poela.core.errors.InputError: cap is 0,1, which leaves all 3 returns alike: give values that they lie between
        """
        if np.ptp(returns) > 0 and np.ptp(self.clip(returns)) == 0:
            raise InputError(
                f"cap is {self}, which leaves all {len(returns)} returns alike: give values that they lie between"
            )

    def clip(self, returns: FloatArray) -> FloatArray:
        """Returns as they count."""
        return np.clip(returns, self.lowest, self.highest)

    def within(self, bounds: Bounds | None) -> Bounds | None:
        """What is known of capped returns, where that is known of returns."""
        if bounds is None:
            return None
        low, high = self.clip(np.array([bounds.lowest_return, bounds.highest_return]))
        return replace(bounds, lowest_return=float(low), highest_return=float(high))


def capped(logs: Trajectories, cap: Cap | None, discount: float) -> Trajectories:
    """The logs with rewards whose (discounted) sums are the capped returns.

    What is capped is the sum up to each step, so that a reward depends on nothing that comes after it, and none is
    larger than it was, but for the first, which starts within the cap.

    >>> from poela.data.trajectories import Trajectories
    >>> logs = Trajectories([[0.0]] * 4, [0] * 4, [2.0, 7.0, -3.0, 1.0], [0, 3, 4])
    >>> capped(logs, Cap(0.0, 5.0), discount=1.0).rewards
    array([2., 3., 0., 1.])
    """
    if cap is None:
        return logs
    steps = step_numbers(logs.offsets)
    factors = np.asarray(float(discount) ** steps)
    sums = running_sums(factors * logs.rewards, logs.offsets)
    counted = cap.clip(sums)
    before = np.where(steps > 0, np.append(0.0, sums[:-1]), 0.0)
    counted_before = np.where(steps > 0, cap.clip(before), 0.0)
    same = (counted == sums) & (counted_before == before)
    rewards = np.array(logs.rewards)
    np.divide(counted - counted_before, factors, out=rewards, where=~same & (factors > 0))
    known: Any = logs  # every kind of log is a dataclass
    result: Trajectories = logs if same.all() else replace(known, rewards=rewards)
    return result


@dataclass(frozen=True)
class Beyond:
    """What lies beyond a cap, below it and above it: shares of logged episodes, and of the policy's weight.

    `lost` is the most by which the gain in returns may be smaller than that in capped ones, where their range is known:
    all of the policy's share below lies at the lowest, all of the log's share above at the highest possible return, and
    both shares at the upper ends of their 99% intervals. None: nothing bounds it.
    """

    cap: Cap
    logged: tuple[Share, Share]
    policy: tuple[Share, Share]
    lost: NonNegative | None = None

    def in_words(self, least: float | None = None, confidence: float = 0.95) -> str:
        """In two sentences; `least` is the gain in capped returns that is shown with this confidence, if any is.

        >>> print(Beyond(Cap(-50.0, 0.0), (0.01, 0.0), (0.004, 0.0), 0.5).in_words(least=2.0))
        1% of logged episodes and 0.4% of the policy's weight lie below the cap, none above it. Within the ...
        """
        (low, high), (own_low, own_high) = (map(share_in_words, shares) for shares in (self.logged, self.policy))
        above = f"{high} and {own_high} above it" if self.logged[1] else "none above it"
        shares = f"{low} of logged episodes and {own_low} of the policy's weight lie below the cap, {above}."
        if not any(self.logged) and self.lost is None:
            return "No logged episode lies beyond the cap."
        if self.lost is None:
            return f"{shares} How much lies beyond is not bounded."
        what = f"{shares} Within the declared range of returns that hides at most {readable(self.lost)}"
        if least is None:
            return f"{what} of a gain."
        left, sure = least - self.lost, f"{100 * (confidence - 2 * UNSURE):g}%"
        if left > 0:
            return f"{what}: without the cap at least {readable(left, signed=True)} ({sure})."
        return f"{what} of a gain: without the cap none is shown."


def beyond_cap(cap: Cap, returns: FloatArray, evidence: Evidence, bounds: Bounds | None = None) -> Beyond:
    """What lies beyond a cap of returns [n], for a policy with this evidence; `bounds` is what is known of returns.

    >>> from poela.data.trajectories import Trajectories
    >>> from poela.stats.weights import LogWeights
    >>> logs = Trajectories([[0.0]] * 4, [0] * 4, [-9.0, 0.5, 0.5, 3.0], np.arange(5))
    >>> evidence = Evidence(LogWeights(np.log([1.0, 1.0, 1.0, 3.0]), logs.offsets), logs)
    >>> found = beyond_cap(Cap(0.0, 1.0), logs.returns(), evidence)
    >>> found.logged, found.policy
    ((0.25, 0.25), (0.1666..., 0.5000...))
    """
    assert cap.lowest is not None
    assert cap.highest is not None
    low, high = (side.astype(np.float64) for side in (returns < cap.lowest, returns > cap.highest))
    weights = np.exp(evidence.used - safe_shift(evidence.used))
    total = float(weights.sum()) or 1.0
    lost = None
    if bounds is not None and not evidence.logs.estimated:  # those weights may be wrong by more than chance
        clusters, outside = evidence.logs.clusters, evidence.outside
        # No weight stands for what was never done.
        missing = 0.0 if outside is None else max(outside.episodes, outside.missing + 2 * outside.missing_error)
        below = max(cap.lowest - bounds.lowest_return, 0.0) * min(_most(low, weights, clusters) + missing, 1.0)
        lost = below + max(bounds.highest_return - cap.highest, 0.0) * _most(high, np.ones(len(high)), clusters)
    own = (float(weights @ low) / total, float(weights @ high) / total)
    return Beyond(cap, (float(low.mean()), float(high.mean())), own, lost)


def _most(side: FloatArray, weights: FloatArray, clusters: IntArray | None) -> float:
    """What the share of weight on some episodes exceeds with a chance of `UNSURE`."""
    if not weights.any():
        return 1.0
    units = in_clusters(Contributions.ratio(weights * side, weights), clusters)
    own = units.denominators[:, 0]
    effective = float(own.sum() ** 2 / np.square(own).sum())
    [(_, most)] = bounded_ends(units.value, standard_error(units), effective, Bounds(0.0, 1.0), [1 - 2 * UNSURE])
    return most
