"""The rule over the training log."""

from typing import Any

from poela.data.trajectories import Trajectories
from poela.eligibility.eligible import Eligible
from poela.eligibility.fitted import FittedEligibility
from poela.eligibility.rules import Eligibility


def eligible_in_training(rule: Eligibility, train: Trajectories, behavior: Any) -> tuple[FittedEligibility, Eligible]:
    """The fitted rule, and what is eligible at every training step.

    >>> logs = Trajectories([[0.0], [1.0]], [0, 1], [0.0, 0.0], [0, 1, 2])
    >>> eligible_in_training(Eligibility(radius=0.5), logs, None)[1].mask
    array([[ True, False],
           [False,  True]])
    """
    fitted = rule.fit(train, behavior)
    return fitted, fitted.along(train)
