"""A study of real-valued actions beside its logs: what was given, and what the policy would give in the same cases."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from poela.core.arrays import FloatArray
from poela.data.groups import SMALLEST_GROUP
from poela.data.trajectories import Trajectories
from poela.report.study_logs import Given, ShownPolicy, shown_policy
from poela.studies.own_logs import checked_parts
from poela.studies.study import Study

MOST_STEPS = 4000  # that doses are drawn for: more change no picture
DRAWS = 8  # for each step


@dataclass(frozen=True, eq=False)
class DoseLogs:
    """The episodes that taught, and the policy."""

    study: Study
    train: Trajectories
    shown: ShownPolicy | None
    smallest: int = SMALLEST_GROUP  # cases that a group must have to be told of

    @cached_property
    def followed(self) -> Trajectories:
        """The episodes that doses are drawn for: all, or some that are spread evenly over the log."""
        episodes = self.train.n_episodes
        some = max(int(episodes * MOST_STEPS / max(self.train.n_steps, MOST_STEPS)), 1)
        if some >= episodes:
            return self.train
        return self.train.take(np.unique(np.linspace(0, episodes - 1, some).round().astype(np.int64)))

    @cached_property
    def drawn(self) -> FloatArray | None:
        """What the policy gives [draws, N, m] at the contexts of `followed`; the same for the same study."""
        if self.shown is None:
            return None
        rng = np.random.default_rng(self.study.settings.seed)
        contexts = self.followed.contexts
        return np.stack([np.asarray(self.shown.policy.sample(contexts, rng), np.float64) for _ in range(DRAWS)])


def dose_logs(study: Study, logs: Given | None, smallest: int = SMALLEST_GROUP) -> DoseLogs | None:
    """The study beside its logs, or beside those that it still holds; None where there are none."""
    parts = study.parts if logs is None else checked_parts(study, logs)
    return None if parts is None else DoseLogs(study, parts[0], shown_policy(study), smallest)
