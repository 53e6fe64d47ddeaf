"""Whether the order that the paper found holds: POELA above PO-mu and PO-CRM, table by table."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from poela.experiments.comparison import STANDARD_ERRORS
from poela.experiments.published.tables import PUBLISHED
from poela.experiments.results import mean_and_error

OURS, OTHERS = "POELA", ("PO-mu", "PO-CRM")
QUANTITIES = ("true value", "SNTIS")
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Order:
    """POELA less another learner in one row of the paper's tables."""

    table: str
    contexts: str
    quantity: str
    other: str
    paper: float | None
    ours: float
    error: float | None
    above: int | None = None  # on how many data sets, where more than one was used
    data_sets: int | None = None

    @property
    def standard_errors(self) -> float | None:
        """The difference in standard errors; None where there is none."""
        return None if not self.error else self.ours / self.error

    @property
    def holds(self) -> str:
        """Whether POELA is above: "yes" or "no" beyond two standard errors, else "open"; without an error, no word.

        >>> [Order("", "", "", "", 1.0, ours, 1.0).holds for ours in (3.0, 1.0, -3.0)]
        ['yes', 'open', 'no']
        >>> Order("", "", "", "", 1.0, 3.0, None).holds
        ''
        """
        distance = self.standard_errors
        if distance is None:
            return ""
        if abs(distance) <= STANDARD_ERRORS:
            return "open"
        return "yes" if distance > 0 else "no"


def orders(rows: Sequence[Row], details: Sequence[Row]) -> Iterator[Order]:
    """The differences in the rows of one comparison; `details` has a row for each data set, where there are several.

    >>> rows = [{"table": "t", "contexts": "", "learner": name, "quantity": "SNTIS", "paper": paper, "ours": ours,
    ...          "± ours": 1.0} for name, paper, ours in (("POELA", 92.0, 80.0), ("PO-CRM", 87.0, 77.0))]
    >>> [(order.other, order.paper, order.ours, round(order.error, 2)) for order in orders(rows, [])]
    [('PO-CRM', 5.0, 3.0, 1.41)]
    """
    found = {(row["contexts"], row["quantity"], row["learner"]): row for row in rows}
    for (contexts, quantity, learner), ours in found.items():
        if learner != OURS or quantity not in QUANTITIES:
            continue
        for other in OTHERS:
            theirs = found.get((contexts, quantity, other))
            if theirs is not None:
                yield _order(ours, theirs, _paired(details, ours, other))


def _order(ours: Row, theirs: Row, paired: Sequence[float]) -> Order:
    papers, errors = ([row[name] for row in (ours, theirs)] for name in ("paper", "± ours"))
    error = None if None in errors else math.hypot(*errors)
    several = len(paired) > 1
    if several:
        _, error = mean_and_error(paired)
    return Order(
        ours["table"],
        ours["contexts"],
        ours["quantity"],
        theirs["learner"],
        None if None in papers else papers[0] - papers[1],
        ours["ours"] - theirs["ours"],
        error,
        sum(difference > 0 for difference in paired) if several else None,
        len(paired) if several else None,
    )


def _paired(details: Sequence[Row], row: Row, other: str) -> list[float]:
    """POELA less the other learner, data set by data set."""
    paper, quantity = PUBLISHED.get(row["table"]), row["quantity"]
    if paper is None:
        return []
    wanted = {"contexts": row["contexts"], "protocol": paper.protocol, "behavior": paper.behavior}
    own = [item for item in details if all(item.get(name) == value for name, value in wanted.items())]
    values = {(item["learner"], item["data set"]): item.get(quantity) for item in own}
    pairs = [(value, values.get((other, number))) for (name, number), value in values.items() if name == OURS]
    return [ours - theirs for ours, theirs in pairs if ours is not None and theirs is not None]


def order_section(found: Sequence[Order]) -> Iterator[str]:
    """The statement in words, and the table behind it."""
    yield "## Does the published order hold?"
    yield ""
    told = [order for order in found if order.paper is not None and order.paper > 0 and order.holds]
    counts = {word: sum(order.holds == word for order in told) for word in ("yes", "no", "open")}
    truths = [order for order in found if order.quantity == "true value"]
    yield (
        f"The paper puts {OURS} above {' and '.join(OTHERS)}. Of {len(told)} differences that it finds in favour of "
        f"{OURS} and of which we know the error, ours are clearly in favour in {counts['yes']}, clearly against in "
        f"{counts['no']}, and within {STANDARD_ERRORS:g} standard errors of none in {counts['open']}."
    )
    for other in OTHERS:
        own = [order for order in truths if order.other == other]
        if own:
            yield _in_truth(own, other)
    yield "Where no number of data sets is given there was one: the error is that of its roll-outs or test logs alone."
    yield ""
    yield "| table | contexts | quantity | POELA less | paper | ours | standard errors | data sets above | holds |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for order in found:
        paper = "" if order.paper is None else f"{order.paper:+.2f}"
        ours = f"{order.ours:+.2f}" + ("" if order.error is None else f" ± {order.error:.2f}")
        distance = "" if order.standard_errors is None else f"{order.standard_errors:+.1f}"
        above = "" if order.above is None else f"{order.above} of {order.data_sets}"
        cells = (order.table, order.contexts, order.quantity, order.other, paper, ours, distance, above, order.holds)
        yield f"| {' | '.join(cells)} |"
    yield ""


def _in_truth(own: Sequence[Order], other: str) -> str:
    counts = {word: sum(order.holds == word for order in own) for word in ("yes", "no", "open")}
    sets = [order for order in own if order.above is not None]
    by_set = ""
    if sets:
        above, total = sum(order.above or 0 for order in sets), sum(order.data_sets or 0 for order in sets)
        by_set = f"; data set by data set it is above in {above} of {total}"
    return (
        f"In truth, {OURS} is clearly above {other} in {counts['yes']} of {len(own)} rows, clearly below in "
        f"{counts['no']}{by_set}."
    )
