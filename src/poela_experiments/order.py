"""Whether POELA is above another learner: paired over data sets, by Student's t."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from poela_experiments.frame.judging import BEYOND, clear
from poela_experiments.frame.results import Cell, ResultTable, mean_and_error
from poela_experiments.frame.run import Run

OURS, OTHERS = "POELA", ("PO-mu", "PO-CRM")
Row = Mapping[str, Any]


def holds(paired: Sequence[float]) -> str:
    """Whether differences in favour of POELA are clearly so: "yes" or "no" where data sets tell, else "open".

    >>> [holds(paired) for paired in ((3.0, 4.0, 5.0), (-1.0, 2.0, 5.0), (-3.0, -4.0, -5.0), (4.0,))]
    ['yes', 'open', 'no', '']
    """
    mean, error = mean_and_error(paired)
    if error is None:
        return ""
    if abs(mean) <= clear((error, len(paired))) * error:
        return "open"
    return "yes" if mean > 0 else "no"


def order_table(run: Run, outcomes: Sequence[Row]) -> ResultTable:
    """A row for each kind of contexts, behavior, protocol and other learner."""
    most = max(len({row["data set"] for row in outcomes}), 2)
    notes = (
        "true values, POELA less the other learner, mean over data sets and its standard error; data sets are the same "
        "for every learner, behavior and protocol, so the rows are not independent",
        f"holds: yes or no beyond the {BEYOND:.1%} quantile of Student's t ({clear((1.0, most)):.2f} standard errors "
        f"for {most} data sets), else open",
        f"every learner has nine settings, {run.size.restarts} restarts and standardised inputs, but for PO-mu where "
        "behavior is known: no threshold below 0.15 bars anything there, so it is PO-CRM",
        f"{run.size.kinds['gradient']['checkpoints']} checkpoints",
        "at 50 or below: true values of policies no better than the logging policy's 50",
    )
    return run.table(
        "order", "Tumor growth: POELA beside PO-mu and PO-CRM, equal care", list(order_rows(outcomes)), notes
    )


def order_rows(outcomes: Sequence[Row]) -> Iterator[dict[str, Cell]]:
    """POELA less each other learner, paired over data sets, for each kind of contexts, behavior and protocol."""
    values = {_key(row): float(row["true value"]) for row in outcomes}
    kinds = dict.fromkeys((row["contexts"], row["behavior"], row["protocol"]) for row in outcomes)
    for contexts, behavior, protocol in kinds:
        by_set = {key[-1]: value for key, value in values.items() if key[:4] == (contexts, behavior, protocol, OURS)}
        for other in OTHERS:
            theirs = {n: values.get((contexts, behavior, protocol, other, n)) for n in by_set}
            pairs = [(by_set[n], value) for n, value in theirs.items() if value is not None]
            if not pairs:
                continue
            paired = [ours - value for ours, value in pairs]
            mean, error = mean_and_error(paired)
            yield {
                "contexts": contexts,
                "behavior": behavior,
                "protocol": protocol,
                f"{OURS} less": other,
                "difference": mean,
                "its error": error,
                "data sets above": sum(difference > 0 for difference in paired),
                "data sets": len(paired),
                "holds": holds(paired),
                OURS: mean_and_error([ours for ours, _ in pairs])[0],
                f"lowest of {OURS}": min(ours for ours, _ in pairs),
                "the other": mean_and_error([value for _, value in pairs])[0],
                "lowest of the other": min(value for _, value in pairs),
                f"{OURS} at 50 or below": sum(ours <= 50 for ours, _ in pairs),
                "the other at 50 or below": sum(value <= 50 for _, value in pairs),
            }


def _key(row: Row) -> tuple[str, str, str, str, int]:
    return row["contexts"], row["behavior"], row["protocol"], row["learner"], row["data set"]
