"""What can be done: a finite set of named actions, or real numbers in named columns; and who asks for which."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from poela.core.errors import InputError
from poela.data.words import counted

if TYPE_CHECKING:
    from poela.data.trajectories import Trajectories

ActionName = str | int


@dataclass(frozen=True)
class ActionSpace:
    """What can be done: one of a finite set of named actions, or an amount in each of some named columns."""

    names: tuple[ActionName, ...]
    finite: bool

    def __str__(self) -> str:
        return f"{len(self.names)} actions" if self.finite else counted(len(self.names), "action column")


def finite_actions(logs: "Trajectories", what: str) -> "Trajectories":
    """The logs, whose actions must be a finite set; else one sentence that begins with what asks for that.

    >>> from poela.data.trajectories import Trajectories
    >>> finite_actions(Trajectories([[0.0]], [[0.5]], [1.0], [0, 1]), "a model of values")
    Traceback (most recent call last):
    poela.core.errors.InputError: a model of values needs a finite set of actions, and these logs have real numbers ...
    """
    if not logs.is_real:
        return logs
    raise InputError(
        f"{what} needs a finite set of actions, and these logs have real numbers as actions: choose what does without, "
        "such as the estimator 'sntis', or divide them into levels first"
    )


def real_actions(logs: "Trajectories", what: str) -> "Trajectories":
    """The logs, whose actions must be real numbers."""
    if logs.is_real:
        return logs
    raise InputError(f"{what} needs real-valued actions, and these logs have a finite set: choose another learner")
