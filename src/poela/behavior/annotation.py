"""Estimated propensities on logs: cross-fitting, the floor, and a report of where the estimate is thin."""

import warnings
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from poela.behavior.calibration import Calibration, calibration
from poela.core.arrays import FloatArray, IntArray, readonly
from poela.core.errors import InputError, PoelaWarning
from poela.core.policy import LoggedSteps
from poela.core.readable import plain
from poela.data.action_space import ActionName
from poela.data.folds import fold_numbers
from poela.data.trajectories import Trajectories

FLOOR = 1e-3


class Fitted(Protocol):
    """What annotation needs of a fitted behavior model."""

    @property
    def unseen(self) -> tuple[ActionName, ...]:
        """The actions that never occur in training."""

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        """[N, A] along logged episodes."""


class Fits(Protocol):
    """What cross-fitting needs of behavior settings."""

    def fit_quietly(self, train: Trajectories, seed: int) -> Fitted:
        """Fit without warnings about unseen actions: the report names them."""


@dataclass(frozen=True, eq=False)
class Annotation:
    """Logs with estimated propensities, and what to know before trusting them.

    A step has zero support where the model gives its logged action probability 0. The floor raised the logged
    action's propensity there, and wherever it was positive but below the floor.
    """

    trajectories: Trajectories
    floor: float
    floored: IntArray  # the flat rows where the floor acted
    zero_support: IntArray  # the flat rows, among them, where the logged action had probability 0
    unseen: tuple[ActionName, ...]  # actions that some fitted model never saw in training
    calibration: Calibration  # of the propensities as annotated
    folds: int | None  # None: one model for all episodes

    @property
    def floored_steps(self) -> int:
        """In how many steps the floor acted."""
        return len(self.floored)

    @property
    def zero_support_steps(self) -> int:
        """In how many steps the model gives the logged action probability 0."""
        return len(self.zero_support)

    def __str__(self) -> str:
        fitted = "one model for all episodes" if self.folds is None else f"cross-fitted in {self.folds} folds"
        lines = [
            f"propensities of {self.trajectories.n_steps} steps, {fitted}",
            f"floor {plain(self.floor)}: acted in {self.floored_steps} steps, "
            f"{self.zero_support_steps} of zero support",
            str(self.calibration),
        ]
        if self.unseen:
            lines.append(f"actions never seen in training: {', '.join(map(str, self.unseen))}")
        return "\n".join(lines)


def annotated(
    probabilities: FloatArray,
    trajectories: Trajectories,
    floor: float = FLOOR,
    unseen: tuple[ActionName, ...] = (),
    folds: int | None = None,
) -> Annotation:
    """The logs with these probabilities [N, A] as propensities, the logged action's raised to at least the floor.

    Where the floor acts, the row's other actions share what is left in proportion, so the row still sums to 1.

    >>> logs = Trajectories([[0.0], [1.0]], [0, 1], [0, 0], [0, 2])
    >>> report = annotated(np.array([[0.5, 0.5], [1.0, 0.0]]), logs, floor=0.01)
    >>> report.trajectories.propensities
    array([[0.5 , 0.5 ],
           [0.99, 0.01]])
    >>> report.floored_steps, report.zero_support_steps
    (1, 1)
    """
    if not 0 < floor < 1:
        raise InputError(f"the floor is {floor}, but it must lie between 0 and 1: 0.001 is usual")
    rows = np.array(probabilities, np.float64)
    logged = rows[np.arange(len(rows)), trajectories.actions]
    floored = np.flatnonzero(logged < floor)
    rows[floored] *= ((1 - floor) / (1 - logged[floored]))[:, None]
    rows[floored, trajectories.actions[floored]] = floor
    return Annotation(
        trajectories=trajectories.with_propensities(rows, estimated=True),
        floor=floor,
        floored=readonly(floored, np.int64),
        zero_support=readonly(np.flatnonzero(logged == 0), np.int64),
        unseen=unseen,
        calibration=calibration(rows, trajectories.actions),
        folds=folds,
    )


def annotation(
    behavior: Fits, trajectories: Trajectories, folds: int = 5, seed: int = 0, floor: float = FLOOR
) -> Annotation:
    """Cross-fitted propensities: each episode's come from a model that saw neither it nor its cluster.

    >>> from poela.behavior.propensities import KNNBehavior
    >>> rng = np.random.default_rng(0)
    >>> logs = Trajectories(rng.normal(size=(40, 2)), rng.integers(0, 2, 40), np.zeros(40), np.arange(0, 41, 4))
    >>> print(annotation(KNNBehavior(k=10), logs))
    propensities of 40 steps, cross-fitted in 5 folds
    floor 0.001: acted in 0 steps, 0 of zero support
    log likelihood -0.829 per step, Brier score 0.609, expected calibration error 0.150
    """
    rows: FloatArray = np.zeros((trajectories.n_steps, trajectories.n_actions))
    unseen: set[ActionName] = set()
    fold_of_episode = fold_numbers(trajectories, folds, seed)
    for fold in range(folds):
        model = behavior.fit_quietly(trajectories.take(fold_of_episode != fold), seed)
        unseen.update(model.unseen)
        held_out = fold_of_episode == fold
        rows[held_out[trajectories.episode_of_step]] = model.along(trajectories.take(held_out))
    names = tuple(name for name in trajectories.action_names if name in unseen)
    return annotated(rows, trajectories, floor, names, folds)


def annotate(
    behavior: Fits, trajectories: Trajectories, folds: int = 5, seed: int = 0, floor: float = FLOOR
) -> Trajectories:
    """The logs with cross-fitted propensities; warns where the floor acted. `annotation` returns the whole report."""
    return warned(annotation(behavior, trajectories, folds, seed, floor))


def warned(report: Annotation) -> Trajectories:
    """The annotated logs, after a warning in case the floor acted."""
    if report.floored_steps:
        warnings.warn(
            f"the floor of {plain(report.floor)} raised the logged action's propensity in {report.floored_steps} of "
            f"{report.trajectories.n_steps} steps ({report.zero_support_steps} had probability 0): "
            "weights there are guesses; see annotation() for where",
            PoelaWarning,
            stacklevel=3,
        )
    return report.trajectories
