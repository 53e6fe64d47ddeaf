"""The numbers of the paper's tables and figures, as the files in `data/` have them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from poela_experiments.frame.settings import described

LEARNERS = ("POELA", "PO-mu", "PO-CRM", "BCQ", "PQL")
NO_PENALTY = "POELA, no penalty"  # in parentheses in the paper's tables
ESTIMATE, BOUNDS = "SNTIS", ("lower bound", "upper bound")
BOUND_IN_ERRORS = 1.645  # how far from the estimate 5% and 95% bounds are, in standard errors of a normal one
EXPERIMENTS = ("tumor", "sepsis", "cartpole", "counterexamples")  # in the order of the paper's tables


@dataclass(frozen=True)
class Number:
    """One number of a table, with its standard error where there is one; an exact count has an error of 0.

    `judged` is False for a number of ours that stands beside the paper's without a verdict; `runs` is how many data
    sets that its error comes from.
    """

    learner: str
    contexts: str  # "Markov", "non-Markov", or "" where a table has one kind only
    quantity: str
    value: float
    error: float | None = None
    judged: bool = True
    runs: int | None = None


@dataclass(frozen=True)
class PublishedTable:
    """One table of the paper by its label there, and what was done for it."""

    key: str  # of the table among those of its experiment
    label: str
    title: str
    protocol: str  # "final" or "best": which policies could be chosen
    behavior: str  # whose probabilities stand in the weights
    numbers: tuple[Number, ...]
    judged: bool = True  # False: it is about other data than ours, beside which nothing can be judged
    runs: int | None = None  # data sets behind its errors

    @classmethod
    def of(cls, key: str, table: Mapping[str, Any]) -> "PublishedTable":
        """A table from its rows: contexts, quantity, and a text of cells, in which a lone dash is an empty one.

        `exact`: its numbers are counts, which have an error of 0.

        >>> rows = [["", "value", "1.5±0.2 -"]]
        >>> PublishedTable.of("x", {"label": "tab:x", "title": "x", "columns": ["A", "B"], "rows": rows}).numbers
        (Number(learner='A', contexts='', quantity='value', value=1.5, error=0.2, judged=True, runs=None),)
        """
        numbers = tuple(
            Number(learner, contexts, quantity, *_number(f"{cell}±0" if table.get("exact") else cell))
            for contexts, quantity, cells in table["rows"]
            for learner, cell in zip(table["columns"], cells.split(), strict=True)
            if cell != "-"
        )
        protocol, behavior = table.get("protocol", "final"), table.get("behavior", "known")
        judged, runs = table.get("judged", True), table.get("runs")
        return cls(key, table["label"], table["title"], protocol, behavior, numbers, judged, runs)

    def find(self, learner: str, quantity: str, contexts: str = "") -> Number | None:
        """The number, or None where the paper gives none."""
        wanted = (learner, contexts, quantity)
        found = [item for item in self.numbers if (item.learner, item.contexts, item.quantity) == wanted]
        return found[0] if found else None

    def error(self, number: Number) -> float | None:
        """The standard error of one of its numbers: as printed, else from the bounds beside it; None without either.

        >>> rows = [["", "SNTIS", "1.5"], ["", "upper bound", "3.29"], ["", "lower bound", "0"]]
        >>> table = PublishedTable.of("x", {"label": "tab:x", "title": "x", "columns": ["A"], "rows": rows})
        >>> [table.error(number) for number in table.numbers]
        [1.0, None, None]
        """
        low, high = (self.find(number.learner, bound, number.contexts) for bound in BOUNDS)
        if number.error is not None or number.quantity != ESTIMATE or low is None or high is None:
            return number.error
        return (high.value - low.value) / (2 * BOUND_IN_ERRORS)


def _number(cell: str) -> tuple[float, float | None]:
    value, _, error = cell.partition("±")
    return float(value), float(error) if error else None


def published(experiment: str) -> dict[str, PublishedTable]:
    """The paper's tables that an experiment is about, by their keys.

    >>> published("counterexamples")["needed"].find("IS + CRM", "episodes needed", "H = 2").value
    32.0
    """
    data = described(experiment)
    shared = data.get("all_tables", {})  # what holds for each of them
    return {key: PublishedTable.of(key, {**shared, **table}) for key, table in data["tables"].items()}


# By experiment and key: the paper's tables in order.
PUBLISHED: dict[tuple[str, str], PublishedTable] = {
    (experiment, key): table for experiment in EXPERIMENTS for key, table in published(experiment).items()
}
