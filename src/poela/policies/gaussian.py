"""Policies of real-valued actions: what all share, and the Gaussian one that our learners learn, with its blends."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from poela.behavior.gaussian import GaussianModel
from poela.behavior.normal import NormalModel, checked_contexts
from poela.core.arrays import BoolArray, Float32Array, FloatArray
from poela.core.draws import KnownDraws
from poela.core.errors import InputError
from poela.core.paths import output_folder
from poela.core.policy import gaussian_log_density, standard_normal
from poela.core.storage import Stored
from poela.core.typed import Share
from poela.core.validation import expect_contents, expect_part, expect_setting, refuse
from poela.data.action_space import ActionSpace, Box
from poela.data.decision_rows import has_columns, loose_contexts
from poela.data.schema import TableSchema
from poela.data.trajectories import Trajectories
from poela.eligibility.continuous import FittedContinuousEligibility
from poela.policies.decides import Decides
from poela.policies.saving import save_policy

if TYPE_CHECKING:
    from poela.eligibility.continuous import PairExplanation


class RealPolicy(Decides, ABC):
    """What policies of real-valued actions share, beside a density and draws."""

    real_valued: ClassVar[bool] = True
    acts_in: ClassVar[type[ActionSpace]] = Box
    behavior: NormalModel | None
    schema: TableSchema | None

    if TYPE_CHECKING:  # fields of some and properties of others

        @property
        def feature_names(self) -> tuple[str, ...]:
            """The features of contexts."""

        @property
        def action_names(self) -> tuple[str | int, ...]:
            """The columns of actions."""

        @property
        def spread(self) -> FloatArray:
            """The standard deviation of the logged actions [m]."""

    @abstractmethod
    def log_density(self, contexts: ArrayLike, actions: ArrayLike) -> FloatArray:
        """[N], of actions [N, m]; −inf where the policy never acts so."""

    @abstractmethod
    def sample(self, contexts: ArrayLike, rng: np.random.Generator) -> FloatArray:
        """An action [N, m] for each context."""

    @abstractmethod
    def drawn_by(self, contexts: Float32Array, uniform: FloatArray) -> FloatArray:
        """An action [N, m] for each context, by a number in [0, 1) for each column of it [N, m]."""

    @abstractmethod
    def mean(self, contexts: ArrayLike) -> FloatArray:
        """The mean action [N, m]."""

    @property
    def needs(self) -> str:
        """What a decision looks at."""
        return "context"

    @cached_property
    def table_schema(self) -> TableSchema:
        """How the columns of a table become the features."""
        return self.schema or TableSchema.plain(self.feature_names)

    def change(self, contexts: ArrayLike) -> FloatArray | None:
        """How far the mean lies from that of the logging policy [N, m]; None where the policy does not know that."""
        if self.behavior is None:
            return None
        rows = self.checked(contexts)
        return np.abs(self.mean(rows) - self.behavior.moments(rows)[0])

    def checked(self, contexts: ArrayLike) -> Float32Array:
        """The contexts as a float32 matrix of the right width; the columns of a table are found by name."""
        if has_columns(contexts):
            return loose_contexts(contexts, self.table_schema)
        return checked_contexts(contexts, self.feature_names)

    def save(self, directory: str | Path, *, overwrite: bool = False) -> None:
        """Write the policy as JSON and safetensors, for the owner alone, into an empty folder or a new one."""
        save_policy(self, output_folder(directory, "a policy"), overwrite=overwrite)

    def as_filed(self) -> "RealPolicy":
        """As a file holds it."""
        return self


@dataclass(frozen=True, eq=False, kw_only=True)
class GaussianPolicy(RealPolicy):
    """A normal distribution of actions whose mean and spread depend on the context, within a rule if there is one.

    With a `behavior` and a `share` below 1 it is a Gaussian that far on the way from the logging policy (`blended`).
    Ineligible actions have density exactly 0, and the density of the others is exactly normalised.
    """

    model: GaussianModel  # mean and spread of actions, by context
    eligibility: FittedContinuousEligibility | None = None  # its fitted rule of eligible actions
    behavior: NormalModel | None = None  # the logging policy that it starts from
    share: float = 1.0  # how far it is on the way from the logging policy
    schema: TableSchema | None = None  # how tables become contexts

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The features of contexts."""
        return self.model.feature_names

    @property
    def action_names(self) -> tuple[str | int, ...]:
        """The columns of actions."""
        return self.model.action_names

    @property
    def holds_logged_contexts(self) -> bool:
        """Whether a file of this policy holds rows of the training log."""
        return self.eligibility is not None

    def moments(self, contexts: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation [N, m], before the rule."""
        rows = self.checked(contexts)
        mean, std = self.model.moments(rows)
        if self.behavior is None or self.share == 1.0:
            return mean, std
        return blended(self.behavior.moments(rows), (mean, std), self.share)

    def log_density(self, contexts: ArrayLike, actions: ArrayLike) -> FloatArray:
        """[N], of actions [N, m]; −inf where an action is not eligible."""
        rows, done = self.checked(contexts), self.model.checked_actions(actions)
        moments = self.moments(rows)
        if self.eligibility is None:
            return gaussian_log_density(done, *moments)
        return self.eligibility.log_density(rows, done, *moments)

    def sample(self, contexts: ArrayLike, rng: np.random.Generator) -> FloatArray:
        """An action [N, m] for each context, drawn within the rule."""
        rows = self.checked(contexts)
        mean, std = self.moments(rows)
        if self.eligibility is None:
            return mean + std * standard_normal(mean.shape, rng)
        return self.eligibility.sample(rows, mean, std, rng)

    def drawn_by(self, contexts: Float32Array, uniform: FloatArray) -> FloatArray:
        """An action [N, m] for each context, by a number in [0, 1) for each column of it [N, m]."""
        return self.sample(contexts, KnownDraws(uniform))  # type: ignore[arg-type]

    @property
    def spread(self) -> FloatArray:
        """The standard deviation of the logged actions [m]."""
        return self.model.spread

    def mean(self, contexts: ArrayLike) -> FloatArray:
        """The mean action [N, m], before the rule."""
        return self.moments(contexts)[0]

    def stranded(self, trajectories: Trajectories) -> BoolArray:
        """Which steps [N] had nothing logged nearby, so that the rule's fallback acted."""
        if self.eligibility is None:
            return np.zeros(trajectories.n_steps, np.bool_)
        return self.eligibility.stranded(trajectories.contexts)

    def explain(self, context: ArrayLike, action: ArrayLike | None = None, k: int = 3) -> "PairExplanation":
        """Whether an action (the policy's own mean, unless told otherwise) is eligible at one context, and why."""
        if self.eligibility is None:
            raise InputError("this policy has no rule, so every action is eligible: there is nothing to explain")
        rows = self.checked(context if has_columns(context) else np.atleast_2d(np.asarray(context)))
        return self.eligibility.explain(rows[0], self.moments(rows)[0][0] if action is None else action, k)

    def as_filed(self) -> "GaussianPolicy":
        """As a file holds it: without names of episodes."""
        if self.eligibility is None:
            return self
        return replace(self, eligibility=replace(self.eligibility, episode_ids=None))

    def stored(self) -> Stored:
        """The policy as plain settings and arrays."""
        parts = {"model": self.model, "behavior": self.behavior, "eligibility": self.eligibility}
        schema = None if self.schema is None else self.schema.to_json()
        there = {name: part.stored() for name, part in parts.items() if part is not None}
        return Stored("gaussian_policy", {"share": self.share, "schema": schema}, {}, there)

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Callable[[Stored], Any]) -> "GaussianPolicy":
        """The inverse of `stored`."""
        kinds: dict[str, type] = {
            "model": GaussianModel,
            "behavior": NormalModel,
            "eligibility": FittedContinuousEligibility,
        }
        expect_contents(stored, ("share", "schema"), (), {"model"} | (set(stored.parts) & set(kinds)))
        found = {name: expect_part(stored, name, load_part, kinds[name], "of its kind") for name in stored.parts}
        schema = stored.settings["schema"]
        policy = cls(
            share=expect_setting(stored, "share", Share),
            schema=None if schema is None else TableSchema.from_json(schema),
            **found,
        )
        sizes = len(policy.feature_names), len(policy.action_names)
        behavior, rule = policy.behavior, policy.eligibility
        if policy.table_schema.feature_names != policy.feature_names:
            refuse("schema", policy.table_schema.feature_names, "of the policy's features")
        if behavior is not None and (len(behavior.feature_names), len(behavior.action_names)) != sizes:
            refuse("behavior", behavior.feature_names, f"of {sizes[0]} features and {sizes[1]} action columns")
        if rule is not None and (rule.contexts.shape[1], rule.actions.shape[1]) != sizes:
            refuse("eligibility", rule.contexts.shape, f"of {sizes[0]} features and {sizes[1]} action columns")
        return policy


def blended(
    behavior: tuple[FloatArray, FloatArray], learned: tuple[FloatArray, FloatArray], share: float
) -> tuple[FloatArray, FloatArray]:
    """Mean and deviation part of the way from one Gaussian to another: means along a line, deviations by factors.

    A product of powers of the densities would be Gaussian too, but a learned policy of little spread would take it over
    at the smallest share.

    >>> one, two = (np.array([[0.0]]), np.array([[1.0]])), (np.array([[2.0]]), np.array([[0.01]]))
    >>> blended(one, two, 0.5)
    (array([[1.]]), array([[0.1]]))
    """
    mean = (1 - share) * behavior[0] + share * learned[0]
    return mean, np.exp((1 - share) * np.log(behavior[1]) + share * np.log(learned[1]))
