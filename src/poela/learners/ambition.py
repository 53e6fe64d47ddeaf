"""A path from cautious to bold for every learner: the same points in every fold."""

from collections.abc import Sequence

from poela.core.policy import Policy
from poela.data.trajectories import Trajectories
from poela.learners.learner import Checkpoint, Learner
from poela.learners.logging_policy import logging_policy
from poela.policies.blended import BlendedPolicy
from poela.policies.value import GreedyQPolicy

# Shares of the learned policy: finer where the evidence begins to run out.
SHARES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)


def ambition_path(
    learner: Learner, checkpoints: Sequence[Checkpoint], train: Trajectories, behavior: Policy | None
) -> list[Checkpoint]:
    """The learner's own path where it walks from cautious to bold, else blends of what it learned last.

    >>> from poela.learners.consensus import Consensus
    >>> logs = Trajectories([[0.0]] * 4, [0, 0, 0, 1], [0.0] * 4, range(5), [[0.75, 0.25]] * 4)
    >>> checkpoints = list(Consensus(sharpness=(2.0, 3.0)).fit_path(logs))
    >>> [point.note for point in ambition_path(Consensus(), checkpoints, logs, None)]
    ['sharpness 2', 'sharpness 3']
    """
    if learner.walks or not checkpoints:
        return list(checkpoints)
    logging = logging_policy(train, behavior)
    learned = checkpoints[-1].policy
    return [
        Checkpoint(
            place,
            BlendedPolicy(
                policy=learned,
                behavior=logging,
                share=share,
                mixed=isinstance(learned, GreedyQPolicy),
                eligibility=learned.eligibility,
                feature_names=learned.feature_names,
                action_names=learned.action_names,
            ),
            f"blend {share:g}",
        )
        for place, share in enumerate(SHARES, start=1)
    ]
