"""The true value of a policy in a simulator, and of several policies on common random numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from poela.core.arrays import FloatArray, readonly
from poela.core.errors import InputError
from poela.core.policy import AnyPolicy
from poela.simulators.episodes import ROLL_OUTS, Simulator, run_in_batches


@dataclass(frozen=True)
class TrueValue:
    """A mean over roll-outs.

    >>> print(TrueValue(value=-8.3412, standard_error=0.0148, n_episodes=100_000))
    -8.341 ± 0.015 (100000 roll-outs)
    """

    value: float
    standard_error: float
    n_episodes: int

    @classmethod
    def mean_of(cls, returns: FloatArray) -> "TrueValue":
        """The mean of the episodes' returns (or of their paired differences)."""
        n = len(returns)
        return cls(float(returns.mean()), float(returns.std(ddof=1) / np.sqrt(n)), n)

    def __str__(self) -> str:
        return f"{self.value:.3f} ± {self.standard_error:.3f} ({self.n_episodes} roll-outs)"


@dataclass(frozen=True, eq=False)
class Comparison:
    """Returns of several policies in the same episodes."""

    returns: Mapping[str, FloatArray]  # [n] for each policy

    def value(self, name: str) -> TrueValue:
        """The true value of one policy."""
        return TrueValue.mean_of(self.returns[name])

    def difference(self, name: str, other: str) -> TrueValue:
        """How much better `name` is than `other`, episode by episode."""
        return TrueValue.mean_of(self.returns[name] - self.returns[other])


def true_value(
    policy: AnyPolicy,
    simulator: Simulator,
    episodes: int = 1000,
    seed: int = 0,
    discount: float = 1.0,
    batch: int = 10_000,
) -> TrueValue:
    """The value of a policy (anything with `probabilities(contexts)`; with memory, `actor`) by roll-outs.

    Memory is bounded by the batch, whatever the number of episodes. The same seed gives every policy the same patients
    and the same luck.

    >>> from poela.simulators.tumor import Schedule, TumorGrowth
    >>> print(true_value(Schedule.first_months(9), TumorGrowth(), episodes=1000))
    -4.3... ± 0.04... (1000 roll-outs)
    """
    return TrueValue.mean_of(_returns(policy, simulator, episodes, seed, discount, batch))


def compare(
    policies: Mapping[str, Any],
    simulator: Simulator,
    episodes: int = 1000,
    seed: int = 0,
    discount: float = 1.0,
    batch: int = 10_000,
) -> Comparison:
    """Named policies on common random numbers, so that differences are far more exact than values.

    >>> from poela.simulators.tumor import Schedule, TumorGrowth
    >>> schedules = {"five months": Schedule.first_months(5), "nine months": Schedule.first_months(9)}
    >>> print(compare(schedules, TumorGrowth()).difference("five months", "nine months"))
    7.2... ± 0.0... (1000 roll-outs)
    """
    return Comparison(
        {name: _returns(policy, simulator, episodes, seed, discount, batch) for name, policy in policies.items()}
    )


def _returns(policy: Any, simulator: Simulator, episodes: int, seed: int, discount: float, batch: int) -> FloatArray:
    if episodes < 2:
        raise InputError(f"{episodes} roll-outs have no standard error: ask for at least 2")
    parts = run_in_batches(simulator, policy, episodes, (seed, ROLL_OUTS), batch)
    return readonly(np.concatenate([part.returns(discount) for part in parts]), np.float64)
