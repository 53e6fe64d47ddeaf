"""The logging policy tilted towards higher values: from what the log can verify to what is worth most."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from poela.core.arrays import BoolArray, FloatArray
from poela.core.storage import Stored
from poela.core.validation import LARGEST, expect_contents, expect_setting, refuse
from poela.eligibility.fitted import Eligible
from poela.policies.ruled import greedy, softmax
from poela.policies.valued import PARTS, SETTINGS, ValuedPolicy, supported, valued_fields


@dataclass(frozen=True, eq=False, kw_only=True)
class TiltedPolicy(ValuedPolicy):
    """π(a|x) ∝ μ(a|x)·exp(Q(x, a)/τ) over the eligible actions; at τ = 0 the best of those that μ takes at all.

    Where μ takes none of the eligible actions, all of them count alike.
    """

    temperature: float  # τ

    @property
    def is_greedy(self) -> bool:
        """At temperature 0."""
        return self.temperature == 0

    def decided(
        self, q: FloatArray, behavior: FloatArray, eligible: Eligible, counts: FloatArray | None = None
    ) -> FloatArray:
        """Probabilities [N, A] from Q and μ."""
        return self.ruled(self.tilted(q, behavior), eligible)

    def tilted(self, q: FloatArray, behavior: FloatArray) -> FloatArray:
        """log μ + Q/τ [N, A] (at τ = 0: Q), −inf where μ never acts so."""
        with np.errstate(divide="ignore"):
            log_behavior = np.log(behavior)
        if self.temperature == 0:
            return np.where(behavior > 0, q, -np.inf)
        return np.asarray(log_behavior + q / self.temperature)

    def choose(self, scores: FloatArray, eligible: BoolArray) -> FloatArray:
        """The softmax of what is tilted, or at temperature 0 the best action."""
        taken = supported(scores > -np.inf, eligible)
        finite = np.where(np.isneginf(scores), 0.0, scores)
        return greedy(finite, taken) if self.temperature == 0 else softmax(finite, taken)

    def stored(self) -> Stored:
        """The policy as plain settings and arrays."""
        return self.stored_as("tilted_policy", {"temperature": self.temperature})

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Callable[[Stored], Any]) -> "TiltedPolicy":
        """The policy that `stored` describes."""
        expect_contents(stored, settings=(*SETTINGS, "temperature"), parts=PARTS)
        temperature = expect_setting(stored, "temperature", float, low=0, high=LARGEST)
        if 0 < temperature < 1 / LARGEST:
            refuse("temperature", temperature, f"0, or {1 / LARGEST:g} or more")
        return cls(temperature=temperature, **valued_fields(stored, load_part))
