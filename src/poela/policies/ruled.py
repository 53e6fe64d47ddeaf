"""A policy under a rule of eligible actions: scores of the actions in, probabilities of the eligible ones out."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.paths import folder_at
from poela.core.policy import Actor, LoggedSteps, MemorylessActor, as_policy, sample_actions
from poela.core.ragged import step_numbers
from poela.core.storage import Stored
from poela.data.trajectories import ActionName
from poela.eligibility.fitted import Eligible, FittedEligibility

if TYPE_CHECKING:
    from poela.eligibility.explanation import Explanation


@dataclass(frozen=True, eq=False, kw_only=True)
class RuledPolicy(ABC):
    """What all learned policies share. Ineligible actions have probability exactly 0."""

    eligibility: FittedEligibility
    feature_names: tuple[str, ...]
    action_names: tuple[ActionName, ...]

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

    def probabilities(self, contexts: ArrayLike, steps: ArrayLike | None = None) -> FloatArray:
        """[N, A]; `steps` (each row's step number) is needed only by rules and policies that look at it."""
        rows = self.checked(contexts)
        numbers = None if steps is None else np.asarray(steps, np.int64)
        return self.ruled(self.scores(rows, numbers), self.eligibility.resolve(rows, numbers))

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        """[N, A] along logged episodes."""
        scores = self.scores(self.checked(trajectories.contexts), step_numbers(trajectories.offsets))
        return self.ruled(scores, self.eligibility.along(trajectories))

    def actor(self, n: int) -> Actor:
        """Acts in n episodes at once."""
        rule = ActingRule(self.eligibility, n)
        return _RememberingActor(self, rule) if rule.remembers else _CountingActor(self, rule)

    def sample(self, contexts: ArrayLike, seed: int) -> IntArray:
        """One action for each context, drawn with this seed."""
        return sample_actions(self.probabilities(contexts), np.random.default_rng(seed))

    def explain(self, context: ArrayLike, k: int = 3, step: int | None = None) -> "Explanation":
        """Which actions are eligible at one context, how far their nearest logged cases are, and which those are."""
        return self.eligibility.explain(self.checked(np.atleast_2d(np.asarray(context)))[0], k=k, step=step)

    def stranded(self, trajectories: LoggedSteps) -> BoolArray:
        """Which steps [N] had nothing eligible nearby, so that the rule's fallback acted."""
        return self.eligibility.along(trajectories).stranded

    def save(self, directory: str | Path, include_contexts: str = "all", *, overwrite: bool = False) -> None:
        """Write the policy as JSON and safetensors, for the owner alone, into an empty folder or a new one.

        With `overwrite` a policy that is there is replaced: at every moment the folder holds the old or the new one.

        Under a distance rule the file holds logged contexts, and says so; `include_contexts="cover"` keeps a thinned
        set of them, which can only shrink what the rule makes eligible.
        """
        from poela.policies.storage import save_policy

        save_policy(self, folder_at(directory, "a policy"), include_contexts, overwrite)

    def ruled(self, scores: FloatArray, eligible: Eligible) -> FloatArray:
        """Probabilities under the rule; where the fallback is to follow the logging policy, they are its own."""
        return followed(self.choose(scores, eligible.mask), eligible)

    def checked(self, contexts: ArrayLike) -> Float32Array:
        """The contexts as a float32 matrix of the right width, or one clear sentence."""
        rows = np.asarray(contexts, np.float32)
        if rows.ndim != 2 or rows.shape[1] != len(self.feature_names):
            raise InputError(
                f"contexts have shape {rows.shape}; this policy takes [rows, {len(self.feature_names)}] "
                f"with the features {', '.join(self.feature_names)}"
            )
        return rows


class ActingRule:
    """A rule in n running episodes: it counts steps, and follows a behavior model that remembers them."""

    def __init__(self, eligibility: FittedEligibility, n: int) -> None:
        self._eligibility, self.step = eligibility, 0
        actor = as_policy(eligibility.behavior).actor(n) if eligibility.settings.asks_behavior else None
        self._behavior = None if isinstance(actor, MemorylessActor) else actor

    @property
    def remembers(self) -> bool:
        """Whether it must be asked about all n episodes at every step."""
        return self._behavior is not None

    def eligible(self, contexts: Float32Array) -> Eligible:
        """What is eligible at the episodes' current contexts."""
        behavior = None if self._behavior is None else self._behavior.probabilities(contexts)
        return self._eligibility.resolve(contexts, self.steps(contexts), behavior)

    def steps(self, contexts: Float32Array) -> IntArray:
        """The current step, for each of these contexts."""
        return np.full(len(contexts), self.step)

    def record(self, actions: IntArray) -> None:
        """One step on."""
        if self._behavior is not None:
            self._behavior.record(actions)
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
