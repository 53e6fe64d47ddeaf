"""Dates among the context of single decisions that may lie after them: by their names, and beside other dates."""

import re
from collections.abc import Sequence

import numpy as np

from poela.core.arrays import BoolArray, FloatArray
from poela.data.late_times import ADVICE
from poela.data.trajectories import Trajectories
from poela.studies.audited_columns import Column
from poela.studies.findings_of_audit import Finding, named

NEARLY_ALL, FEWEST = 0.95, 20  # of the rows that have both dates
AFTER = re.compile(
    r"(?:^|_)(?:outcomes?|results?|discharged?|end(?:ed)?|deaths?|died|deceased|follow_?up|relapsed?|readmi\w*|censor\w*"
    r"|clos(?:ed|ing)|complet(?:ed|ion)|finish(?:ed)?|returned|response)(?:_|$)"
)
# Dates that a decision may well have: what lies before them says nothing.
DECISION = re.compile(
    r"(?:^|_)(?:deci\w*|visit\w*|admi\w*|index|treat\w*|random\w*|enrol\w*|inclu\w*|start\w*|order\w*|contact\w*|sent"
    r"|prescri\w*|today|now|date|day|time|when)(?:_|$)"
)
BIRTH = re.compile(r"(?:^|_)(?:birth\w*|born|dob|since|last|previous|prior|first|diagnos\w*)(?:_|$)")  # long before


def dates_to_check(logs: Trajectories, columns: Sequence[Column]) -> list[Finding]:
    """Dates that are called what comes after decisions, or that lie after another date in nearly all rows.

    Of logs of single decisions, whose own time nobody named.

    >>> import pyarrow as pa
    >>> from poela.data.tables import read_logs
    >>> day = np.datetime64("2024-01-01") + np.arange(60)
    >>> table = {"visit": day, "outcome_date": day + 30, "action": np.arange(60) % 2, "reward": np.zeros(60)}
    >>> logs = read_logs(pa.table(table), context=["visit", "outcome_date"])
    >>> from poela.studies.audited_columns import columns_of
    >>> [(finding.kind, finding.columns) for finding in dates_to_check(logs, columns_of(logs))]
    [('date', ('outcome_date',))]
    """
    if logs.schema is None or logs.n_steps > logs.n_episodes:
        return []
    times = {variable.name for variable in logs.schema.variables if variable.kind == "time"}
    dates = [column for column in columns if column.name in times]
    found = []
    for column in dates:
        said = _words(column.name)
        if AFTER.search(said):
            found.append(_finding(column, "is called a date of what comes after a decision"))
        elif not DECISION.search(said) and (earlier := _earlier(column, dates)):
            found.append(_finding(column, f"lies after {named([earlier])} in nearly all rows"))
    return found


def _finding(column: Column, what: str) -> Finding:
    return Finding("date", (column.name,), f"{named([column.name])} {what}", ADVICE)


def _words(name: str) -> str:
    """A name in lower case, its words apart.

    >>> _words("OutcomeDate"), _words("date of discharge")
    ('outcome_date', 'date_of_discharge')
    """
    return re.sub(r"[^0-9a-z]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())


def _earlier(column: Column, dates: Sequence[Column]) -> str:
    """The name of another date, not of birth or the like, that lies before this one in nearly all rows; or empty."""
    for other in dates:
        if other is not column and not BIRTH.search(_words(other.name)):
            later, both = column.values - other.values, ~column.empty & ~other.empty
            if _nearly_always(later, both):
                return other.name
    return ""


def _nearly_always(later: FloatArray, both: BoolArray) -> bool:
    return bool(both.sum() >= FEWEST and np.mean(later[both] > 0) >= NEARLY_ALL)
