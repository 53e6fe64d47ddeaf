"""The rules that make an action eligible, as settings: near logged contexts, probable enough, or anything."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from poela.core.arrays import BoolArray, FloatArray
from poela.core.errors import InputError
from poela.data.trajectories import Trajectories

if TYPE_CHECKING:
    from poela.eligibility.fitted import FittedEligibility

CHOICES = {
    "metric": ("mean_squared", "euclidean"),
    "neighbours": ("pooled", "same_step"),
    "fallback": ("nearest", "behavior", "all"),
}


@dataclass(frozen=True)
class Eligibility:
    """When an action may be taken at a context; an action must pass every rule that is set.

    `radius` (δ) asks for a logged context with that action at most that far away: ‖x − x′‖²/d with the default
    metric, as in the published experiments, or the Euclidean distance. `minimum_probability` asks the logging policy
    to take the action at least that often (0: at all); `relative_probability` asks for more than that share of its most
    probable action's probability (BCQ). `scale` divides the features (`"standard"`: by their standard
    deviations in the training data), `weights` multiply their squared differences. Where no action passes, `fallback`
    decides: the nearest action (without a radius: the most probable), the logging policy, or all actions.

    >>> logs = Trajectories(contexts=[[0.0], [1.0], [1.2]], actions=[0, 1, 1], rewards=[0, 0, 0], offsets=[0, 1, 3])
    >>> Eligibility(radius=0.5).fit(logs).mask([[0.1], [0.6], [9.0]])
    array([[ True, False],
           [ True,  True],
           [False,  True]])
    """

    radius: float | None = None
    minimum_probability: float | None = None
    relative_probability: float | None = None
    metric: str = "mean_squared"  # or "euclidean"
    scale: str | tuple[float, ...] | None = None  # "standard", or one number for each feature
    weights: tuple[float, ...] | None = None
    neighbours: str = "pooled"  # or "same_step"
    fallback: str = "nearest"  # or "behavior", "all"

    def fit(self, train: Trajectories, behavior: Any = None) -> "FittedEligibility":
        """The rule over these training logs; `behavior` is any object with `probabilities(contexts)`."""
        from poela.eligibility.fitted import fit_eligibility

        return fit_eligibility(self, train, behavior)

    @property
    def asks_behavior(self) -> bool:
        """Whether the logging policy's probabilities are needed."""
        asked = self.minimum_probability is not None or self.relative_probability is not None
        return asked or self.fallback == "behavior"

    def probable(self, probabilities: FloatArray) -> BoolArray:
        """Which actions [N, A] pass the rules on the logging policy's probabilities [N, A].

        >>> import numpy as np
        >>> Eligibility(relative_probability=0.2).probable(np.array([[0.8, 0.2, 0.0], [0.9, 0.1, 0.0]]))
        array([[ True,  True, False],
               [ True, False, False]])
        """
        passed = probabilities >= 0
        if self.minimum_probability is not None:
            passed = (probabilities >= self.minimum_probability) & (probabilities > 0)
        if self.relative_probability is not None:
            passed = passed & (probabilities > self.relative_probability * probabilities.max(axis=1, keepdims=True))
        return passed

    def check(self, n_features: int) -> None:
        """Raises one error that lists everything wrong with the settings."""
        problems = [
            f"{name} is {getattr(self, name)!r}: choose {' or '.join(map(repr, choices))}"
            for name, choices in CHOICES.items()
            if getattr(self, name) not in choices
        ]
        if self.radius is not None and not self.radius >= 0:
            problems.append(f"radius is {self.radius}: it must be 0 or more")
        for name in ("minimum_probability", "relative_probability"):
            share = getattr(self, name)
            if share is not None and not 0 <= share <= 1:
                problems.append(f"{name} is {share}: it must lie between 0 and 1")
        if isinstance(self.scale, str):
            if self.scale != "standard":
                problems.append(f"scale is {self.scale!r}: choose 'standard', or give one number for each feature")
        elif self.scale is not None:
            problems += _wrong_numbers("scale", self.scale, n_features, zero_allowed=False)
        if self.weights is not None:
            problems += _wrong_numbers("weights", self.weights, n_features, zero_allowed=True)
        if problems:
            raise InputError(problems)


def Radius(radius: float, **settings: Any) -> Eligibility:
    """Actions logged within this distance (POELA).

    >>> Radius(0.1).radius
    0.1
    """
    return Eligibility(radius=radius, **settings)


def MinimumProbability(threshold: float, **settings: Any) -> Eligibility:
    """Actions that the logging policy takes with at least this probability (PO-μ); 0 asks for more than 0.

    >>> MinimumProbability(0.05).minimum_probability
    0.05
    """
    return Eligibility(minimum_probability=threshold, **settings)


def AnyAction() -> Eligibility:
    """Every action, even those never logged (PO-CRM).

    >>> AnyAction() == Eligibility()
    True
    """
    return Eligibility()


def _wrong_numbers(name: str, values: tuple[float, ...], n_features: int, *, zero_allowed: bool) -> list[str]:
    least = "0 or more" if zero_allowed else "above 0"
    problems = []
    if len(values) != n_features:
        problems.append(f"{name} has {len(values)} numbers for {n_features} features: give one for each")
    bad = sum(not (math.isfinite(value) and (value >= 0 if zero_allowed else value > 0)) for value in values)
    if bad:
        problems.append(f"{bad} numbers of {name} are not finite and {least}: correct them")
    return problems
