"""The columns of decisions: what stands beside each case, and what of it is no context when they are the next log."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from poela.data.words import quoted

if TYPE_CHECKING:
    from poela.data.layout import LogLayout

ROW, CASE, ACTION, DEFER, POLICY = "row", "case", "action", "defer", "policy"
ABOUT = ("distance", "in_range", "eligible", "barred", "similar", "outcome", "note")  # after what a log needs
SPREAD = "_spread"  # of a real-valued action, after its name


def not_context(columns: Sequence[str], actions: Sequence[str]) -> tuple[str, ...]:
    """The columns of a table of decisions that are no features of a case; none where it is another table.

    How many similar cases were given the drawn action, for instance, would tell that action.

    >>> not_context(["age", "action", "propensity_wait", "defer", "policy", "similar", "reward"], ["action"])
    ('defer', 'policy', 'similar')
    >>> not_context(["age", "action", "policy", "reward"], ["action"])
    ()
    """
    drawn = any(name.startswith("propensity_") or name == "log_density" for name in columns)
    if not drawn or not {DEFER, POLICY} <= set(columns):
        return ()
    own = {ROW, CASE, DEFER, POLICY, *ABOUT, *(f"{name}{SPREAD}" for name in actions)}
    return tuple(name for name in dict.fromkeys(columns) if name in own)


def notes_of_decisions(columns: Sequence[str], actions: Sequence[str]) -> tuple[str, ...]:
    """What is said of them when such a table is read as a log."""
    own = not_context(columns, actions)
    return (f"columns {quoted(own)} belong to decisions, not to the context: left out",) if own else ()


def of_decisions(layout: "LogLayout", columns: Sequence[str]) -> "LogLayout":
    """A layout that fits a table of decisions, where its own names of action, propensities or cluster are not there.

    Decisions call the action `action` and give every propensity, whatever the first log called them.

    >>> from poela.data.layout import LogLayout
    >>> decided = ["age", "action", "propensity_wait", "propensity_treat", "defer", "policy", "alive"]
    >>> found = of_decisions(LogLayout(action="treatment", propensity="p", reward="alive", cluster="patient"), decided)
    >>> found.action, found.propensity, found.cluster
    ('action', ('propensity_wait', 'propensity_treat'), None)
    """
    if not isinstance(layout.action, str) or not not_context(columns, [ACTION]):
        return layout
    there, drawn = set(columns), tuple(name for name in columns if name.startswith("propensity_"))
    changed: dict[str, Any] = {}
    if layout.action not in there and ACTION in there:
        changed["action"] = ACTION
    named = (layout.propensity,) if isinstance(layout.propensity, str) else layout.propensity or ()
    if drawn and named and not set(named) <= there:
        changed["propensity"] = drawn
    if layout.cluster is not None and layout.cluster not in there:
        changed["cluster"] = None
    return replace(layout, **changed) if changed else layout
