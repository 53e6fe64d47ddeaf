"""A study beside the logs that it was made of: what its policy does there, and what held-out episodes weigh."""

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.core.policy import as_policy
from poela.data.action_space import finite_actions
from poela.data.groups import SMALLEST_GROUP
from poela.data.trajectories import Trajectories
from poela.eligibility.fitted import Eligible, FittedEligibility
from poela.eligibility.rules import Eligibility
from poela.evaluation.evidence import Evidence
from poela.evaluation.outside import LoggedSupport, logged_support
from poela.evaluation.weights import probabilities_along
from poela.studies.fold_data import read_behavior
from poela.studies.held_out import Episodes
from poela.studies.judging import evidence_of
from poela.studies.selection import Point
from poela.studies.splits import Given as Given
from poela.studies.splits import Parts, checked_parts, with_propensities
from poela.studies.study import Study

MOST_STEPS = 30_000  # that a policy is followed along: more change no picture, and take minutes
USUAL_NEARNESS = Eligibility(radius="q100", scale="standard")  # where the policy's rule has no radius


@dataclass(frozen=True, eq=False)
class ShownPolicy:
    """The policy that a page is about: the recommended one or, where there is none, the one worth a trial."""

    point: Point
    name: str
    policy: Any
    recommended: bool


def shown_policy(study: Study) -> ShownPolicy | None:
    """The policy that a page is about; None where there is neither."""
    if study.result is None:
        return None
    chosen = study.choice.chosen
    hopeful = study.result.promising
    point = chosen if chosen is not None else None if hopeful is None else study.points[hopeful]
    if point is None:
        return None
    return ShownPolicy(point, study.name_of(point), study.policy_of(point), chosen is not None)


@dataclass(frozen=True, eq=False)
class StudyLogs:
    """The episodes that taught, those that judged (fold by fold; none where they are not at hand), and the policy."""

    study: Study
    train: Trajectories
    held_out: tuple[Trajectories, ...]
    shown: ShownPolicy | None
    smallest: int = SMALLEST_GROUP  # cases that a group must have to be told of

    @cached_property
    def followed(self) -> Trajectories:
        """The teaching episodes that the policy is followed along: all, or some that are spread evenly over the log."""
        steps = self.train.n_steps
        if steps <= MOST_STEPS:
            return self.train
        episodes = max(int(self.train.n_episodes * MOST_STEPS / steps), 1)
        return self.train.take(np.unique(np.linspace(0, self.train.n_episodes - 1, episodes).round().astype(np.int64)))

    @cached_property
    def logging(self) -> FloatArray | None:
        """What the logging policy does [N, A] along `followed`: as logged, or by a model; None: not known."""
        propensities = self.followed.propensities
        if propensities is not None and propensities.ndim == 2:
            return propensities
        model = read_behavior(self.study.directory / "behavior")
        return None if model is None else np.asarray(as_policy(model).along(self.followed), np.float64)

    @cached_property
    def acting(self) -> FloatArray | None:
        """What the policy does [N, A] along `followed`."""
        return None if self.shown is None else probabilities_along(self.shown.policy, self.followed)

    @cached_property
    def eligible(self) -> Eligible | None:
        """What its rule allows along `followed`."""
        rule = None if self.shown is None else getattr(self.shown.policy, "eligibility", None)
        return None if rule is None else rule.along(self.followed)

    @cached_property
    def support(self) -> LoggedSupport | None:
        """Which actions have support along `followed`; None where every action is taken everywhere."""
        return logged_support(self.followed, read_behavior(self.study.directory / "behavior"))

    @cached_property
    def nearness(self) -> FittedEligibility | None:
        """What tells which logged cases are alike: the policy's rule or, where that has no radius, the usual one."""
        rule = None if self.shown is None else getattr(self.shown.policy, "eligibility", None)
        if rule is not None and rule.radius is not None and rule.logged is not None:
            own: FittedEligibility = rule
            return own
        with suppress(InputError):  # no action occurs in two episodes
            return USUAL_NEARNESS.fit(self.train)
        return None

    @cached_property
    def judged(self) -> tuple[Evidence, FloatArray] | None:
        """The evidence on the policy from held-out episodes, and their (discounted) returns [n]."""
        if self.shown is None or not self.held_out:
            return None
        settings = self.study.settings
        scoring = settings.scoring
        episodes = Episodes.of(self.held_out, scoring.discount, cap=scoring.cap)
        evidence, _ = evidence_of(self.study.store, self.shown.point, episodes, settings, self.study.n_folds)
        return evidence, episodes.logs.rewards


def study_logs(study: Study, logs: Given | None, smallest: int = SMALLEST_GROUP) -> StudyLogs | None:
    """The study beside its logs, or beside those that it still holds; None where there are none.

    Logs that the study was not made of are refused.
    """
    parts = study.parts if logs is None else checked_parts(study, logs)
    if parts is None:
        return None
    train, held_out = _with_propensities(study, parts)
    return StudyLogs(study, train, held_out, shown_policy(study), smallest)


def _with_propensities(study: Study, parts: Parts) -> tuple[Trajectories, tuple[Trajectories, ...]]:
    """The teaching episodes and the judging ones, with propensities as the study has them."""
    taught, judging = with_propensities(study, parts)
    return finite_actions(taught, "the page"), tuple(finite_actions(part, "the page") for part in judging)


# A study of real-valued actions beside its logs: what was given, and what the policy would give in the same cases.

MOST_DOSE_STEPS = 4000  # that doses are drawn for: more change no picture
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
        some = max(int(episodes * MOST_DOSE_STEPS / max(self.train.n_steps, MOST_DOSE_STEPS)), 1)
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
