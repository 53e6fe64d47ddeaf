"""What every learner is and needs: settings, a path of policies, the rule and the logging policy; and foreign ones."""

import inspect
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar

from poela.behavior.propensities import nearest_propensities
from poela.core.arrays import FloatArray
from poela.core.errors import InputError, PoelaError, TrainingError
from poela.core.options import HasParams
from poela.core.policy import DensityPolicy, HasProbabilities, Policy, as_policy
from poela.core.references import description
from poela.core.typed import refuse_problems, shown
from poela.data.action_space import ActionSpace, Box, Finite
from poela.data.trajectories import Trajectories
from poela.eligibility.eligible import Eligible
from poela.eligibility.fitted import FittedEligibility
from poela.eligibility.rules import AnyRule, as_rule
from poela.policies.foreign import as_ruled

# The rule over the training log.


def eligible_in_training(
    rule: AnyRule | None, train: Trajectories, behavior: HasProbabilities | None
) -> tuple[FittedEligibility, Eligible]:
    """The fitted rule (None bars nothing), and what is eligible at every training step.

    >>> from poela.eligibility.rules import Radius
    >>> logs = Trajectories([[0.0], [1.0]], [0, 1], [0.0, 0.0], [0, 1, 2])
    >>> eligible_in_training(Radius(0.5), logs, None)[1].mask
    array([[ True, False],
           [False,  True]])
    """
    fitted = as_rule(rule).fit(train, behavior)
    return fitted, fitted.along(train)


# The logging policy as learners know it: a behavior model, or the propensities of the nearest logged context.


def logging_policy(train: Trajectories, behavior: Policy | None) -> Any:
    """μ at any context.

    >>> logs = Trajectories([[0.0], [1.0]], [0, 1], [0.0, 0.0], [0, 1, 2], propensities=[[0.9, 0.1], [0.5, 0.5]])
    >>> logging_policy(logs, None).probabilities([[0.2]])
    array([[0.9, 0.1]])
    """
    if behavior is not None:
        return behavior
    _ = known_propensities(train)
    return nearest_propensities(train)


def logging_probabilities(train: Trajectories, behavior: Policy | None) -> FloatArray:
    """μ along the training log [N, A]."""
    return known_propensities(train) if behavior is None else as_policy(behavior).along(train)


def known_propensities(train: Trajectories) -> FloatArray:
    """The propensities of every action, which must be known."""
    if train.propensities is None or train.propensities.ndim == 1:
        raise InputError(
            "this learner stays near the logging policy, so it must know the propensities of every action: "
            "give a behavior model (behavior=...), or training logs with all propensities (annotate)"
        )
    return train.propensities


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A policy on the way: after how many steps (or at which point of its path) it was taken."""

    step: int  # after how many steps, or at which point of the path
    policy: Any  # a Policy; learners return richer classes
    note: str = ""  # what to call it
    plainness: float | None = None  # how plainly it can be said, see `plainness`; None: not at all


class Learner(HasParams):
    """What learns a policy. The least that one needs is `fit`, which returns anything with `probabilities(contexts)`.

    Ours are frozen dataclasses of settings with `fit_path`, which yields checkpoints, and `fit` returns the last
    policy. Settings that cannot be are refused when the learner is made, by the types of its fields. `walks` says
    whether the path goes from cautious to bold, rather than through training.

    >>> import numpy as np
    >>> class Coin(Learner):
    ...     def fit(self, train, seed=0, behavior=None):
    ...         return self
    ...     def probabilities(self, contexts):
    ...         return np.full((len(contexts), 2), 0.5)
    >>> logs = Trajectories([[0.0], [1.0]], [0, 1], [0.0, 1.0], [0, 1, 2])
    >>> [type(point.policy).__name__ for point in Coin().fit_path(logs)]
    ['Coin']
    """

    walks: ClassVar[bool] = False
    acts_in: ClassVar[type[ActionSpace] | None] = Finite  # what it chooses from; None: its policies will tell

    def __post_init__(self) -> None:
        refuse_problems(self)

    def for_more(self, times: float) -> "Learner":
        """The learner for that many times the episodes that its settings were judged on."""
        return self

    def fit_path(self, train: Trajectories, seed: int = 0, behavior: Policy | None = None) -> Iterator[Checkpoint]:
        """Yield the policy at each checkpoint of training, the final one last; here the final one alone.

        `behavior` is the logging policy at any context, where it is known or estimated; rules that look at its
        probabilities use it in place of the nearest logged context's propensities.
        """
        if type(self).fit is Learner.fit:
            raise TypeError(f"{type(self).__name__} must define fit(train, seed, behavior), or fit_path")
        yield Checkpoint(1, learned_by(self.fit, train, seed, behavior))

    def fit(self, train: Trajectories, seed: int = 0, behavior: Policy | None = None) -> Any:
        """The final policy. When training breaks down, the error's `last_good` is the last checkpoint's policy."""
        last: Checkpoint | None = None
        try:
            for checkpoint in self.fit_path(train, seed, behavior):
                last = checkpoint
        except TrainingError as error:
            error.last_good = last.policy if last else None
            raise
        assert last is not None, "fit_path yields at least the final policy"
        return last.policy


def learned_by(fit: Callable[..., Any], train: Trajectories, seed: int, behavior: Policy | None) -> Any:
    """What a function makes of the logs; the seed and the logging policy are for those that have a place for them."""
    parameters = inspect.signature(fit).parameters
    known = {"seed": seed, "behavior": behavior}
    return fit(train, **{name: value for name, value in known.items() if name in parameters})


# Learners that come from elsewhere: an object with `fit`, a function of logs, or a policy that is there already.

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
