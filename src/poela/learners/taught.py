"""Learners that come from elsewhere: an object with `fit`, a function of logs, or a policy that is there already."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from poela.core.density import DensityPolicy
from poela.core.errors import InputError, PoelaError
from poela.core.policy import Policy
from poela.core.references import description
from poela.core.typed import shown
from poela.data.action_space import ActionSpace, Box, Finite
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import AnyRule
from poela.learners.learner import Checkpoint, Learner, learned_by
from poela.policies.foreign import as_ruled

POLICY = ("probabilities", "log_density")  # what a policy has: one of these


@dataclass(frozen=True, eq=False, kw_only=True)
class TaughtLearner(Learner):
    """Somebody's learner in a study: its policies are held to a rule of eligible actions, as those of ours are."""

    object: Any  # with `fit` or `fit_path`, a function from logs to a policy, or a policy
    rule: AnyRule | None = None

    @property
    def walks(self) -> bool:  # type: ignore[override]
        """As the learner says."""
        return bool(getattr(self.object, "walks", False))

    @property
    def acts_in(self) -> type[ActionSpace] | None:  # type: ignore[override]
        """As the learner says, or what it can do as a policy; None where only its first policy will tell."""
        said: type[ActionSpace] | None = getattr(self.object, "acts_in", None)
        real = getattr(self.object, "real_valued", None)  # as it was once said
        if said is not None or real is not None:
            return said or (Box if real else Finite)
        if isinstance(self.object, DensityPolicy):
            return Box
        return Finite if callable(getattr(self.object, "probabilities", None)) else None

    def fit_path(self, train: Trajectories, seed: int = 0, behavior: Policy | None = None) -> Iterator[Checkpoint]:
        """The learner's own path, or its one policy."""
        try:
            for point in _path_of(self.object, train, seed, behavior):
                policy = as_ruled(point.policy, train, self.rule, behavior)
                yield Checkpoint(point.step, policy, point.note, point.plainness)
        except PoelaError:
            raise
        except Exception as error:  # whatever goes wrong in somebody's code ends its run, not the study
            words = " ".join(str(error).split())[:200]
            raise PoelaError(f"{description(self.object)} failed: {type(error).__name__}: {words}") from error


def refuse_no_learner(thing: Any) -> None:
    """One sentence for what cannot be a learner."""
    if isinstance(thing, type):
        raise InputError(f"a learner is given as the class {thing.__name__}: give an object, {thing.__name__}()")
    if not any(callable(getattr(thing, name, None)) for name in ("fit_path", "fit", *POLICY, "__call__")):
        raise InputError(
            f"{shown(thing)} is no learner: give a name, an object with fit(logs), a function from logs to a policy, "
            "or a policy with probabilities(contexts), or with log_density(contexts, actions) and sample(contexts, rng)"
        )


def _path_of(thing: Any, train: Trajectories, seed: int, behavior: Policy | None) -> Iterator[Checkpoint]:
    if callable(getattr(thing, "fit_path", None)):
        yield from deepcopy(thing).fit_path(train, seed, behavior)
    elif callable(getattr(thing, "fit", None)):
        # A copy, since many return themselves: what one fold taught must not change with the next.
        yield Checkpoint(1, learned_by(deepcopy(thing).fit, train, seed, behavior))
    elif callable(getattr(thing, "probabilities", None)) or isinstance(thing, DensityPolicy):
        yield Checkpoint(1, thing)
    else:
        yield Checkpoint(1, learned_by(thing, train, seed, behavior))
