"""The columns of decisions: what stands beside each case, and what of it is no context when they are the next log."""

from collections.abc import Sequence

from poela.data.words import quoted

ROW, CASE, ACTION, DEFER, POLICY = "row", "case", "action", "defer", "policy"
ABOUT = ("distance", "in_range", "eligible", "similar", "outcome", "note")  # after what a log needs
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
