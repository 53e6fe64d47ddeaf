"""Whether the order that the paper found holds: POELA above PO-mu and PO-CRM, table by table."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.special import stdtrit

from poela_experiments.frame.published import PUBLISHED
from poela_experiments.frame.results import markdown_rows, mean_and_error

OURS, OTHERS = "POELA", ("PO-mu", "PO-CRM")
QUANTITIES = ("true value", "SNTIS")
PROTOCOLS = {"final": "Final policies", "best": "Best checkpoints"}
BEYOND = 0.975  # the quantile of Student's t beyond which a paired difference is a clear one
COLUMNS = ("table", "contexts", "quantity", f"{OURS} less", "paper", "ours")
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Order:
    """POELA and another learner in one row of the paper's tables; `paired` has their differences by data set."""

    table: str
    contexts: str
    quantity: str
    other: str
    paper: float | None
    values: tuple[float, float]
    paired: tuple[float, ...] = ()

    @property
    def ours(self) -> float:
        """POELA less the other."""
        return self.values[0] - self.values[1]

    @property
    def several(self) -> bool:
        """Whether more than one data set tells something of the learners, not of two policies alone."""
        return len(self.paired) > 1

    @property
    def above(self) -> int:
        """The number of data sets where POELA is above."""
        return sum(difference > 0 for difference in self.paired)

    @property
    def error(self) -> float | None:
        """The standard error of the paired differences; None for one data set."""
        return mean_and_error(self.paired)[1] if self.several else None

    @property
    def holds(self) -> str:
        """Whether POELA is clearly above: "yes" or "no" where data sets tell, else "open"; of one data set, no word.

        >>> sets = ((3.0, 4.0, 5.0), (-1.0, 2.0, 5.0), (-3.0, -4.0, -5.0), (4.0,))
        >>> [Order("", "", "", "", 1.0, (sum(paired) / len(paired), 0.0), paired).holds for paired in sets]
        ['yes', 'open', 'no', '']
        """
        if self.error is None:
            return ""
        if abs(self.ours) <= clear(len(self.paired)) * self.error:
            return "open"
        return "yes" if self.ours > 0 else "no"


def clear(data_sets: int) -> float:
    """By how many standard errors a mean paired difference must be off zero to be clear.

    >>> round(clear(5), 2)
    2.78
    """
    return float(stdtrit(data_sets - 1, BEYOND))


def orders(rows: Sequence[Row], details: Sequence[Row]) -> Iterator[Order]:
    """The differences in the rows of one comparison; `details` has a row for each data set, where there are several.

    >>> rows = [{"table": "t", "contexts": "", "learner": name, "quantity": "SNTIS", "paper": paper, "ours": ours}
    ...         for name, paper, ours in (("POELA", 92.0, 80.0), ("PO-CRM", 87.0, 77.0))]
    >>> [(order.other, order.paper, order.ours) for order in orders(rows, [])]
    [('PO-CRM', 5.0, 3.0)]
    """
    found = {(row["contexts"], row["quantity"], row["learner"]): row for row in rows}
    for (contexts, quantity, learner), ours in found.items():
        if learner != OURS or quantity not in QUANTITIES:
            continue
        for other in OTHERS:
            theirs = found.get((contexts, quantity, other))
            if theirs is not None:
                yield _order(ours, theirs, _paired(details, ours, other))


def _order(ours: Row, theirs: Row, paired: Iterable[float]) -> Order:
    papers = [row["paper"] for row in (ours, theirs)]
    return Order(
        ours["table"],
        ours["contexts"],
        ours["quantity"],
        theirs["learner"],
        None if None in papers else papers[0] - papers[1],
        (ours["ours"], theirs["ours"]),
        tuple(paired),
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
    """The statement in words, and the tables behind it: over several data sets, and on one."""
    yield "## Does the published order hold?"
    yield ""
    several = [order for order in found if order.several]
    if several:
        yield from _statement(several)
        yield from _table(several, ("standard errors", "data sets above", "holds"))
    single = [order for order in found if not order.several]
    if single:
        yield "### On one data set each: these policies, not these learners"
        yield ""
        yield (
            "Nothing is said of the order here: another data set may turn it round. Both policies were evaluated on "
            "the same logs with the same random numbers, so their errors do not give that of the difference."
        )
        yield ""
        yield from _table(single)


def _statement(several: Sequence[Order]) -> Iterator[str]:
    most = max(len(order.paired) for order in several)
    yield (
        f"The paper puts {OURS} above {' and '.join(OTHERS)}. Paired over data sets, a difference is clear beyond the "
        f"{BEYOND:.1%} quantile of Student's t ({clear(most):.2f} standard errors for {most} data sets). All behavior "
        "models share the same data sets, so the comparisons are not independent. Both protocols often choose the same "
        f"policy and are counted apart; where {' and '.join(OTHERS)} have the same numbers they count once, as "
        f"{OTHERS[-1]}."
    )
    yield ""
    for protocol, name in PROTOCOLS.items():
        own = [order for order in several if PUBLISHED[order.table].protocol == protocol]
        if own:
            yield f"- {name} {_counts(own)}"
    yield ""


def _counts(own: Sequence[Order]) -> str:
    """How often the published order holds in the rows of one protocol, each pair of policies counted once."""
    distinct = list({(order.contexts, order.quantity, *order.values): order for order in own}.values())
    told = [order for order in distinct if order.paper is not None and order.paper > 0]
    counts = {word: sum(order.holds == word for order in told) for word in ("yes", "no", "open")}
    models = ", ".join(dict.fromkeys(PUBLISHED[order.table].behavior for order in own))
    by_set = []
    for other in OTHERS:
        theirs = [order for order in distinct if order.other == other]
        if theirs:
            above, total = sum(order.above for order in theirs), sum(len(order.paired) for order in theirs)
            by_set.append(f"above {other} in {above} of {total}")
    return (
        f"(behavior: {models}): of {len(told)} differences that the paper finds in favour of {OURS}, ours are clearly "
        f"in favour in {counts['yes']}, clearly against in {counts['no']}, open in {counts['open']}. One by one (each "
        f"data set with each behavior model and kind of contexts) {OURS} is {', '.join(by_set)}."
    )


def _table(found: Sequence[Order], more: Sequence[str] = ()) -> Iterator[str]:
    head = (*COLUMNS, *more)
    cells = (
        {
            "table": order.table,
            "contexts": order.contexts,
            "quantity": order.quantity,
            f"{OURS} less": order.other,
            "paper": "" if order.paper is None else f"{order.paper:+.2f}",
            "ours": f"{order.ours:+.2f}" + ("" if order.error is None else f" ± {order.error:.2f}"),
            "standard errors": f"{order.ours / order.error:+.1f}" if order.error else "",
            "data sets above": f"{order.above} of {len(order.paired)}",
            "holds": order.holds,
        }
        for order in found
    )
    yield from markdown_rows(head, ([row[name] for name in head] for row in cells))
    yield ""
