"""Rows that wait for a decision: read by the schema of a policy, columns found by name, episodes put in order."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.draws import Key, text_of
from poela.core.errors import InputError
from poela.core.interruption import safe_point
from poela.core.paths import regular_file
from poela.data.action_space import ActionName
from poela.data.actions import name_actions
from poela.data.context_columns import Contexts, contexts_of, strict_columns, variables_of
from poela.data.csv_files import stream_csv
from poela.data.decided import CASE
from poela.data.header import is_header
from poela.data.layout import PREFIX, LogLayout
from poela.data.layout_problems import absent
from poela.data.limited_rows import rows_within
from poela.data.numbers import read_contexts, read_propensities
from poela.data.opening import explain_read_errors, kind_of_file, open_source
from poela.data.order import Order
from poela.data.rows import RowProblems
from poela.data.schema import TableSchema
from poela.data.sources import BATCH_ROWS, TableSource, from_table
from poela.data.tables import labels_in, ordered
from poela.data.words import bad_log, quoted

if TYPE_CHECKING:
    import pyarrow as pa

PART_ROWS = 8 * BATCH_ROWS  # as many as networks look at in one go, so that parts change no bit


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a table, or of a part of it, in the order of episodes and steps."""

    contexts: Contexts
    actions: IntArray  # what was done, −1 where that is not said
    order: Order
    copied: "pa.Table"  # columns that go into the result, in the order of the file
    is_named: bool  # whether these tell every row apart
    propensities: FloatArray | None = None  # of every action [N, A], where the policy builds on them
    case: str | None = None  # the copied column whose values name cases, if any

    @property
    def n(self) -> int:
        """How many there are."""
        return int(self.order.offsets[-1])

    @property
    def incomplete(self) -> BoolArray:
        """By row of the file: whether steps of its episode before it are missing, which the log always had."""
        return self.order.in_file(self.order.off(self.contexts.schema.pace))

    def keys(self, start: int, seen: "Counter[str]") -> Iterator[Key]:
        """By row of the file: the case and its step, or how many rows of the case came before.

        Without names of cases a row is known by its number; `start` rows came before, and `seen` counts their cases.
        """
        if self.case is None:
            yield from ((str(row), "0") for row in range(start + 1, start + self.n + 1))
            return
        step, cases = self.contexts.schema.step, map(text_of, self.copied[self.case].to_pylist())
        if step in self.copied.column_names and step is not None:
            yield from zip(cases, map(text_of, self.copied[step].to_pylist()), strict=True)
            return
        for case in cases:
            yield case, str(seen[case])
            seen[case] += 1


@dataclass(frozen=True)
class RowRequirements:
    """How a policy wants its rows: by which schema, whether episodes are followed, what else is kept."""

    schema: TableSchema
    action_names: tuple[ActionName, ...]
    needs: str = "context"  # "context", "step" or "history": what a decision looks at
    keep: tuple[str, ...] = ()
    builds_on_propensities: bool = False  # those that each case brings
    case: str | None = None  # the column that names cases; None: that of the episode, or one that is called "case"
    beside: tuple[str, ...] = ()  # columns of the context that are kept, too

    def case_in(self, there: Sequence[str]) -> str | None:
        """The column that names cases, in a table with these columns."""
        if self.case is not None or self.schema.episode in there:
            return self.case or self.schema.episode
        return CASE if CASE in there and CASE not in self.schema.columns else None

    @property
    def propensities(self) -> tuple[str, ...]:
        """The columns of propensities that are read."""
        return tuple(f"{PREFIX}{name}" for name in self.action_names) if self.builds_on_propensities else ()

    @property
    def follows(self) -> bool:
        """Whether rows of one episode must be looked at together."""
        return self.schema.episode is not None and (self.needs != "context" or self.schema.follows_episodes)

    @property
    def layout(self) -> LogLayout:
        """How the table is read."""
        keys = {"episode": self.schema.episode, "step": self.schema.step if self.schema.step is not None else "rows"}
        if self.schema.episode is None:
            keys = {"episode": None, "step": None}
        named = {"context": self.schema.context, "actions": self.action_names, "schema": self.schema}
        return LogLayout(**keys, action=self.schema.action, propensity=self.propensities or None, **named)  # type: ignore[arg-type]

    def columns(self, there: Sequence[str]) -> list[str]:
        """The columns that are read, in a table with these columns."""
        keys = (self.schema.episode, self.schema.step, self.case_in(there))
        named = (*self.schema.columns, *(name for name in keys if name in there), *self.keep, *self.propensities)
        acted = (self.schema.action,) if self.needs == "history" and self.schema.action in there else ()
        return list(dict.fromkeys(name for name in (*named, *acted) if name is not None))

    def problems(self, there: Sequence[str]) -> list[str]:
        """Columns that are not there, and names of the table that the result needs for itself."""
        columns = there if is_header(there, self.schema.columns) else ()
        asked = (*self.schema.columns, *self.keep, *(() if self.case is None else (self.case,)))
        missing = [name for name in dict.fromkeys(asked) if name not in there]
        problems = [f"{absent(missing, columns)}: columns are found by name, so add or rename it"] if missing else []
        untold = [name for name in self.propensities if name not in there]
        if untold:
            problems.append(
                f"{absent(untold, columns)}: this policy changes what the logging policy would do, so give the logging "
                "policy's propensity of every action for each case"
            )
        keys = [name for name in (self.schema.episode, self.schema.step) if name is not None and name not in there]
        if self.follows and keys:
            problems.append(
                f"{absent(keys, columns)}: this policy looks at earlier decisions, so give the rows of episodes so far"
            )
        repeated = [name for name in dict.fromkeys(self.columns(there)) if list(there).count(name) > 1]
        return [*problems, *([f"column {quoted(repeated)} occurs several times: rename it"] if repeated else [])]


def parts_to_decide(source: Any, wanted: RowRequirements, layout: LogLayout) -> Iterator[Rows]:
    """The rows of a table: in parts of bounded size or, where episodes are followed, all at once.

    Everything that is wrong, in whatever part, is reported in one error. `layout` says how a CSV file is written.
    """
    row_problems, sound = RowProblems(), True
    with explain_read_errors(source):
        for part in _parts(source, wanted, layout):
            problems = wanted.problems(part.names)
            if problems:
                raise bad_log(problems)
            if not part.n_rows:
                continue
            rows = _rows(part, wanted, row_problems)
            sound = sound and not row_problems
            row_problems.before += part.n_rows
            if sound:
                yield rows
    if row_problems:
        raise bad_log(row_problems.sentences())
    if not row_problems.before:
        raise InputError("there are no rows: give one for each decision")


def _parts(source: Any, wanted: RowRequirements, layout: LogLayout) -> Iterator[TableSource]:
    import pyarrow as pa

    is_path = isinstance(source, str | os.PathLike)
    kind = kind_of_file(regular_file(source)) if is_path else ""
    if kind == "CSV" and not wanted.follows:
        try:
            yield from _csv_parts(Path(source), wanted, layout)
            return
        except pa.ArrowCancelled:
            raise  # an interruption: nothing is wrong with the file
        except pa.ArrowException:
            pass  # what is wrong shows when all of the file is looked at
    how = {"separator": layout.separator, "decimal": layout.decimal, "encoding": layout.encoding}
    schema = wanted.layout
    described = LogLayout(schema.episode, schema.step, action=schema.action, schema=schema.schema, **how)  # type: ignore[arg-type]
    opened = open_source(source, described, described.label_columns)
    if wanted.follows or opened.n_rows <= PART_ROWS or wanted.problems(opened.names):
        yield opened
        return
    yield from (from_table(table, opened.decimal) for table in in_parts(opened.batches(wanted.columns(opened.names))))


def _csv_parts(path: Path, wanted: RowRequirements, layout: LogLayout) -> Iterator[TableSource]:
    import pyarrow as pa

    types = {v.name: pa.float64() for v in wanted.schema.variables if v.kind == "number"}
    types |= {v.name: pa.string() for v in wanted.schema.variables if v.categories}
    types |= {v.name: pa.string() for v in wanted.schema.asked if v.categories and v.name not in types}
    types |= {v.name: pa.float64() for v in wanted.schema.asked if v.kind == "number"}
    keys = (wanted.schema.episode, wanted.schema.step, wanted.schema.action, wanted.case or CASE, *wanted.keep)
    types |= {name: pa.float64() for name in wanted.propensities}
    types |= {name: pa.string() for name in keys if name is not None and name not in types}
    types |= _step_in_csv(path, wanted, layout)
    names, batches, decimal = stream_csv(path, layout, wanted.columns, types)
    if wanted.problems(names):
        yield from_table(pa.table({name: [] for name in names}))
        return
    yield from (from_table(table, decimal) for table in in_parts(batches))


def _step_in_csv(path: Path, wanted: RowRequirements, layout: LogLayout) -> "dict[str, pa.DataType]":
    """The type of the column of steps, if all are numbers: files of other kinds hold numbers there, too.

    A draw is by the step, and 0.0 is the step 0. All of the column is looked at, since all parts have one type.
    """
    import pyarrow as pa

    step = wanted.schema.step
    if step is None or step in (wanted.case, *wanted.keep):
        return {}
    for kind in (pa.int64(), pa.float64()):
        try:
            names, batches, _ = stream_csv(path, layout, lambda there: [step], {step: kind})
            if names.count(step) != 1:
                return {}
            for _ in batches:
                safe_point()
        except pa.ArrowCancelled:
            raise
        except pa.ArrowException:
            continue
        return {step: kind}
    return {}


def in_parts(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.Table]":
    """The same rows in tables of `PART_ROWS` rows, the last one apart."""
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        safe_point()
        waiting.append(batch)
        count += len(batch)
        while count >= PART_ROWS:
            table = pa.Table.from_batches(waiting)
            yield table.slice(0, PART_ROWS)
            waiting = table.slice(PART_ROWS).to_batches()
            count -= PART_ROWS
    if count:
        yield pa.Table.from_batches(waiting)


def _rows(source: TableSource, wanted: RowRequirements, problems: RowProblems) -> Rows:
    import pyarrow as pa

    layout = wanted.layout
    n = source.n_rows
    alone = Order(None, np.arange(n + 1))
    order: Order | None = ordered(source, layout, problems)[1] if wanted.follows else alone
    usable = order if order is not None else alone  # to look at all columns, whatever is wrong with some
    variables = variables_of(source, layout, problems)
    plain = [variable.name for variable in variables if variable.kind == "number"]
    numbers = read_contexts(source, plain, strict_columns(layout), usable, problems)
    limited = rows_within(source, wanted.schema.limits, problems)
    if wanted.schema.limits is not None and limited is None:
        raise bad_log(problems.sentences())
    contexts = contexts_of(source, layout, variables, numbers, usable, problems, limited)
    actions = np.full(n, -1)
    if wanted.needs == "history" and wanted.follows and layout.action in source.names:
        labels = labels_in(source, layout.action, RowProblems(), is_action=True)
        actions = actions if labels is None else usable.place(name_actions(labels, source, layout, RowProblems())[0])
    if wanted.needs == "history" and wanted.follows:
        _note_unsaid(actions, usable, wanted, problems)
    keys = [name for name in (wanted.schema.episode, wanted.schema.step) if name in source.names and name is not None]
    case = wanted.case_in(source.names)
    named = (*keys, *(() if case is None else (case,)))
    kept = dict.fromkeys((*named, *wanted.keep, *wanted.beside))
    columns = {name: _writable(source.read(name)) for name in kept if name in source.names}
    listed = None if wanted.schema.limits is None else wanted.schema.limits.allowed
    columns |= {name: _as_text(column) for name, column in columns.items() if name == listed}
    own = read_propensities(source, layout, usable, problems) if wanted.propensities else None
    if case is not None:
        _note_nameless(columns[case], case, problems)
    is_named = len(keys) == 2 or case not in (None, wanted.schema.episode)
    return Rows(contexts, actions, usable, pa.table(columns), is_named, own, case)


def _writable(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """A column as files of any kind hold it: plain text instead of codes or views."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.string()) if pa.types.is_string_view(column.type) else column


def _as_text(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """Lists of allowed actions as files of any kind hold them."""
    import pyarrow as pa

    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        return column
    texts = [None if cell is None else ";".join(map(str, cell)) for cell in column.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.string())])


def _note_nameless(column: "pa.ChunkedArray", name: str, problems: RowProblems) -> None:
    """A draw belongs to its case, so each must have a name."""
    import pyarrow as pa
    import pyarrow.compute as pc

    nameless = column.is_null(nan_is_null=True)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        nameless = pc.or_kleene(nameless, pc.equal(column, ""))
    remedy = "name every case, since its action is drawn by its name"
    problems.note(pc.fill_null(nameless, True).to_numpy(), f"column {quoted(name)} is missing", remedy)


def _note_unsaid(actions: IntArray, order: Order, wanted: RowRequirements, problems: RowProblems) -> None:
    """Earlier decisions must be known, since the policy looks at them; the last one of an episode is to be made."""
    unsaid = actions < 0
    unsaid[order.offsets[1:] - 1] = False
    what = f"column {quoted(wanted.schema.action)} is missing, or no action that the policy knows,"
    problems.note(order.in_file(unsaid), what, "say what was done before the last row of each episode")


def has_columns(contexts: Any) -> bool:
    """Whether this is a table whose columns have names, rather than a matrix.

    >>> has_columns([[0.5]]), has_columns({"age": [0.5]})
    (False, True)
    """
    if isinstance(contexts, Mapping):
        return True
    return not isinstance(contexts, np.ndarray) and (hasattr(contexts, "columns") or hasattr(contexts, "column_names"))


def loose_contexts(table: Any, schema: TableSchema) -> Float32Array:
    """The contexts [N, d] of a table whose rows stand for themselves; columns are found by name."""
    if schema.episode is not None and schema.follows_episodes:
        raise InputError("features of this policy depend on earlier rows of an episode: use decide(table)")
    wanted = RowRequirements(schema, ())
    return np.concatenate([part.contexts.rows.contexts for part in parts_to_decide(table, wanted, LogLayout())])
