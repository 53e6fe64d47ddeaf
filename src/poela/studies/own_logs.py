"""The logs that a study was made of, given again: checked, split as they were, and with propensities as it has them."""

from contextlib import suppress
from os import PathLike
from typing import TYPE_CHECKING

from poela.core.errors import InputError
from poela.data.folds import folds_within
from poela.data.tables import read_logs
from poela.data.trajectories import Trajectories
from poela.studies.fold_data import data_hash
from poela.studies.logging_policy import stored_logging_policy
from poela.studies.splits import parts_of, splits_of

if TYPE_CHECKING:
    from poela.studies.study import Study

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
