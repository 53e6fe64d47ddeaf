"""Rivals from the literature of safe policy improvement: depart from current practice only where enough was seen.

Contexts are rarely seen twice, so what is counted is how often an action was taken at logged contexts nearby. Values
are those of acting so from the next step on, by the same backward induction as `FittedQ`'s.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from poela.core.errors import InputError
from poela.core.policy import Policy
from poela.core.typed import Count, Discount, NonNegative, Whole, shown
from poela.data.limits import within
from poela.data.trajectories import Trajectories
from poela.eligibility.fitted import FittedEligibility
from poela.eligibility.quantiles import RadiusSetting
from poela.eligibility.rules import Eligibility, Scale
from poela.learners.learner import Checkpoint, eligible_in_training, logging_policy, logging_probabilities
from poela.learners.value_learner import ValueLearner
from poela.policies.valued import CountedPolicy
from poela.regression.backward_induction import departing
from poela.regression.departures import Departure


@dataclass(frozen=True, kw_only=True)
class SafeImprovement(ValueLearner):
    """What SPIBB, Soft-SPIBB and DPRL share; the path walks through their limits, from cautious to bold."""

    walks: ClassVar[bool] = True
    reach: RadiusSetting = "q99"  # how near a logged context must be to be counted; "q99" as a radius of `Eligibility`
    scale: Scale = "standard"  # of features, where cases are counted nearby

    @abstractmethod
    def departures(self, train: Trajectories) -> list[tuple[str, Departure]]:
        """The points of the path, each with a note."""

    def fit_path(self, train: Trajectories, seed: int = 0, behavior: Policy | None = None) -> Iterator[Checkpoint]:
        """Yield the policy at each limit, the most cautious first."""
        logging = logging_policy(train, behavior)
        eligibility, eligible = eligible_in_training(self.rule, train, behavior)
        current = within(logging_probabilities(train, behavior), eligible.free)
        nearby = self._nearby(train)
        counts = nearby.counts_along(train)
        path = self.departures(train)
        induction = self.induction(train, seed, current)
        along = induction.values_along(lambda some: departing(current, counts, some), [point for _, point in path])
        for place, ((note, departure), (values, q)) in enumerate(zip(path, along, strict=True), start=1):
            self.refuse_divergence(train, q[current > 0])
            fields: dict[str, Any] = {"behavior": logging, "eligibility": eligibility, **self.fields(train)}
            policy = CountedPolicy(values=values, departure=departure, nearby=nearby, **fields)
            yield Checkpoint(place, policy, note)

    def _nearby(self, train: Trajectories) -> FittedEligibility:
        return replace(Eligibility(radius=self.reach, scale=self.scale).fit(train), episode_ids=None)


@dataclass(frozen=True, kw_only=True)
class SPIBB(SafeImprovement):
    """Safe policy improvement with baseline bootstrapping (Laroche, Trichelair & Tachet des Combes 2019).

    π = μ for actions taken at most `least_count` times nearby; the probability that μ gives to the others goes to the
    best of them (their Π_b-SPIBB).

    >>> actions = np.arange(400) % 2
    >>> logs = Trajectories(np.zeros((400, 1)), actions, actions * 1.0, np.arange(401), np.full((400, 2), 0.5))
    >>> [point.policy.along(logs.take([0])).tolist() for point in SPIBB(least_count=(200, 199)).fit_path(logs)]
    [[[0.5, 0.5]], [[0.0, 1.0]]]
    """

    # cases nearby that free an action, from cautious to bold
    least_count: tuple[Whole, ...] = (1000, 500, 300, 200, 150, 100, 70, 50, 30, 10)

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_unless_bolder("least_count", self.least_count, falling=True)

    def departures(self, train: Trajectories) -> list[tuple[str, Departure]]:
        """One for each count."""
        return [(f"least count {count}", Departure("spibb", float(count))) for count in self.least_count]


@dataclass(frozen=True, kw_only=True)
class DPRL(SafeImprovement):
    """Decision points (Sharma, Benac, Parbhoo & Doshi-Velez 2025): act, or defer to current practice.

    The best of the actions taken at least `least_count` times nearby is taken for certain where its Q is no less than
    V = Σ μ·Q; everywhere else the logging policy acts. Q is that of acting and deferring so from the next step on; in
    the paper, with continuous contexts, it is the mean return of the neighbours.
    """

    # cases nearby that allow acting, from cautious to bold
    least_count: tuple[Count, ...] = (1000, 500, 300, 200, 150, 100, 70, 50, 30, 10)

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_unless_bolder("least_count", self.least_count, falling=True)

    def departures(self, train: Trajectories) -> list[tuple[str, Departure]]:
        """One for each count."""
        return [(f"least count {count}", Departure("defer", float(count))) for count in self.least_count]


@dataclass(frozen=True, kw_only=True)
class SoftSPIBB(SafeImprovement):
    """SPIBB by degrees (Nadjahi, Laroche & Tachet des Combes 2019): the less was seen, the dearer a departure.

    Σ π·Q is raised within Σ e·|π − μ| ≤ `epsilon`, e = √(2·ln(2·A·N/`delta`)/count) with A actions and N logged
    contexts, by their greedy transfers (Approx-Soft-SPIBB), not by their linear programme.
    """

    # room for departures, from cautious to bold
    epsilon: tuple[NonNegative, ...] = (0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.15, 0.2, 0.5, 1.0)
    delta: Discount = 1.0  # chance of error in the bound of values

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_unless_bolder("epsilon", self.epsilon, falling=False)

    def departures(self, train: Trajectories) -> list[tuple[str, Departure]]:
        """One for each ε."""
        error = float(np.sqrt(2 * np.log(2 * train.n_actions * train.n_steps / self.delta)))
        return [(f"epsilon {epsilon:.4g}", Departure("soft", float(epsilon), error)) for epsilon in self.epsilon]


def refuse_unless_bolder(name: str, path: Sequence[float], *, falling: bool) -> None:
    """A path has at least one point, and each is bolder than the one before.

    >>> refuse_unless_bolder("least_count", (5, 9), falling=True)
    Traceback (most recent call last):
    poela.core.errors.InputError: least_count is (5, 9): give one number or more, in falling order
    """
    if not path or list(path) != sorted(set(path), reverse=falling):
        order = "falling" if falling else "rising"
        raise InputError(f"{name} is {shown(path)}: give one number or more, in {order} order")
