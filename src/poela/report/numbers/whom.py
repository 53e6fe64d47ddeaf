"""Whom a policy touches: the kinds of cases in which most and fewest decisions change."""

from dataclasses import dataclass

from poela.report.numbers.changes import columns_of, departures, strata_of_column
from poela.report.study_logs import StudyLogs

LEAST_SPREAD = 0.02  # of decisions: groups that differ by less are as good as alike


@dataclass(frozen=True)
class Touched:
    """The groups of one column, of those in which change differs most: where most and where fewest decisions change."""

    most: str
    most_share: float
    fewest: str
    fewest_share: float


def touched(logs: StudyLogs) -> Touched | None:
    """By the column whose groups differ most; None where none tells, or the logging policy is not known."""
    change = departures(logs)
    if change is None:
        return None
    best: Touched | None = None
    for column in columns_of(logs.followed):
        strata = strata_of_column(logs.followed, column, logs.smallest)
        groups = [(float(change[inside].mean()), name) for name, inside in strata]
        if len(groups) < 2:
            continue
        (fewest, where_not), (most, where) = min(groups), max(groups)
        if most - fewest >= (LEAST_SPREAD if best is None else best.most_share - best.fewest_share):
            best = Touched(where, most, where_not, fewest)
    return best
