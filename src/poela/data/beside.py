"""What is known of the cases of a log beside its table, what was done in them, and the order in which they end."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from poela.core.arrays import IntArray
from poela.core.draws import text_of
from poela.core.errors import InputError
from poela.core.forward import forward
from poela.core.readable import share_in_words
from poela.data.layout import LogLayout
from poela.data.opening import open_source
from poela.data.order import Order, sortable_steps
from poela.data.receipts import is_receipts
from poela.data.rows import RowProblems
from poela.data.sources import TableSource
from poela.data.trajectories import Trajectories
from poela.data.words import bad_log, counted, quoted

# What was done, where a policy only recommends; and episodes in the order in which they end.


def hiding(source: TableSource, columns: Sequence[str]) -> TableSource:
    """The same table without some columns, which are no part of the context."""
    names = set(columns)
    schema = source.schema
    for name in names & set(schema.names):
        schema = schema.remove(schema.get_field_index(name))
    again = source.reopened
    return replace(source, schema=schema, reopened=None if again is None else lambda: hiding(again(), columns))


def opened_with(source: Any, layout: LogLayout, columns: Sequence[str]) -> TableSource:
    """The table, in which these columns must be."""
    opened = open_source(source, layout, (*layout.label_columns, *columns), layout.time_columns)
    if missing := [name for name in columns if name not in opened.names]:
        raise InputError(f"there is no column {quoted(missing)}: check its name")
    return opened


def with_done(logs: Trajectories, source: TableSource, order: Order, done: str) -> Trajectories:
    """The logs with what was done as actions, and propensities of that.

    Where all was done as recommended, propensities stay what they were; else the probability that a recommendation is
    followed is estimated, cross-fitted, and the logs are marked as `estimated`.
    """
    if logs.all_propensities is None:
        raise InputError("done= needs the probabilities of every recommended action: columns propensity_<action>")
    code_of = {text_of(name): code for code, name in enumerate(logs.action_names)}
    values = [None if value is None else text_of(value) for value in source.read(done).to_pylist()]
    codes = np.array([code_of.get(value, -1) if value is not None else -1 for value in values], np.int64)
    if bad := int((codes < 0).sum()):
        raise InputError(f"column {quoted(done)} is missing, or no known action, in {counted(bad, 'row')}: fill it in")
    acted: IntArray = order.place(codes)
    followed = float((acted == logs.actions).mean())
    note = f"{share_in_words(followed)} of {logs.n_steps:,} recommendations were followed"
    advised = replace(logs, recommended=logs.actions)
    if followed == 1:
        return replace(advised, notes=(*logs.notes, note))
    chances = forward("propensities_of_done")(advised, acted)
    note += ": weights are those of what was done, by estimated probabilities of being followed"
    return replace(
        advised,
        actions=acted,
        propensities=chances,
        estimated=True,
        notes=(*logs.notes, note),
    )


def by_end(logs: Trajectories, source: TableSource, order: Order, ended: str) -> Trajectories:
    """The episodes in the order in which they end, by the latest time in this column."""
    problems = RowProblems()
    times = sortable_steps(source.read(ended), ended, problems, source.decimal)
    if times is None:
        raise bad_log(problems.sentences())
    latest = np.maximum.reduceat(order.place(times), logs.offsets[:-1])
    return logs.take(np.argsort(latest, kind="stable"))


@dataclass(frozen=True)
class Beside:
    """What else is known of the cases of a log: outcomes in a table of their own, what was done, when cases ended."""

    outcomes: Any = None
    done: str | None = None
    ended: str | None = None
    logged_by: Any = None
    shared: bool = False  # whether other folders of receipts have their outcomes in the same table

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the log that are no part of its layout."""
        return tuple(name for name in (self.done, self.ended) if name is not None)

    def of(self, source: Any) -> "Beside":
        """For one log of several: a folder of receipts has what is named here, a table has it all by itself."""
        return self if is_receipts(source) else Beside(logged_by=self.logged_by)

    def among(self, sources: Sequence[Any]) -> "Beside":
        """For these logs; refuses what is said about receipts where none of them are receipts."""
        said = [name for name in ("outcomes", "done", "ended") if getattr(self, name) is not None]
        if said and not any(map(is_receipts, sources)):
            raise InputError(
                f"{' and '.join(said)} {'go' if len(said) > 1 else 'goes'} with a folder of receipts, and none of "
                "these logs is one: name the folder of --receipts"
            )
        return replace(self, shared=sum(map(is_receipts, sources)) > 1)
