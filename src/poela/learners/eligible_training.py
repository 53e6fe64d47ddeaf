"""The rule over the training log."""

from poela.core.policy import HasProbabilities
from poela.data.trajectories import Trajectories
from poela.eligibility.eligible import Eligible
from poela.eligibility.fitted import FittedEligibility
from poela.eligibility.rules import AnyRule, as_rule


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
