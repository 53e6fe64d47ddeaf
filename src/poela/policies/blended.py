"""Policies between the logging policy and a learned one, and the logging policy sharpened: from cautious to bold."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.live import stored_or_live
from poela.core.policy import Actor, LoggedSteps, along_once, as_policy
from poela.core.storage import Stored
from poela.core.validation import LARGEST, expect_contents, expect_part, expect_setting, refuse
from poela.data.limits import within
from poela.eligibility.fitted import Eligible
from poela.policies.network import NAMES, common_fields
from poela.policies.practice import PracticePolicy, stored_behavior
from poela.policies.ruled import RuledPolicy, most_needed, needs_of, softmax
from poela.policies.valued import supported


@dataclass(frozen=True, eq=False, kw_only=True)
class BlendedPolicy(RuledPolicy):
    """π_β ∝ μ^(1−β)·π^β for a learned policy π and the logging policy μ, within the rule of π.

    A greedy policy has no blend of that form but itself, so it is mixed: (1−β)·μ + β·π (`mixed=True`); the logging
    policy's part does what it does, whatever the rule of π.
    """

    policy: RuledPolicy
    behavior: Any  # μ: a policy
    share: float  # β
    mixed: bool = False

    def __post_init__(self) -> None:
        if self.policy.eligibility is not self.eligibility:  # one rule for both, also where it is thinned for a file
            object.__setattr__(self, "policy", replace(self.policy, eligibility=self.eligibility))

    @property
    def behavior_models(self) -> tuple[Any, ...]:
        """The models of the logging policy that a file of this policy holds."""
        return (*self.policy.behavior_models, self.behavior)

    @property
    def needs(self) -> str:
        """What the learned policy or the logging policy looks at."""
        return most_needed(self.policy.needs, needs_of(self.behavior))

    @property
    def acts_beyond_rule(self) -> bool:
        """Where it is mixed, the logging policy's part does what it does."""
        return self.mixed

    def scores(self, contexts: Float32Array, steps: IntArray | None) -> FloatArray:
        """Those of the learned policy."""
        return self.policy.scores(contexts, steps)

    def choose(self, scores: FloatArray, eligible: BoolArray) -> FloatArray:
        """As the learned policy chooses."""
        return self.policy.choose(scores, eligible)

    def probabilities(self, contexts: ArrayLike, steps: ArrayLike | None = None) -> FloatArray:
        """[N, A]."""
        rows = self.checked(contexts)
        logging = self.within_limits(as_policy(self.behavior).probabilities(rows), rows)
        return self.blend(self.policy.probabilities(rows, steps), logging)

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        """[N, A] along logged episodes."""
        logging = self.within_limits(along_once(self.behavior, trajectories), self.checked(trajectories.contexts))
        return self.blend(along_once(self.policy, trajectories), logging)

    def actor(self, n: int) -> Actor:
        """Acts in n episodes at once."""
        return _BlendedActor(self, n)

    def within_limits(self, logging: FloatArray, contexts: Float32Array) -> FloatArray:
        """What the logging policy does [N, A], but for what is forbidden."""
        limits = self.eligibility.limits
        return logging if limits is None else within(logging, limits.allowed(contexts))

    def blend(self, learned: FloatArray, logging: FloatArray) -> FloatArray:
        """The blend of two policies' probabilities, both [N, A]."""
        if self.mixed:
            return np.asarray((1 - self.share) * logging + self.share * learned)
        # Where the logging policy takes none of the learned policy's actions, it has no say: 0 in the place of log 0.
        logs = [np.log(rows, out=np.zeros_like(rows), where=rows > 0) for rows in (learned, logging)]
        taken = supported(logging > 0, learned > 0) if self.share < 1 else learned > 0
        return softmax(self.share * logs[0] + (1 - self.share) * logs[1], taken)

    def stored(self) -> Stored:
        """The policy as plain settings, with what it is a blend of as parts."""
        settings = {
            "feature_names": list(self.feature_names),
            "action_names": list(self.action_names),
            "share": self.share,
            "mixed": self.mixed,
        }
        parts = {"eligibility": self.eligibility, "policy": self.policy, "behavior": self.behavior}
        return Stored("blended_policy", settings, parts={name: stored_or_live(part) for name, part in parts.items()})

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Callable[[Stored], Any]) -> "BlendedPolicy":
        """The policy that `stored` describes."""
        expect_contents(stored, (*NAMES, "share", "mixed"), parts=("eligibility", "policy", "behavior"))
        share = expect_setting(stored, "share", float, low=0, high=1)
        mixed = stored.settings["mixed"]
        if not isinstance(mixed, bool):
            refuse("mixed", mixed, "true or false")
        fields = common_fields(stored, load_part)
        policy = expect_part(stored, "policy", load_part, RuledPolicy, "a policy")
        if (policy.feature_names, policy.action_names) != (fields["feature_names"], fields["action_names"]):
            raise InputError("the policy that is blended has other features or actions")
        behavior = stored_behavior(stored, load_part, fields)
        return cls(policy=policy, behavior=behavior, share=share, mixed=mixed, **fields)


@dataclass(frozen=True, eq=False, kw_only=True)
class SharpenedPolicy(PracticePolicy):
    """π ∝ μ^α over the eligible actions: what most already do, done more consistently."""

    sharpness: float  # the power of practice (α)

    def decided(self, contexts: Float32Array, behavior: FloatArray, eligible: Eligible) -> FloatArray:
        """Probabilities [N, A] from μ."""
        return self.ruled(self.sharpened(behavior), eligible)

    def sharpened(self, behavior: FloatArray) -> FloatArray:
        """α·log μ, −inf where μ never acts so."""
        with np.errstate(divide="ignore"):
            return np.asarray(self.sharpness * np.log(behavior))

    def stored(self) -> Stored:
        """The policy as plain settings, with the rule and the logging policy as parts."""
        return self.stored_as("sharpened_policy", {"sharpness": self.sharpness})

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Callable[[Stored], Any]) -> "SharpenedPolicy":
        """The policy that `stored` describes."""
        expect_contents(stored, (*NAMES, "sharpness"), parts=("eligibility", "behavior"))
        sharpness = expect_setting(stored, "sharpness", float, low=1 / LARGEST, high=LARGEST)
        fields = common_fields(stored, load_part)
        return cls(behavior=stored_behavior(stored, load_part, fields), sharpness=sharpness, **fields)


class _BlendedActor:
    def __init__(self, policy: BlendedPolicy, n: int) -> None:
        self._policy = policy
        self._learned, self._logging = policy.policy.actor(n), as_policy(policy.behavior).actor(n)

    def probabilities(self, contexts: Float32Array) -> FloatArray:
        rows = self._policy.checked(contexts)
        logging = self._policy.within_limits(self._logging.probabilities(rows), rows)
        return self._policy.blend(self._learned.probabilities(rows), logging)

    def record(self, actions: IntArray) -> None:
        self._learned.record(actions)
        self._logging.record(actions)
