"""What policies of values beside the logging policy share: values by step, history, and how they act and are kept."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray, readonly
from poela.core.errors import InputError
from poela.core.live import stored_or_live
from poela.core.log_cache import cached
from poela.core.policy import Actor, LoggedSteps, Policy, along_once, as_policy, steps_of
from poela.core.storage import Stored
from poela.core.validation import expect_part, expect_sizes
from poela.data.history import HistoryFeatures, HistoryRecord, history_of
from poela.data.limits import within
from poela.eligibility.fitted import Eligible
from poela.policies.network import common_fields
from poela.policies.ruled import ActingRule, RuledPolicy, most_needed, needs_of, softmax
from poela.regression.step_values import StepQ


@dataclass(frozen=True, eq=False, kw_only=True)
class ValuedPolicy(RuledPolicy):
    """A policy made of values Q, the logging policy μ and, where it asks for them, counts of neighbours.

    The rule, the counts and μ see plain contexts; the values may look at `history` too.
    """

    values: StepQ
    behavior: Any  # μ: a policy
    history: HistoryFeatures | None = None

    @abstractmethod
    def decided(self, q: FloatArray, behavior: FloatArray, eligible: Eligible, counts: FloatArray | None) -> FloatArray:
        """Probabilities [N, A] from Q, μ and the counts, each [N, A]."""

    def counts(self, contexts: Float32Array, steps: IntArray) -> FloatArray | None:
        """Logged contexts nearby with each action [N, A]; None where the policy does not ask."""
        return None

    def counts_along(self, trajectories: LoggedSteps) -> FloatArray | None:
        """The same along logged episodes."""
        return None

    @property
    def behavior_models(self) -> tuple[Any, ...]:
        """The models of the logging policy that a file of this policy holds."""
        return (*super().behavior_models, self.behavior)

    @property
    def needs(self) -> str:
        """The step number, for the values of each step if there are several, or the history that these look at."""
        own = "history" if self.history is not None else "step" if self.values.n_steps > 1 else "context"
        return most_needed(own, super().needs, needs_of(self.behavior))

    def scores(self, contexts: Float32Array, steps: IntArray | None) -> FloatArray:
        """Q [N, A]."""
        if self.history is not None:
            raise InputError(
                "this policy looks at earlier steps: use decide(table), along(trajectories) or actor(n), not loose "
                "contexts"
            )
        if steps is None and self.values.n_steps > 1:
            raise InputError(
                "this policy has its own values for each step: give the step numbers (steps=...), or use decide(table) "
                "or actor(n), which count them"
            )
        return self.values.q_at(contexts, np.zeros(len(contexts), np.int64) if steps is None else steps)

    def probabilities(self, contexts: ArrayLike, steps: ArrayLike | None = None) -> FloatArray:
        """[N, A]; the step number of each row is needed, unless there is but one step."""
        rows = self.checked(contexts)
        q = self.scores(rows, None if steps is None else np.asarray(steps, np.int64))
        numbers: IntArray = np.zeros(len(rows), np.int64) if steps is None else np.asarray(steps, np.int64)
        behavior = as_policy(self.behavior).probabilities(rows)
        return self.decided(q, behavior, self.eligibility.resolve(rows, numbers), self.counts(rows, numbers))

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        """[N, A] along logged episodes."""
        q, behavior = self.q_along(trajectories), self.behavior_along(trajectories)
        return self.decided(q, behavior, self.eligibility.along(trajectories), self.counts_along(trajectories))

    def q_along(self, trajectories: LoggedSteps) -> FloatArray:
        """Q [N, A] along logged episodes; of single decisions worked out once for all policies of the same values."""
        if self.values.n_steps == 1:
            kind = ("values along", self.history)
            return cached(trajectories, kind, self.values, lambda: readonly(self._q_along(trajectories), np.float64))
        return self._q_along(trajectories)

    def _q_along(self, trajectories: LoggedSteps) -> FloatArray:
        rows = self.checked(trajectories.contexts)
        if self.history is not None:
            rows = self.history.of(rows, trajectories.actions, trajectories.offsets)
        return self.values.q_at(rows, steps_of(trajectories))

    def behavior_along(self, trajectories: LoggedSteps) -> FloatArray:
        """μ [N, A] along logged episodes."""
        return along_once(self.behavior, trajectories)

    def actor(self, n: int) -> Actor:
        """Acts in n episodes at once, counting steps and remembering what the values look at."""
        return _ValuedActor(self, n)

    def stored_as(self, kind: str, settings: dict[str, Any], parts: dict[str, Stored] | None = None) -> Stored:
        """The policy as plain settings and parts, with what a kind has beside the rest."""
        return Stored(
            kind,
            settings={
                "feature_names": list(self.feature_names),
                "action_names": list(self.action_names),
                "history": None if self.history is None else asdict(self.history),
                **settings,
            },
            parts={
                "eligibility": self.eligibility.stored(),
                "values": self.values.stored(),
                "behavior": stored_or_live(self.behavior),
                **(parts or {}),
            },
        )


SETTINGS = ("feature_names", "action_names", "history")
PARTS = ("eligibility", "values", "behavior")


def valued_fields(stored: Stored, load_part: Callable[[Stored], Any]) -> dict[str, Any]:
    """The fields that every policy of values has; its contents are as expected already."""
    fields = common_fields(stored, load_part)
    n_features, n_actions = len(fields["feature_names"]), len(fields["action_names"])
    plain = stored.settings["history"]
    history = None if plain is None else history_of(plain, n_features, n_actions)
    values = expect_part(stored, "values", load_part, StepQ, "values by step (step_q)")
    expect_sizes("values", values, n_features if history is None else history.width, n_actions)
    behavior = expect_part(stored, "behavior", load_part, Policy, "a behavior model")
    expect_sizes("behavior", behavior, n_features, n_actions)
    return {"values": values, "behavior": behavior, "history": history, **fields}


class _ValuedActor:
    def __init__(self, policy: ValuedPolicy, n: int) -> None:
        self._policy, self._behavior = policy, as_policy(policy.behavior).actor(n)
        self._rule = ActingRule(policy.eligibility, n)
        self._record = None if policy.history is None else HistoryRecord(policy.history, n)

    def probabilities(self, contexts: Float32Array) -> FloatArray:
        rows = self._policy.checked(contexts)
        features = rows if self._record is None else self._record.features(rows)
        steps = self._rule.steps(rows)
        q, behavior = self._policy.values.q_at(features, steps), self._behavior.probabilities(rows)
        return self._policy.decided(q, behavior, self._rule.eligible(rows), self._policy.counts(rows, steps))

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


def priced(behavior: FloatArray, eligible: Eligible) -> FloatArray:
    """The logging policy [N, A] within a rule, less of it where support is missing and has a price.

    >>> even, costs = np.full((1, 2), 0.5), np.log([[1.0, 3.0]])
    >>> priced(even, Eligible(even > 0, np.zeros(1, bool), costs)).round(3)
    array([[0.75, 0.25]])
    """
    shares = within(behavior, eligible.mask)
    if eligible.penalty is None:
        return shares
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    return softmax(logs - eligible.penalty, shares > 0)
