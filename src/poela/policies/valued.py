"""Policies of values beside the logging policy: what they share, and those that bar, count and tilt."""

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
from poela.core.typed import from_plain
from poela.core.validation import LARGEST, expect_contents, expect_part, expect_setting, expect_sizes, refuse
from poela.data.history import HistoryFeatures, HistoryRecord, history_of
from poela.data.limits import within
from poela.eligibility.fitted import Eligible, FittedEligibility
from poela.policies.network import common_fields
from poela.policies.ruled import ActingRule, RuledPolicy, followed, greedy, most_needed, needs_of, softmax
from poela.regression.departures import Departure
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


# Practice without what is worst: actions whose value is too far below what practice is worth are barred.


@dataclass(frozen=True, eq=False, kw_only=True)
class BarringPolicy(ValuedPolicy):
    """π ∝ μ·1{Q(x, a) > V(x) + margin} over the eligible actions, with V = Σ μ·Q; what μ does best is never barred."""

    margin: float  # usually below 0: how far below average an action may be

    def decided(
        self, q: FloatArray, behavior: FloatArray, eligible: Eligible, counts: FloatArray | None = None
    ) -> FloatArray:
        """Probabilities [N, A] from Q and μ."""
        practice = priced(behavior, eligible)
        return followed(without_worst(q, practice, self.margin), eligible)

    def choose(self, scores: FloatArray, eligible: BoolArray) -> FloatArray:
        """As practice does, where nothing is known of values."""
        return softmax(np.zeros(scores.shape), supported(scores > -np.inf, eligible))

    def barred_along(self, trajectories: LoggedSteps) -> BoolArray:
        """What must no longer be done [N, A] along logged episodes."""
        eligible = self.eligibility.along(trajectories)
        practice = priced(self.behavior_along(trajectories), eligible)
        barred = barred_by(self.q_along(trajectories), practice, self.margin)
        return np.asarray(barred & ~eligible.stranded[:, None])

    def leaves_along(self, trajectories: LoggedSteps) -> BoolArray:
        """Where it says no more than what is barred [N]: everywhere."""
        return np.ones(len(trajectories.contexts), np.bool_)

    def stored(self) -> Stored:
        """The policy as plain settings and arrays."""
        return self.stored_as("barring_policy", {"margin": self.margin})

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Callable[[Stored], Any]) -> "BarringPolicy":
        """The policy that `stored` describes."""
        expect_contents(stored, settings=(*SETTINGS, "margin"), parts=PARTS)
        margin = expect_setting(stored, "margin", float, low=-LARGEST, high=LARGEST)
        return cls(margin=margin, **valued_fields(stored, load_part))


def barred_by(q: FloatArray, practice: FloatArray, margin: float) -> BoolArray:
    """What practice [N, A] does that is worth no more than its average and the margin; never the best that it does.

    >>> q, practice = np.array([[0.0, 1.0, 5.0]]), np.array([[0.5, 0.5, 0.0]])
    >>> barred_by(q, practice, margin=-0.5), barred_by(q, practice, margin=-0.6), barred_by(q, practice, margin=9.0)
    (array([[ True, False, False]]), array([[False, False, False]]), array([[ True, False, False]]))
    """
    taken = practice > 0
    value = (practice * q).sum(axis=1, keepdims=True)
    best = np.where(taken, q, -np.inf).max(axis=1, keepdims=True)
    return np.asarray(taken & (q <= value + margin) & (q < best))


def without_worst(q: FloatArray, practice: FloatArray, margin: float) -> FloatArray:
    """Practice [N, A] without what is barred.

    >>> without_worst(np.array([[0.0, 1.0, 2.0]]), np.array([[0.5, 0.3, 0.2]]), margin=-0.6)
    array([[0. , 0.6, 0.4]])
    """
    left = np.where(barred_by(q, practice, margin), 0.0, practice)
    return np.asarray(left / left.sum(axis=1, keepdims=True))


# Values where enough was seen nearby, current practice elsewhere: policies of safe improvement.


@dataclass(frozen=True, eq=False, kw_only=True)
class CountedPolicy(ValuedPolicy):
    """Departs from the logging policy as far as the counts of logged neighbours allow."""

    departure: Departure
    nearby: FittedEligibility  # whose radius says what is nearby; it bars nothing

    def decided(self, q: FloatArray, behavior: FloatArray, eligible: Eligible, counts: FloatArray | None) -> FloatArray:
        """Probabilities [N, A] from Q, μ and the counts."""
        assert counts is not None
        return followed(self.departure.act(q, within(behavior, eligible.free), counts), eligible)

    def choose(self, scores: FloatArray, eligible: BoolArray) -> FloatArray:
        """What it would do if enough had been seen of everything."""
        return greedy(scores, eligible)

    def counts(self, contexts: Float32Array, steps: IntArray) -> FloatArray:
        """Logged contexts nearby with each action [N, A]."""
        return self.nearby.counts(contexts, steps)

    def counts_along(self, trajectories: LoggedSteps) -> FloatArray:
        """The same along logged episodes."""
        return self.nearby.counts_along(trajectories)

    def deferred(self, trajectories: LoggedSteps) -> BoolArray:
        """Which steps [N] are left to current practice: nothing is done otherwise than now."""
        eligible = self.eligibility.along(trajectories)
        current = followed(within(self.behavior_along(trajectories), eligible.free), eligible)
        return np.asarray((self.along(trajectories) == current).all(axis=1))

    @property
    def behavior_models(self) -> tuple[Any, ...]:
        """What a file of this policy holds whole: the models of the logging policy, and the contexts to be counted."""
        return (*super().behavior_models, self.nearby)

    def stored(self) -> Stored:
        """The policy as plain settings and arrays."""
        return self.stored_as("counted_policy", {"departure": asdict(self.departure)}, {"nearby": self.nearby.stored()})

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Callable[[Stored], Any]) -> "CountedPolicy":
        """The policy that `stored` describes."""
        expect_contents(stored, settings=(*SETTINGS, "departure"), parts=(*PARTS, "nearby"))
        departure = from_plain(Departure, stored.settings["departure"], "departure")
        fields = valued_fields(stored, load_part)
        nearby = expect_part(stored, "nearby", load_part, FittedEligibility, "an eligibility rule")
        expect_sizes("nearby", nearby, len(fields["feature_names"]), len(fields["action_names"]))
        if nearby.radius is None:
            raise InputError("nearby has no radius: it must say how near contexts are to be counted")
        return cls(departure=departure, nearby=nearby, **fields)


# The logging policy tilted towards higher values: from what the log can verify to what is worth most.


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
