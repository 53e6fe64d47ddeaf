"""What every estimator is given: the weights, the logs, and where there is one the values of a model."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from poela.core.arrays import FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.ragged import step_numbers
from poela.data.trajectories import Trajectories
from poela.stats.contributions import Contributions
from poela.stats.diagnostics import OutsideSupport
from poela.stats.weights import LogWeights

if TYPE_CHECKING:
    from poela.evaluation.controlled import Controlled

DEFAULT_TRUNCATION = 1000.0


@dataclass(frozen=True, eq=False)
class ModelValues:
    """A Q model along the logs, under the target policy: Q of the logged action, and Σ_a π(a|x)·Q(x, a), both [N].

    >>> q, probabilities = np.array([[1.0, 3.0]]), np.array([[0.5, 0.5]])
    >>> ModelValues.under(probabilities, q, actions=np.array([1]))
    ModelValues(taken=array([3.]), expected=array([2.]), squared_weights=None, logged=None)
    """

    taken: FloatArray
    expected: FloatArray
    # [H]: what the squared surprises of a step weigh in the variance of the model's value; None where that is unknown
    squared_weights: FloatArray | None = None
    logged: FloatArray | None = (
        None  # [N]: Σ_a μ(a|x)·Q(x, a) of the logging policy; None where only one action is known
    )

    @classmethod
    def under(
        cls, probabilities: FloatArray, q: FloatArray, actions: IntArray, squared_weights: FloatArray | None = None
    ) -> "ModelValues":
        """From Q [N, A] and the target policy's probabilities [N, A]."""
        return cls(q[np.arange(len(q)), actions], (probabilities * q).sum(axis=1), squared_weights)


@dataclass(frozen=True, eq=False)
class Evidence:
    """The one argument of every estimator; each uses the part that it needs.

    >>> from poela.data.trajectories import Trajectories
    >>> logs = Trajectories([[0.0]] * 3, [0] * 3, [1.0, 2.0, 4.0], [0, 2, 3])
    >>> Evidence(LogWeights([0.0] * 3, logs.offsets), logs, discount=0.5).returns
    array([2., 4.])
    """

    weights: LogWeights  # of the policy against those who made the logs
    logs: Trajectories  # the logged decisions
    discount: float = 1.0  # of rewards, per step
    truncation: float = DEFAULT_TRUNCATION  # largest weight of an episode (M)
    values: ModelValues | None = None  # of a model, where one is needed
    probabilities: FloatArray | None = None  # [N, A] of the target policy, where they are at hand
    stranded_steps: int | None = None  # where nothing was near and the policy fell back
    outside: OutsideSupport | None = None  # how much of the policy lies outside support, where that is known
    smoothing: float = 0.0  # the share of the logging policy that was mixed into the policy
    known: bool = False  # whether propensities are, so that only chances of being seen may be wrong by a factor
    controlled: "Controlled | None" = None  # the gain with control variates, where values are at hand
    # log weights [n] of what is done now; None: it made all of these episodes
    reference: FloatArray | None = None

    @cached_property
    def returns(self) -> FloatArray:
        """Discounted returns [n]."""
        return self.logs.returns(self.discount)

    @cached_property
    def discounts(self) -> FloatArray:
        """The discount factor [N] of each step."""
        if self.discount == 1.0:
            return np.ones(self.logs.n_steps)
        return np.asarray(self.discount ** step_numbers(self.logs.offsets))

    @property
    def used(self) -> FloatArray:
        """The truncated log weights [n] of whole episodes."""
        return self.weights.truncated(self.truncation)

    @property
    def done_now(self) -> Contributions:
        """The value of what is done now: the mean return or, where others made some of the episodes, by weights."""
        return value_now(self.returns, self.reference, self.truncation, self.logs.seen_weights)

    @property
    def model(self) -> ModelValues:
        """The values of the model, which must have been given."""
        if self.values is None:
            raise InputError("this estimator needs a Q model: pass q='ridge', q='boosted' or your own")
        return self.values

    @cached_property
    def surprises(self) -> FloatArray:
        """What each step [N] brought beyond the model: reward + discounted next value − Q; nothing follows the end."""
        following = np.append(self.model.expected[1:], 0.0)
        following[self.logs.offsets[1:] - 1] = 0.0
        return np.asarray(self.logs.rewards + self.discount * following - self.model.taken)


def value_now(
    returns: FloatArray, reference: FloatArray | None, truncation: float, seen: FloatArray | None = None
) -> Contributions:
    """The value of what is done now, from returns [n] and, where others made some of these episodes, its log weights.

    `seen` are the log weights of having been seen, where episodes were lost.

    >>> value_now(np.array([0.0, 4.0]), np.log([1.5, 0.5]), 1000.0).value
    1.0
    """
    if reference is None:
        return Contributions.of_logging(returns, seen)
    weights = np.exp(np.minimum(reference, np.log(truncation)))
    return Contributions.ratio(weights * returns, weights)
