"""Policies that come from elsewhere: anything with `probabilities(contexts)`, under a rule and beside our own."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import Float32Array, FloatArray, first_bad
from poela.core.density import DensityPolicy
from poela.core.errors import InputError
from poela.core.live import stored_live
from poela.core.policy import Actor, LoggedSteps, as_policy
from poela.core.storage import Stored
from poela.core.validation import expect_contents, refuse
from poela.data.trajectories import Trajectories
from poela.eligibility.fitted import Eligible
from poela.eligibility.foreign import as_rule
from poela.eligibility.rules import AnyRule
from poela.policies.network import NAMES, common_fields
from poela.policies.practice import PracticePolicy, stored_behavior
from poela.policies.ruled import RuledPolicy

TOLERANCE = 1e-3  # by which the probabilities of a row may miss 1: they are scaled to it


class ForeignModel:
    """Somebody's policy, with what it answers checked; it lives in this process, and so do the policies made of it."""

    def __init__(self, policy: Any, n_features: int, n_actions: int) -> None:
        self._policy, self._name = as_policy(policy), type(policy).__name__
        self.n_features, self.n_actions = n_features, n_actions
        self.evidence = b""  # what tells it from others

    def __repr__(self) -> str:
        return self._name

    @classmethod
    def of(cls, policy: Any, train: Trajectories) -> "ForeignModel":
        """For the actions of these logs."""
        model = cls(policy, train.n_features, train.n_actions)
        model.evidence = sha256(model.along(train).tobytes()).digest()
        return model

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """[N, A]."""
        return self.checked(self._policy.probabilities(contexts), len(np.asarray(contexts)))

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        """[N, A] along logged episodes."""
        return self.checked(self._policy.along(trajectories), len(trajectories.contexts))

    def actor(self, n: int) -> Actor:
        """Acts in n episodes at once."""
        return self._policy.actor(n)

    def checked(self, answer: ArrayLike, n: int) -> FloatArray:
        """What it answered about n rows, as probabilities, or one sentence."""
        rows = np.asarray(answer, np.float64)
        if rows.shape != (n, self.n_actions):
            raise InputError(
                f"{self._name} answers with an array of shape {rows.shape} for {n} contexts and {self.n_actions} "
                f"actions: probabilities(contexts) must return [{n}, {self.n_actions}]"
            )
        totals = rows.sum(axis=1)
        bad = ~((rows >= 0).all(axis=1) & (np.abs(totals - 1) <= TOLERANCE))
        if bad.any():
            count, first = first_bad(bad)
            raise InputError(
                f"{count} of {n} rows of probabilities by {self._name} are negative or do not sum to 1, first row "
                f"{first}: return a distribution over the {self.n_actions} actions in every row"
            )
        return np.asarray(rows / totals[:, None])

    def stored(self) -> Stored:
        """A reference: no file can hold the object itself."""
        return stored_live(self, self.evidence)


@dataclass(frozen=True, eq=False, kw_only=True)
class ForeignPolicy(PracticePolicy):
    """Somebody's policy within a rule: its probabilities, scaled to the eligible actions."""

    greedy: bool = False  # whether it gave all probability to one action in every training context

    @classmethod
    def of(cls, policy: Any, train: Trajectories, rule: AnyRule | None, behavior: Any) -> "ForeignPolicy":
        """On these logs, under this rule; without one nothing is barred."""
        model = ForeignModel.of(policy, train)
        return cls(
            behavior=model,
            greedy=bool((model.along(train).max(axis=1) >= 1 - 1e-9).all()),
            eligibility=as_rule(rule).fit(train, behavior),
            feature_names=train.feature_names,
            action_names=train.action_names,
        )

    @property
    def is_greedy(self) -> bool:
        """Whether it takes one action alone."""
        return self.greedy

    def decided(self, contexts: Float32Array, behavior: FloatArray, eligible: Eligible) -> FloatArray:
        """Probabilities [N, A] from its own."""
        with np.errstate(divide="ignore"):
            return self.ruled(np.log(behavior), eligible)

    def stored(self) -> Stored:
        """With a reference to the object of this process as a part."""
        return self.stored_as("foreign_policy", {"greedy": self.greedy})

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Callable[[Stored], Any]) -> "ForeignPolicy":
        """The policy that `stored` describes, in the process that made it."""
        expect_contents(stored, (*NAMES, "greedy"), parts=("eligibility", "behavior"))
        greedy = stored.settings["greedy"]
        if not isinstance(greedy, bool):
            refuse("greedy", greedy, "true or false")
        fields = common_fields(stored, load_part)
        return cls(behavior=stored_behavior(stored, load_part, fields), greedy=greedy, **fields)


def as_ruled(policy: Any, train: Trajectories, rule: AnyRule | None = None, behavior: Any = None) -> Any:
    """Any policy as one that studies can blend, judge and decide by: our own as they are, others wrapped.

    >>> class Coin:
    ...     def probabilities(self, contexts):
    ...         return np.full((len(contexts), 2), 0.5)
    >>> logs = Trajectories([[0.0], [1.0]], [0, 1], [0.0, 1.0], [0, 1, 2])
    >>> as_ruled(Coin(), logs).along(logs)
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    if isinstance(policy, RuledPolicy | DensityPolicy):
        return policy
    if not callable(getattr(policy, "probabilities", None)):
        raise InputError(f"{type(policy).__name__} is no policy: it has no method probabilities(contexts)")
    if train.is_real:
        raise InputError(f"{type(policy).__name__} chooses among a finite set of actions, and these are real numbers")
    return ForeignPolicy.of(policy, train, rule, behavior)
