"""Value for money: single decisions by the hull walk, from spending little to all that pays."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.core.policy import Policy
from poela.core.readable import plain
from poela.core.typed import NonNegative
from poela.data.costs import Costs
from poela.data.trajectories import Trajectories
from poela.learners.learner import Checkpoint, eligible_in_training, logging_policy, logging_probabilities
from poela.learners.value_learner import ValueLearner
from poela.policies.allotting import HullWalk, hull_walk
from poela.policies.valued import TiltedPolicy, supported
from poela.regression.backward_induction import Following, best
from poela.regression.step_values import CodedStep, RidgeStep, StepModel, StepQ

# What is spent per case: shares of what all that pays would cost; or of a limit, and two of the way beyond it.
SHARES = tuple(k / 10 for k in range(1, 11))
OF_LIMIT, BEYOND = (0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 1.0), (0.5, 1.0)


@dataclass(frozen=True, kw_only=True)
class HullWalkQ(ValueLearner):
    """argmax Q(x, a) − λ·cost(a) over eligible actions that practice takes, at prices λ that let spending grow.

    At each price the training cases spend a given amount: a share of what all that pays would cost, or with a `limit`
    (per case) shares of that and what lies beyond. `cost` is a further outcome of the logs, whose regression is
    subtracted, or so much for each action (`large=3,small=1`); without any, all that there is is the greedy policy.

    >>> actions = np.arange(300) % 2
    >>> logs = Trajectories(np.zeros((300, 1)), actions, actions * 1.0, np.arange(301), np.full((300, 2), 0.5))
    >>> [point.note for point in HullWalkQ(cost="1=2", limit=1.0).fit_path(logs)][-2:]
    ['spend 1.5', 'spend 2']
    """

    walks: ClassVar[bool] = True
    regressor: Literal["ridge", "coded"] = "ridge"  # regressions that a cost can be subtracted from
    cost: str = ""
    limit: NonNegative | None = None

    def fit_path(self, train: Trajectories, seed: int = 0, behavior: Policy | None = None) -> Iterator[Checkpoint]:
        """Yield the policy at each amount that is spent, the least first."""
        if self.cost and train.n_steps > train.n_episodes:
            raise InputError("the walk by value for money is for single decisions: price costs in longer episodes")
        logging = logging_policy(train, behavior)
        chances = logging_probabilities(train, behavior)
        eligibility, eligible = eligible_in_training(self.rule, train, behavior)
        mask = supported(chances > 0, eligible.free)
        ((values, q),) = self.induction(train, seed, chances).values(best(mask))
        self.refuse_divergence(train, q[mask])
        costs, shift = np.zeros(train.n_actions), _Shift(np.zeros(train.n_actions))
        if self.cost:
            costs, shift = self._costs(train, seed, chances, best(mask))
        walk = hull_walk(costs, q, mask)
        fields = {"eligibility": eligibility, **self.fields(train)}
        for place, spend in enumerate(self._spends(walk, train.n_episodes), start=1):
            own = shift.less(values, walk.price(spend * train.n_episodes))
            policy = TiltedPolicy(values=own, behavior=logging, temperature=0.0, **fields)
            yield Checkpoint(place, policy, f"spend {plain(spend)}")

    def _costs(
        self, train: Trajectories, seed: int, chances: FloatArray, following: Following
    ) -> "tuple[FloatArray, _Shift]":
        costs = Costs.of(self.cost)
        by_action = costs.of_actions(train.action_names)
        if by_action is not None:
            return by_action, _Shift(by_action)
        paid = replace(train, rewards=costs.of_steps(train))
        ((values, q),) = self.induction(paid, seed, chances).values(following)
        return q, _Shift(None, values)

    def _spends(self, walk: HullWalk, cases: int) -> list[float]:
        least, most = walk.spends[0] / cases, walk.spends[-1] / cases
        if not self.cost:
            return [most]
        if self.limit is None:
            return [float(least + share * (most - least)) for share in SHARES]
        beyond = max(most, self.limit) - self.limit
        return [*(share * self.limit for share in OF_LIMIT), *(float(self.limit + share * beyond) for share in BEYOND)]


@dataclass(frozen=True, eq=False)
class _Shift:
    """What is subtracted from values at a price: so much for each action, or what regressions say."""

    by_action: FloatArray | None
    values: StepQ | None = None

    def less(self, values: StepQ, price: float) -> StepQ:
        """Values less so many times the cost."""
        if price == 0:
            return values
        others = values.models if self.values is None else self.values.models
        pairs = zip(values.models, others, strict=True)
        return replace(values, models=tuple(self._less(own, other, price) for own, other in pairs))

    def _less(self, own: StepModel, other: StepModel, price: float) -> StepModel:
        if not isinstance(own, RidgeStep | CodedStep) or not isinstance(other, RidgeStep | CodedStep):
            raise InputError("a cost can only be subtracted from ridge regressions: choose regressor='ridge'")
        coefficients = own.coefficients.copy()
        if self.by_action is not None:
            coefficients[:, 0] -= price * self.by_action  # of the constant
        else:
            coefficients -= price * other.coefficients  # of the same features
        return replace(own, coefficients=coefficients)
