"""How a published table is written down: rows of text, read once into records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LEARNERS = ("POELA", "PO-mu", "PO-CRM", "BCQ", "PQL")
NO_PENALTY = "POELA, no penalty"  # in parentheses in the paper's tables
WITH_NO_PENALTY = ("POELA", NO_PENALTY, *LEARNERS[1:])
ESTIMATE, BOUNDS = "SNTIS", ("lower bound", "upper bound")
BOUND_IN_ERRORS = 1.645  # how far from the estimate 5% and 95% bounds are, in standard errors of a normal one


@dataclass(frozen=True)
class Number:
    """One number of a table, with its standard error where there is one; an exact count has an error of 0.

    `judged` is False for a number of ours that stands beside the paper's without a verdict.
    """

    learner: str
    contexts: str  # "Markov", "non-Markov", or "" where a table has one kind only
    quantity: str
    value: float
    error: float | None = None
    judged: bool = True


@dataclass(frozen=True)
class PublishedTable:
    """One table of the paper by its label there, and what was done for it."""

    label: str
    title: str
    protocol: str  # "final" or "best": which policies could be chosen
    behavior: str  # whose probabilities stand in the weights
    numbers: tuple[Number, ...]

    def find(self, learner: str, quantity: str, contexts: str = "") -> Number | None:
        """The number, or None where the paper gives none."""
        wanted = (learner, contexts, quantity)
        found = [item for item in self.numbers if (item.learner, item.contexts, item.quantity) == wanted]
        return found[0] if found else None

    def error(self, number: Number) -> float | None:
        """The standard error of one of its numbers: as printed, else from the bounds beside it; None without either.

        >>> rows = {("", "SNTIS"): "1.5", ("", "upper bound"): "3.29", ("", "lower bound"): "0"}
        >>> table = published_table("tab:x", "x", ("A",), rows)
        >>> [table.error(number) for number in table.numbers]
        [1.0, None, None]
        """
        low, high = (self.find(number.learner, bound, number.contexts) for bound in BOUNDS)
        if number.error is not None or number.quantity != ESTIMATE or low is None or high is None:
            return number.error
        return (high.value - low.value) / (2 * BOUND_IN_ERRORS)


def published_table(
    label: str,
    title: str,
    columns: Sequence[str],
    rows: Mapping[tuple[str, str], str],
    *,
    protocol: str = "final",
    behavior: str = "known",
    exact: bool = False,
) -> PublishedTable:
    """A table from its rows of text, (contexts, quantity) -> cells; a lone dash is an empty cell.

    `exact`: its numbers are counts, which have an error of 0.

    >>> table = published_table("tab:x", "x", ("A", "B"), {("", "value"): "1.5±0.2 -"})
    >>> table.numbers
    (Number(learner='A', contexts='', quantity='value', value=1.5, error=0.2, judged=True),)
    """
    numbers = tuple(
        Number(learner, contexts, quantity, *_number(f"{cell}±0" if exact else cell))
        for (contexts, quantity), cells in rows.items()
        for learner, cell in zip(columns, cells.split(), strict=True)
        if cell != "-"
    )
    return PublishedTable(label, title, protocol, behavior, numbers)


def _number(cell: str) -> tuple[float, float | None]:
    value, _, error = cell.partition("±")
    return float(value), float(error) if error else None
