"""Policies that come from elsewhere: anything with `probabilities(contexts)`, or with a density, beside our own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from poela.behavior.normal import NormalModel, spread_of
from poela.core.arrays import Float32Array, FloatArray, first_bad
from poela.core.errors import InputError
from poela.core.live import stored_live
from poela.core.policy import Actor, LoggedSteps, as_density_policy, as_policy
from poela.core.storage import Stored
from poela.core.typed import Share
from poela.core.validation import (
    expect_array,
    expect_contents,
    expect_names,
    expect_part,
    expect_setting,
    refuse,
)
from poela.data.action_space import Box, Finite
from poela.data.schema import TableSchema
from poela.data.trajectories import Trajectories
from poela.eligibility.fitted import Eligible
from poela.eligibility.rules import AnyRule, as_rule
from poela.policies.gaussian import RealPolicy
from poela.policies.network import NAMES, common_fields
from poela.policies.practice import PracticePolicy, stored_behavior
from poela.policies.ruled import RuledPolicy

DRAWS = 64  # by which the mean of somebody's amounts is told
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


class ForeignDensity:
    """Somebody's policy of real-valued actions, with what it answers checked; it lives in this process."""

    def __init__(self, policy: Any, n_components: int, evidence: bytes = b"") -> None:
        self._policy, self._name, self._n_components = policy, type(policy).__name__, n_components
        self.evidence = evidence  # what tells it from others

    def __repr__(self) -> str:
        return self._name

    @classmethod
    def of(cls, policy: Any, train: Trajectories) -> "ForeignDensity":
        """For the actions of these logs."""
        model = cls(policy, train.n_components)
        densities = model.log_density(train.contexts, train.actions)
        return cls(policy, train.n_components, sha256(densities.tobytes()).digest())

    def log_density(self, contexts: ArrayLike, actions: ArrayLike) -> FloatArray:
        """[N]."""
        n, answer = len(np.asarray(contexts)), np.asarray(self._policy.log_density(contexts, actions), np.float64)
        if answer.shape != (n,) or not (answer < np.inf).all():
            raise InputError(
                f"{self._name} answers with log densities of shape {answer.shape} for {n} actions, or with NaN or "
                f"+infinity: log_density(contexts, actions) must return [{n}]"
            )
        return answer

    def sample(self, contexts: ArrayLike, rng: np.random.Generator) -> FloatArray:
        """[N, m]."""
        n, answer = len(np.asarray(contexts)), np.asarray(self._policy.sample(contexts, rng), np.float64)
        if answer.shape != (n, self._n_components) or not np.isfinite(answer).all():
            raise InputError(
                f"{self._name} gives actions of shape {answer.shape} for {n} contexts, or NaN or infinity: "
                f"sample(contexts, rng) must return [{n}, {self._n_components}]"
            )
        return answer

    def stored(self) -> Stored:
        """A reference: no file can hold the object itself."""
        return stored_live(self, self.evidence)


@dataclass(frozen=True, eq=False, kw_only=True)
class ForeignDoses(RealPolicy):
    """Somebody's policy of real-valued actions or, with a share below 1, the logging policy otherwise, by lot."""

    model: ForeignDensity
    feature_names: tuple[str, ...]
    action_names: tuple[str | int, ...]
    spread: FloatArray  # [m], of the logged actions
    behavior: NormalModel | None = None
    share: float = 1.0
    schema: TableSchema | None = None

    @classmethod
    def of(cls, policy: Any, train: Trajectories) -> "ForeignDoses":
        """On these logs."""
        model, names = ForeignDensity.of(policy, train), (train.feature_names, train.action_names)
        return cls(model=model, feature_names=names[0], action_names=names[1], spread=spread_of(train.actions))

    @property
    def _mixed(self) -> NormalModel | None:
        return self.behavior if self.share < 1.0 else None

    def log_density(self, contexts: ArrayLike, actions: ArrayLike) -> FloatArray:
        """[N], of actions [N, m]."""
        rows, other = self.checked(contexts), self._mixed
        own = self.model.log_density(rows, actions)
        if other is None:
            return own
        others = np.log1p(-self.share) + other.log_density(rows, actions)
        return np.asarray(np.logaddexp(np.log(self.share) + own, others))

    def sample(self, contexts: ArrayLike, rng: np.random.Generator) -> FloatArray:
        """An action [N, m] for each context."""
        rows, other = self.checked(contexts), self._mixed
        if other is None:
            return self.model.sample(rows, rng)
        own = rng.random(len(rows)) < self.share
        return np.where(own[:, None], self.model.sample(rows, rng), other.sample(rows, rng))

    def drawn_by(self, contexts: Float32Array, uniform: FloatArray) -> FloatArray:
        """[N, m]: each row by a generator of its own, whatever other rows are beside it."""
        drawn = np.zeros((len(contexts), len(self.action_names)))
        for row, numbers in enumerate(uniform):
            rng = np.random.default_rng((numbers * 2.0**53).astype(np.int64))
            drawn[row] = self.sample(contexts[row : row + 1], rng)[0]
        return drawn

    def mean(self, contexts: ArrayLike) -> FloatArray:
        """The mean action [N, m], of draws."""
        rows, rng, other = self.checked(contexts), np.random.default_rng(0), self._mixed
        own = np.mean([self.model.sample(rows, rng) for _ in range(DRAWS)], axis=0)
        return np.asarray(own if other is None else self.share * own + (1 - self.share) * other.moments(rows)[0])

    def stored(self) -> Stored:
        """With a reference to the object of this process as a part."""
        names = {"feature_names": list(self.feature_names), "action_names": list(self.action_names)}
        settings = {**names, "share": self.share, "schema": None if self.schema is None else self.schema.to_json()}
        parts = {"model": self.model.stored()}
        if self.behavior is not None:
            parts["behavior"] = self.behavior.stored()
        return Stored("foreign_doses", settings, {"spread": self.spread}, parts)

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Callable[[Stored], Any]) -> "ForeignDoses":
        """The inverse of `stored`."""
        names, parts = ("feature_names", "action_names"), {"model"} | (set(stored.parts) & {"behavior"})
        expect_contents(stored, (*names, "share", "schema"), ("spread",), parts)
        model, schema = load_part(stored.parts["model"]), stored.settings["schema"]
        if not isinstance(model, ForeignDensity):
            refuse("model", stored.parts["model"].kind, "an object of this session")
        features, actions = expect_names(stored)
        behavior = expect_part(stored, "behavior", load_part, NormalModel, "normal") if "behavior" in parts else None
        return cls(
            model=model,
            feature_names=features,
            action_names=actions,
            spread=expect_array(stored, "spread", np.float64, (len(actions),)),
            behavior=behavior,
            share=expect_setting(stored, "share", Share),
            schema=None if schema is None else TableSchema.from_json(schema),
        )


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
    if isinstance(policy, RuledPolicy | RealPolicy):
        return policy
    return FOREIGN[train.action_space.kind](policy, train, rule, behavior)


def _foreign_choices(policy: Any, train: Trajectories, rule: AnyRule | None, behavior: Any) -> ForeignPolicy:
    if not callable(getattr(policy, "probabilities", None)):
        raise InputError(f"{type(policy).__name__} is no policy: it has no method probabilities(contexts)")
    return ForeignPolicy.of(policy, train, rule, behavior)


def _foreign_doses(policy: Any, train: Trajectories, rule: AnyRule | None, behavior: Any) -> ForeignDoses:
    """No rule holds them."""
    return replace(ForeignDoses.of(as_density_policy(policy), train), schema=train.schema)


FOREIGN: Mapping[str, Callable[[Any, Trajectories, AnyRule | None, Any], Any]] = {
    Finite.kind: _foreign_choices,
    Box.kind: _foreign_doses,
}
