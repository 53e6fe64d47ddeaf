"""The paired gain with control variates: what a model of values foresees is taken out of the noise alone.

Known propensities. With W_t the weight up to step t, c_t what is left to come at step t on average, and any values Q of
which V_π and V_μ are the means under both policies, an episode adds

    Σ_t γᵗ {(W_t − 1) r_t + (W_{t−1} − W_t) c_t} + λ Σ_t γᵗ {W_{t−1} (V_π − c_t) − W_t (Q − c_t) − (V_μ − Q)}

to the gain. Both braces with values have mean zero given what came before, so that the mean is the gain for *any* Q and
λ (Jiang & Li 2016); good ones make it precise. In one step it is Σ_a (π − μ) Q + (w − 1)(r − Q) where λ = 1, and the
importance-sampling gain of returns around their mean where λ = 0.

Estimated propensities. Weights need not have mean 1 then, and have to survive a factor Γ, so that they are normalised:
the value is the mean of λ V_π(x_0) plus the weighted mean of R + λ (Z − R), where Z is what an episode brought beyond
what was foreseen, Σ_t γᵗ (r_t + γ V_π(x_{t+1}) − Q). With λ = 0 it is SNTIS.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.core.ragged import episode_sums, returns_to_go, step_numbers
from poela.data.trajectories import Trajectories
from poela.evaluation.evidence import Evidence
from poela.stats.contributions import Contributions
from poela.stats.gain import least_value, seen_factors


def mean_to_come(train: Trajectories, steps: IntArray, discount: float) -> FloatArray:
    """What is left to come at these step numbers [N], on average over the training episodes; 0 beyond their steps.

    >>> from poela.data.trajectories import Trajectories
    >>> train = Trajectories([[0.0]] * 3, [0] * 3, [1.0, 2.0, 5.0], [0, 2, 3])
    >>> mean_to_come(train, np.array([0, 1, 2]), discount=1.0)
    array([4., 2., 0.])
    """
    numbers = step_numbers(train.offsets)
    longest = max(int(numbers.max()), int(steps.max())) + 1
    counts = np.bincount(numbers, minlength=longest)
    sums = np.bincount(numbers, returns_to_go(train.rewards, train.offsets, discount), longest)
    return np.asarray((sums / np.maximum(counts, 1))[steps])


def controls(evidence: Evidence, to_come: FloatArray) -> FloatArray:
    """Two numbers for each episode [2, n], of which any `share` λ of the second may be added to the first.

    They add up to the gain where propensities are known; where they are estimated, they are V_π(x_0) and Z − R.

    >>> from poela.data.trajectories import Trajectories
    >>> from poela.evaluation.evidence import ModelValues
    >>> from poela.stats.weights import LogWeights
    >>> logs = Trajectories([[0.0]], [0], [3.0], [0, 1], propensities=[[0.5, 0.5]])
    >>> given = ModelValues(taken=np.array([2.0]), expected=np.array([1.8]), logged=np.array([1.5]))
    >>> evidence = Evidence(LogWeights(np.log([1.6]), logs.offsets), logs, values=given)
    >>> controls(evidence, np.array([1.0])).round(9).tolist()  # 0.6·(3 − 1), and 0.3 + 0.6·(3 − 2) less that
    [[1.2], [-0.3]]
    """
    logs, values, discounts = evidence.logs, evidence.model, evidence.discounts
    if logs.estimated or logs.staying is not None:
        beyond = episode_sums(discounts * evidence.surprises, logs.offsets)
        return np.stack([values.expected[logs.offsets[:-1]], beyond - evidence.returns])
    running = evidence.weights.running
    before = np.append(0.0, running[:-1])
    before[logs.offsets[:-1]] = 0.0
    of_logging = 0.0 if values.logged is None else values.logged - values.taken
    # A weight beyond double precision is honestly infinite; such episodes are not controlled.
    with np.errstate(over="ignore", invalid="ignore"):
        after, before = np.exp(running), np.exp(before)
        plain = (after - 1) * logs.rewards + (before - after) * to_come
        foreseen = before * (values.expected - to_come) - after * (values.taken - to_come) - of_logging
        return np.stack([episode_sums(discounts * each, logs.offsets) for each in (plain, foreseen)])


@dataclass(frozen=True, eq=False)
class Controlled:
    """The `controls` of each episode, and the share of the second that its fold adds: the gain of a policy."""

    first: FloatArray  # [n]
    second: FloatArray  # [n]
    shares: FloatArray  # [n]
    estimated: bool

    @classmethod
    def of_folds(
        cls, folds: Sequence[FloatArray], evidence: Evidence, fold_of: IntArray, *, estimated: bool
    ) -> "Controlled | None":
        """From the controls [2, n] of each fold; each takes the share that is best in the other folds.

        None where they are not finite.
        """
        first, second = np.concatenate(folds, axis=1)
        if not (np.isfinite(first).all() and np.isfinite(second).all()):
            return None
        weights, returns, seen = np.exp(evidence.used), evidence.returns, evidence.logs.seen_weights
        shares = np.empty(len(first))
        for fold in np.unique(fold_of):
            others = fold_of != fold
            parts = first[others], second[others]
            if estimated:
                parts = _normalised(*parts, weights[others], returns[others], None if seen is None else seen[others])
            shares[~others] = best_share(*parts)
        return cls(first, second, shares, estimated)

    def take(self, episodes: BoolArray) -> "Controlled":
        """Of some of the episodes [n]; their shares stay, so that gains of groups add up to that of all."""
        return replace(self, first=self.first[episodes], second=self.second[episodes], shares=self.shares[episodes])

    def gain(self, evidence: Evidence) -> Contributions:
        """The gain as one estimate.

        >>> from poela.data.trajectories import Trajectories
        >>> from poela.stats.weights import LogWeights
        >>> logs = Trajectories([[0.0]] * 2, [0] * 2, [1.0, 3.0], [0, 1, 2])
        >>> evidence = Evidence(LogWeights(np.zeros(2), logs.offsets), logs)
        >>> controlled = Controlled(np.array([1.0, 2.0]), np.array([4.0, 0.0]), np.full(2, 0.5), estimated=False)
        >>> controlled.gain(evidence).value
        2.5
        """
        if not self.estimated:
            return Contributions.mean(self.first + self.shares * self.second)
        weights = np.exp(evidence.used)
        logging = Contributions.of_logging(evidence.returns, evidence.logs.seen_weights)
        paired = Contributions.mean(self.shares * self.first).less(logging)
        corrected = Contributions.ratio(weights * self.beyond(evidence), weights)
        return Contributions(
            np.hstack([corrected.numerators, paired.numerators]),
            np.hstack([corrected.denominators, paired.denominators]),
        )

    def beyond(self, evidence: Evidence) -> FloatArray:
        """What each episode [n] brought beyond the part of its return that was foreseen; for estimated propensities."""
        return evidence.returns + self.shares * self.second

    def lost(self, evidence: Evidence, gamma: float) -> float:
        """How much of the gain goes if weights are wrong by up to a factor: only what was not foreseen is at stake."""
        if gamma <= 1 or not self.estimated:
            return 0.0
        weights, beyond = np.exp(evidence.used), self.beyond(evidence)
        return float(weights @ beyond / weights.sum()) - least_value(
            evidence.used, beyond, gamma, weight_factors(evidence, gamma)
        )

    def added(self, evidence: Evidence, log_weights: FloatArray, others: FloatArray, episodes: IntArray) -> FloatArray:
        """What some episodes add to the gain if another policy, of these weights and controls [2, m], is judged."""
        n, shares = len(self.first), self.shares[episodes]
        if not self.estimated:
            return np.asarray((others[0] + shares * others[1]) / n)
        weights = np.exp(evidence.used)
        value = float(weights @ self.beyond(evidence) / weights.sum())
        beyond = evidence.returns[episodes] + shares * others[1]
        return np.asarray(np.exp(log_weights) * (beyond - value) / weights.sum() + shares * others[0] / n)


def weight_factors(evidence: Evidence, gamma: float) -> tuple[FloatArray, FloatArray] | None:
    """The factors [n] by which an episode's weight may be wrong; None: 1/Γ and Γ, since nobody was lost."""
    seen = evidence.logs.seen_weights
    if seen is None:
        return None
    low, high = seen_factors(seen, gamma)
    return (low, high) if evidence.known else (low / gamma, high * gamma)


def _normalised(
    start: FloatArray, shift: FloatArray, weights: FloatArray, returns: FloatArray, seen: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """How each episode moves the gain by normalised weights, and what the whole share of the control adds to that."""
    own = weights / weights.mean()

    def around(amounts: FloatArray) -> FloatArray:
        return np.asarray(own * (amounts - own @ amounts / len(own)))

    logging = Contributions.of_logging(returns, seen).influence
    return around(returns) - logging, around(shift) + start


def best_share(noise: FloatArray, control: FloatArray) -> float:
    """The share of a control in [0, 1] that leaves the least variance.

    >>> noise = np.array([1.0, -1.0, 2.0, -2.0])
    >>> best_share(noise, -2 * noise), best_share(noise, -0.5 * noise), best_share(noise, noise)
    (0.5, 1.0, 0.0)
    """
    noise, control = noise - noise.mean(), control - control.mean()
    spread = float(control @ control)
    return float(np.clip(-(noise @ control) / spread, 0.0, 1.0)) if spread > 0 else 0.0
