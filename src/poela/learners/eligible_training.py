"""The rule over the training log, without measuring the same distances again for every setting and restart."""

from collections.abc import Hashable
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from poela.core.arrays import BoolArray, FloatArray
from poela.data.trajectories import Trajectories
from poela.eligibility.fitted import FittedEligibility
from poela.eligibility.rules import Eligibility

# Distances do not depend on the radius; a log that is no longer used takes its distances with it.
_distances: "WeakKeyDictionary[Trajectories, dict[Hashable, FloatArray]]" = WeakKeyDictionary()


def eligible_in_training(rule: Eligibility, train: Trajectories, behavior: Any) -> tuple[FittedEligibility, BoolArray]:
    """The fitted rule, and the eligible actions [N, A] at every training step.

    >>> logs = Trajectories([[0.0], [1.0]], [0, 1], [0.0, 0.0], [0, 1, 2])
    >>> eligible_in_training(Eligibility(radius=0.5), logs, None)[1]
    array([[ True, False],
           [False,  True]])
    """
    fitted = rule.fit(train, behavior)
    distances = None if rule.radius is None else _training_distances(fitted, train)
    return fitted, fitted.resolve(train.contexts, train.step_numbers, distances=distances).mask


def _training_distances(fitted: FittedEligibility, train: Trajectories) -> FloatArray:
    known = _distances.setdefault(train, {})
    key = replace(fitted.settings, radius=None, minimum_probability=None, relative_probability=None)
    if key not in known:
        known[key] = fitted.distances(train.contexts, train.step_numbers)
    return known[key]
