"""How episodes teach and judge: in K folds, each judged by what the others taught, or in one split."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from poela.behavior.staying import as_if_all_seen
from poela.core.arrays import FloatArray, IntArray
from poela.core.errors import InputError
from poela.data.action_space import Box, Finite, finite_actions
from poela.data.folds import folds_within
from poela.data.tables import read_logs
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import USUAL_SUPPORT
from poela.eligibility.support import cross_fitted_support, has_holes, looks_back, support_of_folds
from poela.eligibility.support_model import SupportModel
from poela.evaluation.outside import LoggedSupport, in_doubt, logged_support, support_along
from poela.evaluation.scoring import Scoring
from poela.studies.fold_data import ALL, FoldData, ScoringPlan, data_hash
from poela.studies.held_out import ENOUGH, Episodes
from poela.studies.logging_policy import LoggingPolicy, store_logging_policy, stored_logging_policy
from poela.studies.settings import StudySettings

if TYPE_CHECKING:
    from poela.studies.study import Study

FOLDS = "folds"


@dataclass(frozen=True, eq=False)
class StudySupport:
    """What was done in like cases: along the episodes that judge, and as models without one fold or two."""

    along: LoggedSupport | None = None
    without: Mapping[tuple[int, ...], SupportModel | None] = field(default_factory=dict)


def study_support(learning: Trajectories, fold_of: IntArray, behavior: Any) -> StudySupport:
    """The support of a study in folds; nothing where every action is taken everywhere.

    Real-valued actions have other rules, so that their support only judges.
    """
    return SUPPORT[learning.action_space.kind](learning, fold_of, behavior)


def _support_of_choices(learning: Trajectories, fold_of: IntArray, behavior: Any) -> StudySupport:
    if has_holes(learning) is False:
        return StudySupport()
    remembers = looks_back(learning, behavior)
    whole = cross_fitted_support(learning, USUAL_SUPPORT, remembers)
    if whole is None:
        return StudySupport()
    folds, pairs = support_of_folds(learning, fold_of, USUAL_SUPPORT, remembers)
    without: dict[tuple[int, ...], SupportModel | None] = {(): whole.model}
    without |= {(fold,): model for fold, model in enumerate(folds)}
    without |= dict(pairs.items())
    return StudySupport(support_along(learning, whole), without)


SUPPORT: Mapping[str, Callable[[Trajectories, IntArray, Any], StudySupport]] = {
    Finite.kind: _support_of_choices,
    Box.kind: lambda learning, fold_of, behavior: StudySupport(logged_support(learning)),
}


@dataclass(frozen=True, eq=False)
class Splits:
    """The episodes of a study with propensities: each fold's, all that teach, and the test logs."""

    folds: tuple[LoggingPolicy, ...]  # parts: (train, held out, …)
    whole: LoggingPolicy  # parts: (all that teach, all that judge or None, test or None)
    support: StudySupport = field(default_factory=StudySupport)
    fold_of: IntArray | None = None  # the fold of each episode that teaches; None: one split, −1: it judges nothing
    reference: FloatArray | None = None  # log weights of what is done now, fold by fold; None: it made all that judge

    @property
    def held_out(self) -> list[Trajectories]:
        """The episodes that judge, fold by fold."""
        return [_known(fold.parts[1]) for fold in self.folds]

    @property
    def train(self) -> Trajectories:
        """All episodes that teach."""
        return _known(self.whole.parts[0])

    @property
    def test(self) -> Trajectories | None:
        """The episodes of the last evaluation."""
        return self.whole.parts[2]

    @property
    def model(self) -> Any:
        """The logging policy as estimated on all episodes that teach, where it was."""
        return self.whole.model

    def fold_data(self, settings: StudySettings) -> Mapping[str, FoldData]:
        """The data of each fold, by the number of the fold, or `ALL`."""
        n = sum(part.n_episodes for part in self.held_out)
        judging = ScoringPlan(settings.scoring, settings.estimators, settings.path, n)
        folds = {
            str(number): FoldData(
                as_if_all_seen(settings.taught(_known(fold.parts[0])), settings.seed),
                settings.scoring.capped(_known(fold.parts[1])),
                fold.model,
                judging,
                self._support_of(number),
                self.support.without.get((number,)),
            )
            for number, fold in enumerate(self.folds)
        }
        times = self._times(len(folds), max(len(folds) - 1, 1))
        judging, rule = replace(judging, times=times), self.support.without.get(())
        train = as_if_all_seen(settings.taught(self.train), settings.seed)
        return {**folds, ALL: FoldData(train, self.train.take([0]), self.model, judging, None, rule)}

    def _times(self, more: int, fewer: int) -> float:
        """How many times the episodes of so many folds, and those that only teach, are those of fewer."""
        if self.fold_of is None:
            return more / fewer
        only = len(self.folds) * float((self.fold_of < 0).sum()) / float((self.fold_of >= 0).sum())
        return (only + more) / (only + fewer)

    def knowing(self, reference: FloatArray | None) -> "Splits":
        """The same with the log weights of what is done now in the episodes that judge, in the order of the logs."""
        if reference is None or self.fold_of is None:
            return self
        own = self.fold_of[self.fold_of >= 0]
        return replace(self, reference=np.concatenate([reference[own == fold] for fold in range(len(self.folds))]))

    def episodes(self, scoring: Scoring, problem: str = "") -> Episodes:
        """The episodes that judge; `problem` says why no weight can be right, if any."""
        return Episodes.of(self.held_out, scoring.discount, problem, scoring.cap, self.reference)

    @property
    def judging(self) -> Trajectories:
        """All episodes that judge, of those that teach too."""
        return self.train if self.fold_of is None else _judging(self.train, self.fold_of)

    def _support_of(self, fold: int) -> LoggedSupport | None:
        """The support along the held-out episodes of a fold."""
        along = self.support.along
        if along is None or self.fold_of is None:
            return along
        judging = self.judging
        own = np.asarray((self.fold_of[self.fold_of >= 0] == fold)[judging.episode_of_step])
        rule, held_out = self.support.without.get((fold,)), _known(self.folds[fold].parts[1])
        if along.exact or rule is None or held_out.estimated:
            return along.take(own)
        logs = finite_actions(judging, "a model of support")
        doubtful = in_doubt(rule.along(finite_actions(held_out, "a model of support")), rule.doubtful, logs, ~own, own)
        return replace(along.take(own), doubtful=doubtful)

    def pair_data(self, first: int, second: int, settings: StudySettings) -> FoldData:
        """Two folds held out together, the first one's episodes before the second's.

        Where propensities are estimated, each held-out episode has that of its own fold; what teaches has those of the
        first fold's training episodes, whose models have seen the second fold.
        """
        assert self.fold_of is not None
        beside = self.fold_of[self.fold_of != first] != second
        train = _known(self.folds[first].parts[0]).take(np.flatnonzero(beside))
        held_out = self.train.take(np.concatenate([np.flatnonzero(self.fold_of == fold) for fold in (first, second)]))
        if self.folds[first].basis:  # estimated here
            known = [np.asarray(_known(self.folds[fold].parts[1]).logging_probabilities) for fold in (first, second)]
            held_out = held_out.with_logging_probabilities(np.concatenate(known), estimated=True)
        count = len(self.folds)
        # As few recombined episodes as there can be: nobody looks at those.
        estimators = ("dr",) if settings.by_model else ()  # whose values the gain's control variates need
        times = self._times(count - 2, count - 1)
        judging = ScoringPlan(settings.scoring, estimators, settings.path, ENOUGH, times=times, keeps_policies=False)
        rule = self.support.without.get((first, second))
        train, held_out = as_if_all_seen(settings.taught(train), settings.seed), settings.scoring.capped(held_out)
        return FoldData(train, held_out, self.folds[first].model, judging, None, rule)


def splits_of(
    learning: Trajectories,
    validation: Trajectories | None,
    test: Trajectories | None,
    settings: StudySettings,
    directory: Path,
    only_teach: int = 0,
    current: Any = None,
) -> Splits:
    """Episodes with propensities, logged or estimated inside each fold; estimates made earlier are read again.

    The first `only_teach` episodes teach in every fold. `current` is the policy that is what is done now, if it is
    known: policies build on it.
    """
    behavior, seed = settings.behavior, settings.seed
    if validation is not None:
        logging = stored_logging_policy(directory, (learning, validation, test), behavior, seed)
        return Splits((logging,), logging, StudySupport(logged_support(validation)))
    assert settings.folds is not None
    fold_of = folds_within(learning, settings.folds, seed, only_teach)
    folds = []
    for fold in range(settings.folds):
        parts = (learning.take(np.flatnonzero(fold_of != fold)), learning.take(np.flatnonzero(fold_of == fold)), None)
        folds.append(stored_logging_policy(directory / FOLDS / str(fold), parts, behavior, seed, learning))
    whole = stored_logging_policy(directory, (learning, None, test), behavior, seed)
    if current is not None:
        folds, whole = [replace(one, model=current) for one in folds], replace(whole, model=current)
    support = study_support(_judging(learning, fold_of), fold_of[fold_of >= 0], whole.model)
    return Splits(tuple(folds), whole, support, fold_of)


def _judging(learning: Trajectories, fold_of: IntArray) -> Trajectories:
    """The episodes that judge in some fold."""
    return learning if (fold_of >= 0).all() else learning.take(fold_of >= 0)


def store_splits(directory: Path, splits: Splits) -> None:
    """Write estimates for `splits_of` to read again."""
    store_logging_policy(directory, splits.whole)
    if len(splits.folds) > 1:
        for fold, logging in enumerate(splits.folds):
            store_logging_policy(directory / FOLDS / str(fold), logging)


def _known(part: Trajectories | None) -> Trajectories:
    assert part is not None
    return part


def parts_of(
    learning: Trajectories, validation: Trajectories | None, test: Trajectories | None, settings: StudySettings
) -> tuple[Trajectories, Trajectories | None, Trajectories | None]:
    """The episodes that teach, those that judge (None: the same, in folds), and those of the last evaluation."""
    if validation is not None:
        return learning, validation, test
    if settings.shares is not None:
        first, second, _ = settings.shares
        if test is not None:
            rest = first + second
            train, judge = learning.split((first / rest, second / rest), seed=settings.seed)
            return train, judge, test
        parts = learning.split(settings.shares, seed=settings.seed)
        return parts[0], parts[1], parts[2]
    if test is None and settings.test_share:
        share = settings.test_share
        learning, test = learning.split((1 - share, share), seed=settings.seed)
    return learning, None, test


# The logs that a study was made of, given again: checked, split as they were, and with propensities as it has them.

Given = Trajectories | str | PathLike[str]
Parts = tuple[Trajectories, Trajectories | None, Trajectories | None]


def checked_parts(study: "Study", source: Given) -> Parts:
    """The logs as the study split them; logs that it was not made of are refused."""
    logs = source if isinstance(source, Trajectories) else read_logs(source, layout=study.record.data.layout)
    hashes = study.record.data.hashes
    for parts in _ways(logs, study):
        if data_hash(parts[0]) == hashes["train"]:
            train, validation, test = parts
            known = validation is not None and data_hash(validation) == hashes.get("validation")
            return train, validation if known else None, test
    raise InputError(
        f"these are not the logs that {study.directory} was made of: give those that it was learned from, as they were"
    )


def _ways(logs: Trajectories, study: "Study") -> list[Parts]:
    """How a study may have split its logs: alone, beside test logs from another file, or not at all."""
    ways: list[Parts] = []
    with suppress(InputError):  # too few episodes for its shares
        ways.append(parts_of(logs, None, None, study.settings))
        ways.append((*parts_of(logs, None, logs, study.settings)[:2], None))
    return [*ways, (logs, None, None)]


def with_propensities(study: "Study", parts: Parts) -> tuple[Trajectories, tuple[Trajectories, ...]]:
    """The teaching episodes and the judging ones, fold by fold, with propensities as the study has them."""
    train, validation, _ = parts
    settings, folds = study.settings, study.n_folds
    judged = folds > 1 or validation is not None
    if not train.knows_logging_policy and judged:
        splits = splits_of(*parts, settings, study.directory, study.only_teach)
        return splits.train, tuple(splits.held_out)
    if not train.knows_logging_policy:
        logging = stored_logging_policy(study.directory, parts, settings.behavior, settings.seed)
        return logging.parts[0] or train, ()
    if validation is not None:
        return train, (validation,)
    if folds == 1:
        return train, ()
    fold_of = folds_within(train, folds, settings.seed, study.only_teach)
    return train, tuple(train.take(fold_of == fold) for fold in range(folds))
