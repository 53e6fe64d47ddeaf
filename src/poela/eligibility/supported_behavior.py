"""The logging policy within its support: what mixtures and blends are made with."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import Float32Array, FloatArray, IntArray
from poela.core.live import stored_or_live
from poela.core.policy import Actor, LoggedSteps, MemorylessActor, Policy, along_once, as_policy
from poela.core.storage import Stored
from poela.core.validation import expect_contents, expect_part, expect_sizes
from poela.eligibility.support_model import SupportModel


class SupportedBehavior:
    """A model of the logging policy that takes only what has support: a mixture with it goes nowhere new.

    >>> from poela import Trajectories
    >>> from poela.eligibility.support import fit_support
    >>> from poela.behavior.multinomial import MultinomialBehavior
    >>> contexts = np.repeat([[0.0], [1.0]], 200, axis=0)
    >>> actions = np.where(contexts[:, 0] == 0, np.arange(400) % 2, 0)  # the second action is never taken at 1
    >>> logs = Trajectories(contexts, actions, np.zeros(400), np.arange(401))
    >>> smooth = MultinomialBehavior(penalty=50.0).fit(logs)
    >>> SupportedBehavior(smooth, fit_support(logs, 0.02)).probabilities([[1.0]])
    array([[1., 0.]])
    """

    kind = "supported_behavior"

    def __init__(self, behavior: Any, support: SupportModel) -> None:
        self.behavior, self.support = behavior, support

    @property
    def holds_logged_contexts(self) -> bool:
        """As the inner model does."""
        return bool(getattr(self.behavior, "holds_logged_contexts", False))

    @property
    def n_features(self) -> int:
        """How many features contexts have."""
        return self.support.n_features

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return self.support.n_actions

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """[N, A]."""
        return self.within(as_policy(self.behavior).probabilities(contexts), self.support.probabilities(contexts))

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        """[N, A] along logged episodes."""
        return self.within(along_once(self.behavior, trajectories), along_once(self.support, trajectories))

    def actor(self, n: int) -> Actor:
        """Acts in n episodes at once."""
        actors = as_policy(self.behavior).actor(n), self.support.actor(n)
        if all(isinstance(actor, MemorylessActor) for actor in actors):
            return MemorylessActor(self)
        return _SupportedActor(self, *actors)

    def within(self, behavior: FloatArray, support: FloatArray) -> FloatArray:
        """Probabilities [N, A] of what has support; all of them where nothing has."""
        shares = np.where(self.support.supported(support), behavior, 0.0)
        shares = np.where((shares > 0).any(axis=1, keepdims=True), shares, behavior)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def stored(self) -> Stored:
        """For a file."""
        return Stored(self.kind, parts={"behavior": stored_or_live(self.behavior), "support": self.support.stored()})

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Callable[[Stored], Any]) -> "SupportedBehavior":
        """From a file."""
        expect_contents(stored, parts=("behavior", "support"))
        support = expect_part(stored, "support", load_part, SupportModel, "a model of support")
        behavior = expect_part(stored, "behavior", load_part, Policy, "a behavior model")
        expect_sizes("behavior", behavior, support.n_features, support.n_actions)
        return cls(behavior, support)


class _SupportedActor:
    def __init__(self, policy: SupportedBehavior, behavior: Actor, support: Actor) -> None:
        self._policy, self._actors = policy, (behavior, support)

    def probabilities(self, contexts: Float32Array) -> FloatArray:
        return self._policy.within(*(actor.probabilities(contexts) for actor in self._actors))

    def record(self, actions: IntArray) -> None:
        for actor in self._actors:
            actor.record(actions)
