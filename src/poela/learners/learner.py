"""What every learner is: settings, and a path of policies that training walks."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from poela.core.errors import TrainingError
from poela.core.params import HasParams
from poela.core.policy import Policy
from poela.core.typed import refuse_problems
from poela.data.action_space import ActionSpace, Finite
from poela.data.trajectories import Trajectories


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
