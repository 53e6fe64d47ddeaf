"""Which propensity column is of which action: told by their names, or said; never by their order."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from poela.core.errors import InputError
from poela.data.words import quoted

if TYPE_CHECKING:
    from poela.data.action_space import ActionName
    from poela.data.layout import LogLayout


def columns_by_name(columns: Sequence[str], actions: "Sequence[ActionName]") -> tuple[str, ...] | None:
    """The columns in the order of the actions that their names end in, or hold between the same two texts.

    None where the names do not tell, or tell it in two ways. Capital letters count only where they must.

    >>> columns_by_name(["p_wait", "p_treat"], ["treat", "wait"]), columns_by_name(["p_1", "p_0"], [0, 1])
    (('p_treat', 'p_wait'), ('p_0', 'p_1'))
    >>> columns_by_name(["p_1", "p_2"], ["treat", "wait"])
    """
    names = [str(name) for name in actions]
    if not names or len(columns) != len(names):
        return None
    exact = _matched(columns, names)
    if exact is not None:
        return exact
    small = _matched([column.lower() for column in columns], [name.lower() for name in names])
    column_of = {column.lower(): column for column in columns}
    return None if small is None else tuple(column_of[column] for column in small)


def _matched(columns: Sequence[str], names: Sequence[str]) -> tuple[str, ...] | None:
    """The columns prefix + name + suffix, if one prefix and one suffix do for all names."""
    there, known, first = set(columns), set(names), columns[0]
    if len(there) < len(columns) or len(known) < len(names):
        return None
    orders = set()
    for start in range(len(first)):
        for end in range(start + 1, len(first) + 1):
            if first[start:end] in known:
                order = tuple(f"{first[:start]}{name}{first[end:]}" for name in names)
                orders |= {order} if there.issuperset(order) else set()
    return orders.pop() if len(orders) == 1 else None


def paired(layout: "LogLayout", actions: "Sequence[ActionName]") -> "tuple[LogLayout, list[str]]":
    """The layout with its propensity columns in the order of the actions, and what keeps them from being paired.

    Columns whose names do not tell are taken in the order of the actions that the layout itself declares.
    """
    columns = layout.propensity
    if not actions or not isinstance(columns, tuple):
        return layout, []
    if len(actions) != len(columns):
        return layout, [
            f"{len(columns)} propensity columns stand for {len(actions)} actions: "
            "declare the actions, or give a column for each"
        ]
    odd = [column for column, name in zip(columns, actions, strict=True) if type(name) is not type(actions[0])]
    if odd:
        return layout, [f"{quoted(odd)} name no action: say with propensity= which columns to use"]
    ordered = columns_by_name(columns, actions)
    if ordered is None:
        declared = layout.actions is not None or layout.labels_of_propensities() is not None
        return layout, [] if declared else [unpaired(columns)]
    return replace(layout, propensity=ordered), []


def unpaired(columns: Sequence[str]) -> str:
    """That names of columns do not tell their actions, and how to say it; actions, which are cells, are not quoted."""
    example = ",".join(f"<action>={column}" for column in columns[:2])
    return (
        f"the names of the propensity columns {quoted(columns)} do not tell which action each is for: call them "
        f"propensity_<action>, or say it with propensity= (on the command line {example}; in Python or TOML a mapping "
        "from actions to columns)"
    )


def refuse_contradiction(columns: Sequence[str], actions: "Sequence[ActionName]") -> None:
    """Refuse a mapping from actions to columns whose names say another one."""
    ordered = columns_by_name(columns, actions)
    if ordered is not None and ordered != tuple(columns):
        raise InputError(
            f"propensity= pairs actions with columns, and the names of {quoted(columns)} say another pairing: correct "
            "it, or rename the columns"
        )


def refuse_unpaired(columns: "str | tuple[str, ...] | None", actions: "Sequence[ActionName] | None") -> None:
    """Refuse columns, where they are several, whose names do not tell which of these actions each is for."""
    several = isinstance(columns, tuple) and actions is not None and len(columns) == len(actions)
    if several and columns_by_name(columns or (), actions or ()) is None:
        raise InputError(unpaired(columns or ()))
