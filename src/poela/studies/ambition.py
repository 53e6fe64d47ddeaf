"""A path from cautious to bold for every learner: the same points in every fold."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from poela.behavior.gaussian import GaussianBehavior
from poela.behavior.normal import NormalModel
from poela.data.action_space import finite_actions
from poela.data.trajectories import Trajectories
from poela.eligibility.support_model import SupportedBehavior
from poela.learners.learner import Checkpoint, Learner, logging_policy
from poela.policies.blended import BlendedPolicy
from poela.policies.foreign import ForeignPolicy
from poela.policies.gaussian import RealPolicy
from poela.policies.network import GreedyQPolicy

# Shares of the learned policy: finer where the evidence begins to run out.
SHARES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)


def ambition_path(
    learner: Learner, checkpoints: Sequence[Checkpoint], train: Trajectories, behavior: Any
) -> list[Checkpoint]:
    """The learner's own path where it walks from cautious to bold, else blends of what it learned last.

    >>> from poela.learners.consensus import Consensus
    >>> from poela.data.trajectories import Trajectories
    >>> logs = Trajectories([[0.0]] * 4, [0, 0, 0, 1], [0.0] * 4, range(5), [[0.75, 0.25]] * 4)
    >>> checkpoints = list(Consensus(sharpness=(2.0, 3.0)).fit_path(logs))
    >>> [point.note for point in ambition_path(Consensus(), checkpoints, logs, None)]
    ['sharpness 2', 'sharpness 3']
    """
    if learner.walks or not checkpoints:
        return list(checkpoints)
    learned = checkpoints[-1].policy
    if isinstance(learned, RealPolicy):
        return _path_of_amounts(learned, train, behavior)
    logging = logging_policy(finite_actions(train, "this learner"), behavior)
    support = learned.eligibility.support
    if support is not None:
        logging = SupportedBehavior(logging, support)
    return [
        Checkpoint(
            place,
            BlendedPolicy(
                policy=learned,
                behavior=logging,
                share=share,
                mixed=isinstance(learned, GreedyQPolicy) or (isinstance(learned, ForeignPolicy) and learned.greedy),
                eligibility=learned.eligibility,
                feature_names=learned.feature_names,
                action_names=learned.action_names,
            ),
            f"blend {share:g}",
        )
        for place, share in enumerate(SHARES, start=1)
    ]


def _path_of_amounts(learned: RealPolicy, train: Trajectories, behavior: Any) -> list[Checkpoint]:
    """On the way from the logging policy to what was learned: Gaussians, or mixtures with somebody's policy."""
    base = behavior if isinstance(behavior, NormalModel) else GaussianBehavior().fit_quietly(train)
    own: Any = learned  # a dataclass
    return [
        Checkpoint(place, replace(own, behavior=base, share=share), f"blend {share:g}")
        for place, share in enumerate(SHARES, start=1)
    ]
