"""Values that no return can reach: the sign that a value learner has diverged."""

import numpy as np

from poela.core.errors import TrainingError
from poela.data.trajectories import Trajectories

DIVERGED = 10.0  # values this many times above any reachable return are divergence, not learning


def reachable_return(train: Trajectories, discount: float) -> float:
    """The largest return, up to its sign, that rewards like the logged ones could add up to.

    >>> reachable_return(Trajectories([[0.0]] * 3, [0] * 3, [1.0, -2.0, 0.5], [0, 2, 3]), discount=1.0)
    4.0
    """
    longest = int(train.lengths.max())
    steps = float(longest) if discount == 1 else (1 - discount**longest) / (1 - discount)
    return float(np.abs(train.rewards).max()) * steps


def refuse_divergence(name: str, where: str, largest: float, reachable: float) -> None:
    """Raise `TrainingError` where the largest value, up to its sign, is far beyond every reachable return.

    >>> refuse_divergence("BCQ", "step 40", largest=500.0, reachable=4.0)
    Traceback (most recent call last):
    poela.core.errors.TrainingError: BCQ: values diverged at step 40: they reach 500, while no return can reach more
    than 4; lower the learning rate, tighten the rule, or look for extreme contexts
    """
    if not largest <= DIVERGED * reachable:  # so that NaN is refused too
        raise TrainingError(
            f"{name}: values diverged at {where}: they reach {largest:.3g}, while no return can reach more than "
            f"{reachable:.3g}; lower the learning rate, tighten the rule, or look for extreme contexts"
        )
