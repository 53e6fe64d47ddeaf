"""Consensus: the logging policy sharpened, step by step."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from poela.core.policy import Policy
from poela.core.typed import Range
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import AnyRule
from poela.learners.learner import Checkpoint, Learner, eligible_in_training, logging_policy
from poela.policies.blended import SharpenedPolicy


@dataclass(frozen=True, kw_only=True)
class Consensus(Learner):
    """π ∝ μ^α over eligible actions: do more consistently what most already do; no rewards are looked at.

    Where several clinicians made the logs and each errs now and then, what most of them do is better than what any of
    them does. The path goes from a little to much.

    >>> import numpy as np
    >>> logs = Trajectories(np.zeros((4, 1)), [0, 0, 0, 1], np.zeros(4), np.arange(5), np.tile([0.75, 0.25], (4, 1)))
    >>> Consensus(sharpness=(2.0,)).fit(logs).along(logs.take([0]))  # 9 : 1
    array([[0.9, 0.1]])
    """

    walks: ClassVar[bool] = True
    # powers of practice, from mild to bold
    sharpness: tuple[Annotated[float, Range(above=0)], ...] = (1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0)
    rule: AnyRule | None = None  # which actions are eligible; None: by learned support

    def fit_path(self, train: Trajectories, seed: int = 0, behavior: Policy | None = None) -> Iterator[Checkpoint]:
        """Yield the policy at each sharpness."""
        eligibility, _ = eligible_in_training(self.rule, train, behavior)
        logging = logging_policy(train, behavior)
        for place, sharpness in enumerate(self.sharpness, start=1):
            policy = SharpenedPolicy(
                behavior=logging,
                sharpness=sharpness,
                eligibility=eligibility,
                feature_names=train.feature_names,
                action_names=train.action_names,
            )
            yield Checkpoint(place, policy, f"sharpness {sharpness:.4g}")
