"""The logging policy tilted towards higher values: from what the log can verify to what is worth most."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.policy import Actor, LoggedSteps, Policy, as_policy
from poela.core.ragged import step_numbers
from poela.core.remembered import remembered
from poela.core.storage import Stored
from poela.core.validation import LARGEST, expect_contents, expect_part, expect_setting, expect_sizes, refuse
from poela.data.history import HistoryFeatures, HistoryRecord, history_of
from poela.policies.network import NAMES, common_fields
from poela.policies.ruled import ActingRule, RuledPolicy, greedy, softmax
from poela.policies.step_values import StepQ


@dataclass(frozen=True, eq=False, kw_only=True)
class TiltedPolicy(RuledPolicy):
    """π(a|x) ∝ μ(a|x)·exp(Q(x, a)/τ) over the eligible actions; at τ = 0 the best of those that μ takes at all.

    The rule and the logging policy μ see plain contexts; the values may look at `history` too. Where μ takes none of
    the eligible actions, all of them count alike.
    """

    values: StepQ
    behavior: Any  # μ: a policy
    temperature: float  # τ
    history: HistoryFeatures | None = None

    @property
    def behavior_models(self) -> tuple[Any, ...]:
        """The models of the logging policy that a file of this policy holds."""
        return (*super().behavior_models, self.behavior)

    def scores(self, contexts: Float32Array, steps: IntArray | None) -> FloatArray:
        """log μ + Q/τ [N, A] (at τ = 0: Q), −inf where μ never acts so."""
        if self.history is not None:
            raise InputError(
                "this policy looks at earlier steps: use along(trajectories) or actor(n), not loose contexts"
            )
        if steps is None:
            raise InputError("this policy has its own values for each step: give the step numbers (steps=...)")
        return self.tilted(self.values.q_at(contexts, steps), as_policy(self.behavior).probabilities(contexts))

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        """[N, A] along logged episodes."""
        rows, steps = self.checked(trajectories.contexts), step_numbers(trajectories.offsets)
        features = rows
        if self.history is not None:
            features = self.history.of(rows, trajectories.actions, trajectories.offsets)
        behavior = remembered(
            trajectories, "along", self.behavior, lambda: as_policy(self.behavior).along(trajectories)
        )
        scores = self.tilted(self.values.q_at(features, steps), behavior)
        return self.ruled(scores, self.eligibility.along(trajectories))

    def actor(self, n: int) -> Actor:
        """Acts in n episodes at once, counting steps and remembering what the values look at."""
        return _TiltedActor(self, n)

    def tilted(self, q: FloatArray, behavior: FloatArray) -> FloatArray:
        """The scores from Q and μ, both [N, A]."""
        with np.errstate(divide="ignore"):
            log_behavior = np.log(behavior)
        if self.temperature == 0:
            return np.where(behavior > 0, q, -np.inf)
        return np.asarray(log_behavior + q / self.temperature)

    def choose(self, scores: FloatArray, eligible: BoolArray) -> FloatArray:
        """The softmax of the scores, or at temperature 0 the best action."""
        taken = supported(scores > -np.inf, eligible)
        finite = np.where(np.isneginf(scores), 0.0, scores)
        return greedy(finite, taken) if self.temperature == 0 else softmax(finite, taken)

    def stored(self) -> Stored:
        """The policy as plain settings and arrays."""
        if not callable(getattr(self.behavior, "stored", None)):
            raise InputError(
                f"the behavior model {type(self.behavior).__name__} cannot be saved (it has no method stored()): "
                "learn with one of poela's behavior models"
            )
        return Stored(
            "tilted_policy",
            settings={
                "feature_names": list(self.feature_names),
                "action_names": list(self.action_names),
                "temperature": self.temperature,
                "history": None if self.history is None else asdict(self.history),
            },
            parts={
                "eligibility": self.eligibility.stored(),
                "values": self.values.stored(),
                "behavior": self.behavior.stored(),
            },
        )

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Callable[[Stored], Any]) -> "TiltedPolicy":
        """The policy that `stored` describes."""
        parts = ("eligibility", "values", "behavior")
        expect_contents(stored, settings=(*NAMES, "temperature", "history"), parts=parts)
        temperature = expect_setting(stored, "temperature", float, low=0, high=LARGEST)
        if 0 < temperature < 1 / LARGEST:
            refuse("temperature", temperature, f"0, or {1 / LARGEST:g} or more")
        fields = common_fields(stored, load_part)
        n_features, n_actions = len(fields["feature_names"]), len(fields["action_names"])
        plain = stored.settings["history"]
        history = None if plain is None else history_of(plain, n_features, n_actions)
        values = expect_part(stored, "values", load_part, StepQ, "values by step (step_q)")
        expect_sizes("values", values, n_features if history is None else history.width, n_actions)
        behavior = expect_part(stored, "behavior", load_part, Policy, "a behavior model")
        expect_sizes("behavior", behavior, n_features, n_actions)
        return cls(values=values, behavior=behavior, temperature=temperature, history=history, **fields)


class _TiltedActor:
    def __init__(self, policy: TiltedPolicy, n: int) -> None:
        self._policy, self._behavior = policy, as_policy(policy.behavior).actor(n)
        self._rule = ActingRule(policy.eligibility, n)
        self._record = None if policy.history is None else HistoryRecord(policy.history, n)

    def probabilities(self, contexts: Float32Array) -> FloatArray:
        rows = self._policy.checked(contexts)
        features = rows if self._record is None else self._record.features(rows)
        q = self._policy.values.q_at(features, self._rule.steps(rows))
        scores = self._policy.tilted(q, self._behavior.probabilities(rows))
        return self._policy.ruled(scores, self._rule.eligible(rows))

    def record(self, actions: IntArray) -> None:
        self._behavior.record(actions)
        if self._record is not None:
            self._record.add(actions)
        self._rule.record(actions)


def supported(taken: BoolArray, eligible: BoolArray) -> BoolArray:
    """The eligible actions that the logging policy takes; all eligible ones where it takes none of them.

    >>> supported(np.array([[True, True, False], [False, False, True]]), np.array([[True, False, True]] * 2))
    array([[ True, False, False],
           [False, False,  True]])
    >>> supported(np.array([[False, True]]), np.array([[True, False]]))
    array([[ True, False]])
    """
    both = taken & eligible
    return np.asarray(np.where(both.any(axis=1, keepdims=True), both, eligible))
