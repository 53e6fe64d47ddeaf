"""What policies that change current practice by the current context share: a model of it, and how they act with it."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.live import stored_or_live
from poela.core.policy import Actor, LoggedSteps, Policy, along_once, as_policy
from poela.core.storage import Stored
from poela.core.validation import expect_part, expect_sizes
from poela.eligibility.fitted import Eligible
from poela.policies.ruled import ActingRule, RuledPolicy, most_needed, needs_of, softmax
from poela.policies.valued import supported


@dataclass(frozen=True, eq=False, kw_only=True)
class PracticePolicy(RuledPolicy):
    """A policy made of the logging policy μ and the current context."""

    behavior: Any  # μ: a policy

    @abstractmethod
    def decided(self, contexts: Float32Array, behavior: FloatArray, eligible: Eligible) -> FloatArray:
        """Probabilities [N, A] from contexts, μ [N, A] and what is eligible."""

    @property
    def behavior_models(self) -> tuple[Any, ...]:
        """The models of the logging policy that a file of this policy holds."""
        return (*super().behavior_models, self.behavior)

    @property
    def needs(self) -> str:
        """What the logging policy looks at, or the rule."""
        return most_needed(super().needs, needs_of(self.behavior))

    def scores(self, contexts: Float32Array, steps: IntArray | None) -> FloatArray:
        """log μ [N, A]."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(as_policy(self.behavior).probabilities(contexts)))

    def choose(self, scores: FloatArray, eligible: BoolArray) -> FloatArray:
        """The softmax of the scores over the eligible actions that μ takes."""
        taken = supported(scores > -np.inf, eligible)
        return softmax(np.where(np.isneginf(scores), 0.0, scores), taken)

    def probabilities(self, contexts: ArrayLike, steps: ArrayLike | None = None) -> FloatArray:
        """[N, A]."""
        rows = self.checked(contexts)
        numbers = None if steps is None else np.asarray(steps, np.int64)
        behavior = as_policy(self.behavior).probabilities(rows)
        return self.decided(rows, behavior, self.eligibility.resolve(rows, numbers))

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        """[N, A] along logged episodes."""
        rows = self.checked(trajectories.contexts)
        return self.decided(rows, along_once(self.behavior, trajectories), self.eligibility.along(trajectories))

    def actor(self, n: int) -> Actor:
        """Acts in n episodes at once."""
        return _PracticeActor(self, n)

    def stored_as(self, kind: str, settings: dict[str, Any]) -> Stored:
        """The policy as plain settings, with the rule and the logging policy as parts."""
        names = {"feature_names": list(self.feature_names), "action_names": list(self.action_names)}
        parts = {"eligibility": stored_or_live(self.eligibility), "behavior": stored_or_live(self.behavior)}
        return Stored(kind, names | settings, parts=parts)


class _PracticeActor:
    def __init__(self, policy: PracticePolicy, n: int) -> None:
        self._policy, self._behavior = policy, as_policy(policy.behavior).actor(n)
        self._rule = ActingRule(policy.eligibility, n)

    def probabilities(self, contexts: Float32Array) -> FloatArray:
        rows = self._policy.checked(contexts)
        return self._policy.decided(rows, self._behavior.probabilities(rows), self._rule.eligible(rows))

    def record(self, actions: IntArray) -> None:
        self._behavior.record(actions)
        self._rule.record(actions)


def stored_behavior(stored: Stored, load_part: Callable[[Stored], Any], fields: dict[str, Any]) -> Any:
    """The model of the logging policy in a file, of the sizes that the policy has."""
    behavior = expect_part(stored, "behavior", load_part, Policy, "a behavior model")
    expect_sizes("behavior", behavior, len(fields["feature_names"]), len(fields["action_names"]))
    return behavior
