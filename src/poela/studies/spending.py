"""What policies may spend: costs and capacities as guardrails on what a policy itself spends per case."""

from poela.core.errors import InputError
from poela.data.costs import Capacity, Costs, capacities_in
from poela.studies.guards import Guard


def spend_guards(cost: str, spend: float | None, capacity: str) -> tuple[Guard, ...]:
    """Guardrails on what a policy spends per case; without a limit, what is only to be reported.

    >>> list(map(str, spend_guards("large=3", 0.5, "large=100/1000")))
    ['spend per case <= 0.5', 'large per case <= 0.1']
    >>> list(map(str, spend_guards("price", None, "")))
    ['spend per case']
    """
    if spend is not None and not cost:
        raise InputError(
            "what may be spent needs to know what decisions cost: --cost COLUMN, or --cost large=3,small=1"
        )
    guards = [Guard(Costs.of(cost).text, at_most=True, limit=spend, level=True)] if cost else []
    for one in capacities_in(capacity) if capacity else ():
        limit = None if one.per is None else one.count / one.per  # known once the log is read
        guards.append(Guard(f"{one.action}=1", at_most=True, limit=limit, level=True))
    return tuple(guards)


def capacity_of(text: str, cases: int) -> str:
    """A capacity with the number of cases that it is of.

    >>> capacity_of("large=100, small=3/10", 2000)
    'large=100/2000,small=3/10'
    """
    return ",".join(str(one.per_case(cases)) for one in capacities_in(text)) if text else ""


def costs_to_walk(cost: str, capacity: str) -> str:
    """The costs by which cases are sorted: what was named, or of a single capacity its action; else none.

    >>> costs_to_walk("large=3", "large=1/10"), costs_to_walk("", "large=1/10"), costs_to_walk("", "a=1/2,b=1/3")
    ('large=3', 'large=1', '')
    """
    if cost:
        return cost
    limited = capacities_in(capacity) if capacity else ()
    return f"{limited[0].action}=1" if len(limited) == 1 else ""


def costs_to_price(cost: str, capacity: str) -> str:
    """The costs that may have a price: the same, and of several capacities one for each of their actions."""
    limited: tuple[Capacity, ...] = capacities_in(capacity) if capacity else ()
    return costs_to_walk(cost, capacity) or ",".join(f"{one.action}=1" for one in limited)
