"""A policy under a rule of eligible actions: scores of the actions in, probabilities of the eligible ones out."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from poela.behavior.propensities import LoggedPropensities
from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.paths import output_folder
from poela.core.policy import Actor, LoggedSteps, MemorylessActor, as_policy, sample_actions, steps_of
from poela.core.storage import Stored
from poela.data.action_space import ActionName
from poela.data.decision_rows import has_columns, loose_contexts
from poela.data.schema import TableSchema
from poela.data.words import quoted
from poela.eligibility.fitted import Eligible, FittedEligibility
from poela.policies.decides import Decides
from poela.policies.saving import save_policy

if TYPE_CHECKING:
    from poela.eligibility.explanation import Explanation


@dataclass(frozen=True, eq=False, kw_only=True)
class RuledPolicy(Decides, ABC):
    """What all learned policies share. Ineligible actions have probability exactly 0."""

    eligibility: FittedEligibility  # its fitted rule of eligible actions
    feature_names: tuple[str, ...]  # of the contexts
    action_names: tuple[ActionName, ...]  # of the actions

    @abstractmethod
    def scores(self, contexts: Float32Array, steps: IntArray | None) -> FloatArray:
        """What the policy thinks of every action [N, A], eligible or not."""

    @abstractmethod
    def choose(self, scores: FloatArray, eligible: BoolArray) -> FloatArray:
        """Probabilities [N, A] from scores, zero where not eligible."""

    @abstractmethod
    def stored(self) -> Stored:
        """The policy as plain settings and arrays."""

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return len(self.action_names)

    @property
    def n_features(self) -> int:
        """How many features contexts have."""
        return len(self.feature_names)

    @property
    def behavior_models(self) -> tuple[Any, ...]:
        """The models of the logging policy that a file of this policy holds."""
        return () if self.eligibility.behavior is None else (self.eligibility.behavior,)

    @property
    def builds_on_propensities(self) -> bool:
        """Whether each case must bring the logging policy's propensities of every action."""
        return any(isinstance(model, LoggedPropensities) for model in self.behavior_models)

    @cached_property
    def table_schema(self) -> TableSchema:
        """How the columns of a table become the features; those of arrays are supposed to be columns of their names."""
        return self.eligibility.schema or TableSchema.plain(self.feature_names)

    @property
    def needs(self) -> str:
        """What a decision looks at: the "context" alone, the "step" number too, or the "history" of the episode."""
        by_step = "step" if self.eligibility.settings.neighbours == "same_step" else "context"
        return most_needed(by_step, *map(needs_of, (self.eligibility.behavior, self.eligibility.support)))

    @property
    def is_greedy(self) -> bool:
        """Whether it takes the best action alone, so that nothing is weighed against a price."""
        return False

    @property
    def acts_beyond_rule(self) -> bool:
        """Whether actions that the rule bars may have a probability above 0."""
        return False

    def probabilities(self, contexts: ArrayLike, steps: ArrayLike | None = None) -> FloatArray:
        """[N, A] of loose contexts; `needs` tells whether `steps` (each row's step number) must be given, too.

        Contexts are a matrix in the order of `feature_names`, or a table whose columns are found by name.
        """
        rows = self.checked(contexts)
        numbers = None if steps is None else np.asarray(steps, np.int64)
        return self.ruled(self.scores(rows, numbers), self.eligibility.resolve(rows, numbers))

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        """[N, A] along logged episodes."""
        scores = self.scores(self.checked(trajectories.contexts), steps_of(trajectories))
        return self.ruled(scores, self.eligibility.along(trajectories))

    def actor(self, n: int) -> Actor:
        """Acts in n episodes at once."""
        rule = ActingRule(self.eligibility, n)
        return _RememberingActor(self, rule) if rule.remembers else _CountingActor(self, rule)

    def sample(self, contexts: ArrayLike, seed: int, steps: ArrayLike | None = None) -> IntArray:
        """One action for each context, drawn with this seed; contexts and steps as of `probabilities`."""
        return sample_actions(self.probabilities(contexts, steps), np.random.default_rng(seed))

    def explain(self, context: ArrayLike, k: int = 3, step: int | None = None) -> "Explanation":
        """Which actions are eligible at one context, how far their nearest logged cases are, and which those are."""
        rows = context if has_columns(context) else np.atleast_2d(np.asarray(context))
        return self.eligibility.explain(self.checked(rows)[0], k=k, step=step)

    def stranded(self, trajectories: LoggedSteps) -> BoolArray:
        """Which steps [N] had nothing eligible nearby, so that the rule's fallback acted."""
        return self.eligibility.along(trajectories).stranded

    def save(self, directory: str | Path, include_contexts: str = "all", *, overwrite: bool = False) -> None:
        """Write the policy as JSON and safetensors, for the owner alone, into an empty folder or a new one.

        With `overwrite` a policy that is there is replaced: at every moment the folder holds the old or the new one.

        Under a distance rule the file holds logged contexts, and says so; `include_contexts="cover"` keeps a thinned
        set of them, which can only shrink what the rule makes eligible.
        """
        save_policy(self, output_folder(directory, "a policy"), include_contexts, overwrite)

    def ruled(self, scores: FloatArray, eligible: Eligible) -> FloatArray:
        """Probabilities under the rule; where the fallback is to follow the logging policy, they are its own."""
        if self.is_greedy:  # values are in units of their own: what costs anything is barred
            return followed(self.choose(scores, eligible.free), eligible)
        priced = scores if eligible.penalty is None else scores - eligible.penalty
        return followed(self.choose(priced, eligible.mask), eligible)

    def checked(self, contexts: ArrayLike) -> Float32Array:
        """The contexts as a float32 matrix of the right width, or one clear sentence.

        The columns of a table are found by name, whatever their order.
        """
        if has_columns(contexts):
            return loose_contexts(contexts, self.table_schema)
        rows = np.asarray(contexts, np.float32)
        if rows.ndim != 2 or rows.shape[1] != len(self.feature_names):
            features = self.feature_names if self.table_schema.is_plain else ("of", quoted(self.table_schema.columns))
            raise InputError(
                f"contexts have shape {rows.shape}; this policy takes [rows, {len(self.feature_names)}] "
                f"with the features {', '.join(features)}"
            )
        return rows


NEEDS = ("context", "step", "history")


def most_needed(*needs: str) -> str:
    """The most that several policies look at.

    >>> most_needed("context", "step")
    'step'
    """
    return max(needs, key=NEEDS.index)


def needs_of(policy: Any) -> str:
    """What another policy, such as a behavior model, looks at.

    >>> needs_of(None)
    'context'
    """
    if policy is None:
        return "context"
    known = getattr(policy, "needs", None)
    if known in NEEDS:
        return str(known)
    return "context" if isinstance(as_policy(policy).actor(1), MemorylessActor) else "history"


class ActingRule:
    """A rule in n running episodes: it counts steps, and follows a behavior model that remembers them."""

    def __init__(self, eligibility: FittedEligibility, n: int) -> None:
        self._eligibility, self.step = eligibility, 0
        actor = as_policy(eligibility.behavior).actor(n) if eligibility.settings.asks_behavior else None
        self._behavior = None if isinstance(actor, MemorylessActor) else actor
        following = None if eligibility.support is None else eligibility.support.actor(n)
        self._support = None if isinstance(following, MemorylessActor) else following

    @property
    def remembers(self) -> bool:
        """Whether it must be asked about all n episodes at every step."""
        return self._behavior is not None or self._support is not None

    def eligible(self, contexts: Float32Array) -> Eligible:
        """What is eligible at the episodes' current contexts."""
        behavior = None if self._behavior is None else self._behavior.probabilities(contexts)
        support = None if self._support is None else self._support.probabilities(contexts)
        return self._eligibility.resolve(contexts, self.steps(contexts), behavior, support)

    def steps(self, contexts: Float32Array) -> IntArray:
        """The current step, for each of these contexts."""
        return np.full(len(contexts), self.step)

    def record(self, actions: IntArray) -> None:
        """One step on."""
        for follower in (self._behavior, self._support):
            if follower is not None:
                follower.record(actions)
        self.step += 1


class _RememberingActor:
    """Acts by the current context and the step number, under a rule that remembers."""

    def __init__(self, policy: RuledPolicy, rule: ActingRule) -> None:
        self._acting, self._rule = policy, rule

    def probabilities(self, contexts: Float32Array) -> FloatArray:
        rows = self._acting.checked(contexts)
        return self._acting.ruled(self._acting.scores(rows, self._rule.steps(rows)), self._rule.eligible(rows))

    def record(self, actions: IntArray) -> None:
        self._rule.record(actions)


class _CountingActor(_RememberingActor, MemorylessActor):
    """The same under a rule that does not, so roll-outs need not ask about ended episodes."""


def softmax(scores: FloatArray, eligible: BoolArray) -> FloatArray:
    """The softmax over eligible actions; the others get exactly 0.

    >>> softmax(np.array([[0.0, 5.0, 0.0]]), np.array([[True, False, True]]))
    array([[0.5, 0. , 0.5]])
    """
    masked = np.where(eligible, scores, -np.inf)
    unnormalised = np.exp(masked - masked.max(axis=1, keepdims=True))
    return np.asarray(unnormalised / unnormalised.sum(axis=1, keepdims=True))


def greedy(scores: FloatArray, eligible: BoolArray) -> FloatArray:
    """All probability on the best eligible action (the first of equals).

    >>> greedy(np.array([[0.0, 5.0, 1.0]]), np.array([[True, False, True]]))
    array([[0., 0., 1.]])
    """
    best = np.where(eligible, scores, -np.inf).argmax(axis=1)
    chosen = np.zeros(scores.shape)
    chosen[np.arange(len(best)), best] = 1.0
    return chosen


def followed(probabilities: FloatArray, eligible: Eligible) -> FloatArray:
    """The probabilities, but the logging policy's own where the rule's fallback is to follow it."""
    if eligible.behavior is None or not eligible.stranded.any():
        return probabilities
    return np.where(eligible.stranded[:, None], eligible.behavior, probabilities)
