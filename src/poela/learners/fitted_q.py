"""FittedQ: values by backward induction, and the logging policy tilted towards them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np

from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.core.policy import Policy
from poela.core.ragged import episode_sums
from poela.core.readable import plain
from poela.core.typed import NonNegative, one_of, shown
from poela.data.costs import Costs
from poela.data.trajectories import Trajectories
from poela.learners.learner import Checkpoint, eligible_in_training, logging_policy, logging_probabilities
from poela.learners.value_learner import ValueLearner
from poela.policies.valued import TiltedPolicy, priced, supported
from poela.regression.backward_induction import Kind, best, soft
from poela.regression.step_foreign import AnyRegressor

# The default path in multiples of the mild temperature: from twice to a sixteenth of it, then greedy.
PATH = tuple(2.0 ** (1 - k / 3) for k in range(16))


@dataclass(frozen=True, kw_only=True)
class FittedQ(ValueLearner):
    """π(a|x) ∝ μ(a|x)·exp(Q(x, a)/τ) over eligible actions, with Q by one regression for each step, last to first.

    A high temperature stays near the logging policy μ, where importance sampling can verify the policy; a low one goes
    where the values point; 0 is greedy. `fit_path` walks there from mild to `temperature`, with one and the same Q
    (`backup="max"`: of acting best from the next step on) or with each temperature's own (`backup="soft"`: of acting
    best at a price of τ for each nat of departure from μ, which gives the most value for what must be verified).
    By default the path starts where the log weights of an episode have a standard deviation of about one half, and the
    temperature halves every three checkpoints. A rule with a price κ takes κ for each nat of missing support from
    log μ + Q/τ, and from the μ of soft backups; where the best action alone counts (`backup="max"`, τ = 0), what costs
    anything is barred. With `regressor="auto"` the training episodes choose the kind of regression (see
    `value_kinds.chosen_kind`); an object with `fit` and `predict`, such as scikit-learn's regressors, is fitted on
    contexts and one column for each action. Without `behavior`, μ at new contexts is that of the nearest logged one.

    >>> from poela.data.trajectories import Trajectories
    >>> actions = np.arange(400) % 2
    >>> logs = Trajectories(np.zeros((400, 1)), actions, actions * 1.0, np.arange(401), np.full((400, 2), 0.5))
    >>> FittedQ(temperature=1.0).fit(logs).along(logs.take([0])).round(2)  # 1 : e
    array([[0.27, 0.73]])
    """

    walks: ClassVar[bool] = True
    # kind of regression, "auto" or an object with fit and predict
    regressor: Kind | Literal["auto"] | AnyRegressor = "auto"
    temperature: NonNegative = 0.0  # where the path ends (τ); 0: greedy
    temperatures: tuple[NonNegative, ...] | None = None  # the path towards it, in falling order
    # "max": the best next step; "soft": at a price for departures
    backup: Annotated[str, one_of("max", "soft")] = "max"
    cost: str = ""  # what decisions cost: a further outcome of the logs, or so much for each action (large=3,small=1)
    price: NonNegative = 0.0  # λ: values are those of reward − λ·cost

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.price and not self.cost:
            raise InputError("a price needs to know what decisions cost: give cost, too")
        if self.temperatures is not None and list(self.temperatures) != sorted(self.temperatures, reverse=True):
            raise InputError(f"temperatures is {shown(self.temperatures)}: they must be in falling order")

    def fit_path(self, train: Trajectories, seed: int = 0, behavior: Policy | None = None) -> Iterator[Checkpoint]:
        """Yield the policy at each temperature, the mildest first."""
        logging = logging_policy(train, behavior)
        chances = logging_probabilities(train, behavior)
        eligibility, eligible = eligible_in_training(self.rule, train, behavior)
        mask, near = supported(chances > 0, eligible.free), priced(chances, eligible)
        train = self._less_costs(train)
        induction = self.induction(train, seed, chances)
        ((values, q),) = induction.values(best(mask))
        self.refuse_divergence(train, q[mask])
        path = self._path(train, q, near)
        softened = induction.values_along(lambda some: soft(near, some), [tau for tau in path if tau > 0])
        for place, temperature in enumerate(path, start=1):
            own = values
            if self.backup == "soft" and temperature > 0:
                own, q = next(softened)
                self.refuse_divergence(train, q[mask])
            fields = {"eligibility": eligibility, **self.fields(train)}
            policy = TiltedPolicy(values=own, behavior=logging, temperature=temperature, **fields)
            yield Checkpoint(place, policy, f"temperature {plain(temperature)}")

    def _less_costs(self, train: Trajectories) -> Trajectories:
        """The logs with reward − λ·cost for reward."""
        if not self.price:
            return train
        return replace(train, rewards=train.rewards - self.price * Costs.of(self.cost).of_steps(train))

    def _path(self, train: Trajectories, q: FloatArray, chances: FloatArray) -> list[float]:
        path = self.temperatures
        if path is None:
            mild = _mild_temperature(train, q, chances)
            path = tuple(mild * multiple for multiple in PATH if mild > 0)
        return [*(float(tau) for tau in path if tau > self.temperature), float(self.temperature)]


def _mild_temperature(train: Trajectories, q: FloatArray, chances: FloatArray) -> float:
    """Where the log weights of an episode have a standard deviation of about 1: at τ they have Σ_t Var_μ(Q) / τ²."""
    totals = chances.sum(axis=1, keepdims=True)
    shares = chances / np.where(totals > 0, totals, 1.0)
    mean = (shares * q).sum(axis=1, keepdims=True)
    variances = (shares * np.square(q - mean)).sum(axis=1)
    return float(np.sqrt(episode_sums(variances, train.offsets).mean()))
