"""Limits of a study that is resumed: those that are not said again stay as the record has them."""

from dataclasses import replace
from typing import Any

from poela.data.costs import Capacity, capacities_in
from poela.studies.guards import Guard, guards_in
from poela.studies.selection import Selection


def with_limits_of(earlier: Selection, selection: Selection) -> tuple[Selection, tuple[str, ...]]:
    """A selection with the limits of an earlier one that it says nothing of, and what these are.

    >>> earlier = Selection("gain", confidence=0.95, guards=("pain <= +0.1", "harm <= 0"), capacity="large=1/10")
    >>> now, kept = with_limits_of(earlier, Selection("gain", confidence=0.95, guards=("pain <= +0.2",)))
    >>> now.guards, now.capacity, kept
    (('pain <= +0.2', 'harm <= 0'), 'large=1/10', ('harm <= 0', 'capacity large=1/10'))
    """
    said = {_subject(guard) for guard in guards_in(selection.guards)}
    guards = [text for text in earlier.guards if _subject(Guard.of(text)) not in said]
    kept, changed = list(guards), dict[str, Any](guards=(*selection.guards, *guards))
    if earlier.cost and not selection.cost:
        changed["cost"] = earlier.cost
        kept.append(f"cost {earlier.cost}")
    if earlier.spend is not None and selection.spend is None:
        changed["spend"] = earlier.spend
        kept.append(f"spend {earlier.spend:g}")
    limited = {one.action for one in _capacities(selection.capacity)}
    open_still = [str(one) for one in _capacities(earlier.capacity) if one.action not in limited]
    changed["capacity"] = ",".join(filter(None, (selection.capacity, *open_still)))
    kept += [f"capacity {one}" for one in open_still]
    return (replace(selection, **changed) if kept else selection), tuple(kept)


def _subject(guard: Guard) -> Guard:
    """What is guarded, whatever its limit."""
    return replace(guard, limit=0.0)


def _capacities(text: str) -> tuple[Capacity, ...]:
    return capacities_in(text) if text else ()
