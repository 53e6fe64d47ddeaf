"""The rule over the training log."""

from typing import Any

from poela.core.arrays import BoolArray
from poela.data.trajectories import Trajectories
from poela.eligibility.fitted import FittedEligibility
from poela.eligibility.rules import Eligibility


def eligible_in_training(rule: Eligibility, train: Trajectories, behavior: Any) -> tuple[FittedEligibility, BoolArray]:
    """The fitted rule, and the eligible actions [N, A] at every training step.

    >>> logs = Trajectories([[0.0], [1.0]], [0, 1], [0.0, 0.0], [0, 1, 2])
    >>> eligible_in_training(Eligibility(radius=0.5), logs, None)[1]
    array([[ True, False],
           [False,  True]])
    """
    fitted = rule.fit(train, behavior)
    return fitted, fitted.along(train).mask
