"""What a plain policy says: in cases like these, do so; otherwise as before."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from poela.core.arrays import BoolArray, Float32Array, FloatArray
from poela.core.errors import InputError
from poela.core.typed import Range, Share, Whole, one_of, refuse_problems

MOST_CASES, MOST_CONDITIONS = 64, 8
Doing = Annotated[str, one_of("always", "never", "instead", "odds")]


@dataclass(frozen=True)
class Condition:
    """A feature is above a threshold, or (`above=False`) at most there."""

    feature: str
    threshold: float
    above: bool = True

    def __post_init__(self) -> None:
        refuse_problems(self)
        # Contexts are float32: a threshold that is one, too, means the same in every runtime.
        if float(np.float32(self.threshold)) != self.threshold:
            raise InputError(f"threshold is {self.threshold!r}: it must be a number of single precision")

    def holds(self, values: Float32Array) -> BoolArray:
        """Where it holds, of the feature's values [N]."""
        above: BoolArray = np.asarray(values > np.float32(self.threshold))
        return above if self.above else ~above


@dataclass(frozen=True)
class Case:
    """Where all conditions hold: *always* an action, *never* it, it *instead* of another, or its *odds* multiplied."""

    do: Doing
    action: Whole
    other: Whole | None = None  # the one that is replaced
    odds: Annotated[float, Range(above=0)] = 1.0
    where: tuple[Condition, ...] = ()  # none: in every case
    share: Share = 1.0  # of the training decisions

    def __post_init__(self) -> None:
        refuse_problems(self)
        if (self.do == "instead") != (self.other is not None) or self.other == self.action:
            raise InputError(f"a case of a rule says {self.do!r}, and names the wrong number of actions")
        if (self.do == "odds") != (self.odds != 1):
            raise InputError(f"a case of a rule says {self.do!r}, and multiplies odds by {self.odds:g}")
        if len(self.where) > MOST_CONDITIONS:
            raise InputError(f"a case of a rule has {len(self.where)} conditions: at most {MOST_CONDITIONS} can be")

    def holds(self, contexts: Float32Array, feature_names: tuple[str, ...]) -> BoolArray:
        """In which rows it is the case [N]."""
        holds = np.ones(len(contexts), np.bool_)
        for condition in self.where:
            holds &= condition.holds(contexts[:, feature_names.index(condition.feature)])
        return holds

    def acted(self, practice: FloatArray, free: BoolArray) -> FloatArray:
        """What becomes of practice [N, A] in such cases; `free` [N, A]: what may be done in place of something else.

        >>> practice, free = np.array([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]]), np.ones((2, 3), bool)
        >>> Case("never", 0).acted(practice, free)  # where nothing else is done: as before
        array([[0. , 0.6, 0.4],
               [1. , 0. , 0. ]])
        >>> Case("always", 1).acted(practice, free)
        array([[0., 1., 0.],
               [1., 0., 0.]])
        >>> Case("instead", 1, other=0).acted(practice, free)
        array([[0. , 0.8, 0.2],
               [1. , 0. , 0. ]])
        >>> Case("odds", 0, odds=3.0).acted(practice, free)
        array([[0.75, 0.15, 0.1 ],
               [1.  , 0.  , 0.  ]])
        """
        changed = np.array(practice)
        if self.do in ("never", "odds"):
            changed[:, self.action] *= self.odds if self.do == "odds" else 0.0
            totals = changed.sum(axis=1, keepdims=True)
            return np.where(totals > 0, changed / np.where(totals > 0, totals, 1.0), practice)
        possible = (practice[:, self.action] > 0) & free[:, self.action]
        if self.do == "always":
            changed[possible] = np.eye(practice.shape[1])[self.action]
        else:
            changed[possible, self.action] += practice[possible, self.other]
            changed[possible, self.other] = 0.0
        return changed

    def barred(self, practice: FloatArray) -> BoolArray:
        """What must no longer be done in such cases [N, A], by a case that says *never*."""
        barred = np.zeros(practice.shape, np.bool_)
        if self.do == "never":
            others = practice.sum(axis=1) - practice[:, self.action]
            barred[:, self.action] = (practice[:, self.action] > 0) & (others > 0)
        return barred
