"""What every learner is: settings, and a path of policies that training walks."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from poela.core.errors import TrainingError
from poela.core.policy import Policy
from poela.core.typed import refuse_problems
from poela.data.trajectories import Trajectories


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A policy on the way: after how many steps (or at which point of its path) it was taken."""

    step: int
    policy: Any  # a Policy; learners return richer classes
    note: str = ""
    plainness: int | None = None  # how plainly it can be said: 0 in a few words, 3 hardly; None: not at all


class Learner(ABC):
    """A frozen dataclass of settings; `fit_path` yields checkpoints, `fit` returns the last policy.

    Settings that cannot be are refused when the learner is made, by the types of its fields. `walks` says whether the
    path goes from cautious to bold, rather than through training.
    """

    walks: ClassVar[bool] = False
    real_valued: ClassVar[bool] = False  # whether it learns from logs whose actions are real numbers

    def __post_init__(self) -> None:
        refuse_problems(self)

    def for_more(self, times: float) -> "Learner":
        """The learner for that many times the episodes that its settings were judged on."""
        return self

    @abstractmethod
    def fit_path(self, train: Trajectories, seed: int = 0, behavior: Policy | None = None) -> Iterator[Checkpoint]:
        """Yield the policy at each checkpoint of training, the final one last.

        `behavior` is the logging policy at any context, where it is known or estimated; rules that look at its
        probabilities use it in place of the nearest logged context's propensities.
        """

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
