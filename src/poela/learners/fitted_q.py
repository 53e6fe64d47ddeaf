"""FittedQ: values by backward induction, and the logging policy tilted towards them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.core.policy import Policy
from poela.core.ragged import episode_sums
from poela.core.typed import Discount, NonNegative, Positive, Whole, one_of, shown
from poela.data.history import HistoryFeatures, with_history
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import Eligibility
from poela.learners.backward_induction import KEPT_NUMBERS, BackwardInduction, best, soft
from poela.learners.divergence import reachable_return, refuse_divergence
from poela.learners.eligible_training import eligible_in_training
from poela.learners.learner import Checkpoint, Learner
from poela.learners.logging_policy import logging_policy, logging_probabilities
from poela.learners.step_regression import Regressor
from poela.policies.step_values import StepQ
from poela.policies.tilted import TiltedPolicy, supported

PENALTY_MULTIPLES = (1.0, 10.0, 100.0, 1e3, 1e4)
# The default path in multiples of the mild temperature: from twice to a sixteenth of it, then greedy.
PATH = tuple(2.0 ** (1 - k / 3) for k in range(16))
MOST_NUMBERS = 2e7  # values that are computed together: 160 MB


@dataclass(frozen=True, kw_only=True)
class FittedQ(Learner):
    """π(a|x) ∝ μ(a|x)·exp(Q(x, a)/τ) over eligible actions, with Q by one regression for each step, last to first.

    A high temperature stays near the logging policy μ, where importance sampling can verify the policy; a low one goes
    where the values point; 0 is greedy. `fit_path` walks there from mild to `temperature`, with one and the same Q
    (`backup="max"`: of acting best from the next step on) or with each temperature's own (`backup="soft"`: of acting
    best at a price of τ for each nat of departure from μ, which gives the most value for what must be verified).
    By default the path starts where the log weights of an episode have a standard deviation of about one half, and the
    temperature halves every three checkpoints. Without `behavior`, μ at new contexts is that of the nearest logged one.

    >>> from poela.data.trajectories import Trajectories
    >>> actions = np.arange(400) % 2
    >>> logs = Trajectories(np.zeros((400, 1)), actions, actions * 1.0, np.arange(401), np.full((400, 2), 0.5))
    >>> FittedQ(temperature=1.0).fit(logs).along(logs.take([0])).round(2)  # 1 : e
    array([[0.27, 0.73]])
    """

    walks: ClassVar[bool] = True
    temperature: NonNegative = 0.0  # τ
    temperatures: tuple[NonNegative, ...] | None = None  # the path towards it, in falling order
    regressor: Regressor = "ridge"
    backup: Annotated[str, one_of("max", "soft")] = "max"
    penalty: Positive = 0.3  # the ridge's smallest; each regression takes a larger one where that predicts better
    rule: Eligibility | None = None
    history: Whole = 2  # earlier steps (and the first context) that Q looks at; 0: the current context alone
    discount: Discount = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.temperatures is not None and list(self.temperatures) != sorted(self.temperatures, reverse=True):
            raise InputError(f"temperatures is {shown(self.temperatures)}: they must be in falling order")

    def fit_path(self, train: Trajectories, seed: int = 0, behavior: Policy | None = None) -> Iterator[Checkpoint]:
        """Yield the policy at each temperature, the mildest first."""
        base = logging_policy(train, behavior)
        chances = logging_probabilities(train, behavior)
        eligibility, eligible = eligible_in_training(self.rule or Eligibility(), train, behavior)
        mask = supported(chances > 0, eligible)
        near = np.where(mask, chances, 0.0)
        seen = with_history(train, self.history, initial=True) if self.history else train
        induction = self._induction(seen, seed)
        ((values, q),) = induction.values(best(mask))
        self._refuse_divergence(train, q[mask])
        path = self._path(train, q, near)
        layout = (
            HistoryFeatures(self.history, train.n_features, train.n_actions, initial=True) if self.history else None
        )
        softened = self._softened(induction, seen, near, path)
        for place, temperature in enumerate(path, start=1):
            own = values
            if self.backup == "soft" and temperature > 0:
                own, q = next(softened)
                self._refuse_divergence(train, q[mask])
            policy = TiltedPolicy(
                values=own,
                behavior=base,
                temperature=temperature,
                history=layout,
                eligibility=eligibility,
                feature_names=train.feature_names,
                action_names=train.action_names,
            )
            yield Checkpoint(place, policy, f"temperature {temperature:.4g}")

    def _induction(self, seen: Trajectories, seed: int) -> BackwardInduction:
        return BackwardInduction(
            seen,
            regressor=self.regressor,
            discount=self.discount,
            penalties=[self.penalty * multiple for multiple in PENALTY_MULTIPLES],
            keep=KEPT_NUMBERS if self.backup == "soft" else 0,
            seed=seed,
        )

    def _softened(
        self, induction: BackwardInduction, seen: Trajectories, chances: FloatArray, path: list[float]
    ) -> Iterator[tuple[StepQ, FloatArray]]:
        """Q of acting best at a price of departure, at each temperature above 0: as many at once as memory allows."""
        above = [temperature for temperature in path if temperature > 0]
        together = max(int(MOST_NUMBERS / (seen.n_steps * seen.n_actions)), 1)
        for start in range(0, len(above), together):
            some = above[start : start + together]
            yield from induction.values(soft(chances, some), len(some))

    def _refuse_divergence(self, train: Trajectories, q: FloatArray) -> None:
        reachable = max(reachable_return(train, self.discount), 1e-6)
        refuse_divergence("FittedQ", "the training log", float(np.abs(q).max()), reachable)

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
