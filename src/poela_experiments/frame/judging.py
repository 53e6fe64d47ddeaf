"""Paper, ours, difference: the table that every reproduction prints."""

import math
from collections.abc import Iterable, Mapping, Sequence

from scipy.special import stdtrit

from poela_experiments.frame.published import Number, PublishedTable
from poela_experiments.frame.results import Cell, mean_and_error

COLUMNS = (
    *("table", "contexts", "learner", "quantity"),
    *("paper", "± paper", "ours", "± ours", "difference", "± difference"),
)
BEYOND = 0.975  # the quantile beyond which a difference is a clear one
AGREES, VAGUE = "agrees", "too vague"
WIDE = 10.0  # points: where the error of a difference is that large, "they agree" says little


def compared(table: PublishedTable, measured: Iterable[Number]) -> list[dict[str, Cell]]:
    """One row for each number of ours, beside the paper's where it gives one; a verdict where it can be judged.

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
    least = clear((ours.error or 0.0, ours.runs), (paper_error or 0.0, table.runs))
    verdict = agreement(difference, error, least) if ours.judged and table.judged else ""
    return {**dict(zip(COLUMNS, (*values, *numbers), strict=True)), AGREES: verdict}


def clear(*errors: tuple[float, int | None]) -> float:
    """By how many standard errors a number must be off to be clearly so: Student's quantile.

    Each error comes with the number of runs behind it (None: many); those of two means are joined as by Welch.

    >>> round(clear((1.0, 5)), 2), round(clear((1.0, 5), (1.0, 5)), 2), round(clear((1.0, None)), 2)
    (2.78, 2.31, 1.96)
    """
    total = sum(error**2 for error, _ in errors)
    shares = sum(error**4 / (runs - 1) for error, runs in errors if runs is not None and runs > 1)
    return float(stdtrit(total**2 / shares if shares else 1e9, BEYOND))


def agreement(difference: float | None, error: float | None, least: float = 2.0) -> str:
    """Whether two numbers lie within so many standard errors of their difference; "" where that cannot be said.

    Exact counts, whose error is 0, agree where they are equal.

    >>> agreement(1.0, 0.6), agreement(1.0, 0.4), agreement(1.0, None), agreement(0.0, None)
    ('yes', 'no', '', '')
    >>> agreement(0.0, 0.0), agreement(1.0, 0.0)
    ('yes', 'no')
    >>> agreement(15.0, 12.0), agreement(40.0, 12.0)  # known too badly to agree, and yet apart
    ('too vague', 'no')
    """
    if difference is None or error is None:
        return ""
    if abs(difference) > least * error:
        return "no"
    return "yes" if error < WIDE else VAGUE


def judged_today(row: Mapping[str, Cell]) -> dict[str, Cell]:
    """A stored row with today's words: rows of earlier versions say "yes" where errors are too large to tell."""
    error = row["± difference"]
    vague = row[AGREES] == "yes" and isinstance(error, float) and error >= WIDE
    return {**row, AGREES: VAGUE if vague else row[AGREES]}


def measured(learner: str, contexts: str, quantity: str, values: Sequence[float]) -> Number:
    """The mean over data sets with its standard error.

    >>> measured("A", "", "value", [1.0, 3.0])
    Number(learner='A', contexts='', quantity='value', value=2.0, error=1.0, judged=True, runs=2)
    """
    return Number(learner, contexts, quantity, *mean_and_error(values), runs=len(values))
