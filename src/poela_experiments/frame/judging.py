"""Paper, ours, difference: the table that every reproduction prints."""

import math
from collections.abc import Iterable, Sequence

from poela_experiments.frame.published import Number, PublishedTable
from poela_experiments.frame.results import Cell, mean_and_error

NUMBERS = ("paper", "± paper", "ours", "± ours", "difference", "± difference")
COLUMNS = ("table", "contexts", "learner", "quantity", *NUMBERS)
STANDARD_ERRORS = 2.0  # as far apart as two numbers may be and agree
AGREES = "agrees"


def compared(table: PublishedTable, measured: Iterable[Number]) -> list[dict[str, Cell]]:
    """One row for each number of ours, beside the paper's where it gives one; a verdict where it is to be judged.

    >>> given = {"label": "tab:x", "title": "x", "columns": ["A"], "rows": [["", "value", "1.5±0.3"]]}
    >>> paper = PublishedTable.of("x", given)
    >>> row, = compared(paper, [Number("A", "", "value", 2.0, 0.4)])
    >>> row["difference"], row["± difference"], row["agrees"]
    (0.5, 0.5, 'yes')
    """
    return [_row(table, ours) for ours in measured]


def _row(table: PublishedTable, ours: Number) -> dict[str, Cell]:
    paper = table.find(ours.learner, ours.quantity, ours.contexts)
    difference = None if paper is None else ours.value - paper.value
    paper_error = None if paper is None else table.error(paper)
    # Where either number has no error, nothing can be said.
    error = None if paper_error is None or ours.error is None else math.hypot(ours.error, paper_error)
    value = None if paper is None else paper.value
    values = (table.label, ours.contexts, ours.learner, ours.quantity)
    numbers = (value, paper_error, ours.value, ours.error, difference, error)
    verdict = agreement(difference, error) if ours.judged else ""
    return {**dict(zip(COLUMNS, (*values, *numbers), strict=True)), AGREES: verdict}


def agreement(difference: float | None, error: float | None) -> str:
    """Whether two numbers lie within two standard errors of their difference; "" where that cannot be said.

    Exact counts, whose error is 0, agree where they are equal.

    >>> agreement(1.0, 0.6), agreement(1.0, 0.4), agreement(1.0, None), agreement(0.0, None)
    ('yes', 'no', '', '')
    >>> agreement(0.0, 0.0), agreement(1.0, 0.0)
    ('yes', 'no')
    """
    if difference is None or error is None:
        return ""
    return "yes" if abs(difference) <= STANDARD_ERRORS * error else "no"


def measured(learner: str, contexts: str, quantity: str, values: Sequence[float]) -> Number:
    """The mean over data sets with its standard error.

    >>> measured("A", "", "value", [1.0, 3.0])
    Number(learner='A', contexts='', quantity='value', value=2.0, error=1.0, judged=True)
    """
    return Number(learner, contexts, quantity, *mean_and_error(values))
