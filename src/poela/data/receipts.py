"""Receipts: what was decided, written down when it was decided, to be joined with what came of it.

A folder of small Parquet files, each written whole and never changed: whoever is killed loses at most what nobody was
told yet. Columns are those of decisions, so that cases are read as a log is, and the time of each decision.
"""

import itertools
import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from poela.core.draws import text_of
from poela.core.errors import InputError
from poela.core.files import atomic_file, make_private, refuse_foreign, write_json
from poela.core.paths import folder_at, is_there, place, refuse_inside_ours
from poela.core.storage import read_json
from poela.data.decided import ACTION, CASE, DEFER, POLICY
from poela.data.layout import PREFIX, STEP
from poela.data.schema import TableSchema
from poela.data.words import quoted

if TYPE_CHECKING:
    import pyarrow as pa

MARK, FORMAT, VERSION = "poela-receipts.json", "poela-receipts", 1
TIME = "decided_at"
_NUMBERS = itertools.count()  # of the files that this process writes
NO_RECEIPTS = "receipts hold actions of a finite set: real-valued decisions are the log themselves"
KEYS = b"poela.receipts"  # beside the columns: which of them names the case, which the step, and which are context


@dataclass(frozen=True)
class ReceiptKeys:
    """The parts that columns of receipts play."""

    case: str
    step: str | None
    context: tuple[str, ...]

    def metadata(self) -> dict[bytes, bytes]:
        """What is noted beside the columns."""
        return {KEYS: json.dumps({"case": self.case, "step": self.step, "context": list(self.context)}).encode()}

    @classmethod
    def noted(cls, metadata: dict[bytes, bytes] | None) -> "ReceiptKeys | None":
        """What was noted beside the columns; None where nothing was, or something else."""
        try:
            known = json.loads((metadata or {})[KEYS])
            return cls(str(known["case"]), known["step"], tuple(map(str, known["context"])))
        except (KeyError, TypeError, ValueError):
            return None


@dataclass(frozen=True)
class Receipts:
    """A folder that receipts are appended to."""

    folder: Path
    _last: list[int] = field(default_factory=list, compare=False)  # the moment of the last part, once it is known

    @classmethod
    def to_append(cls, path: Any) -> "Receipts":
        """The folder, made where there is none; refuses a place that is somebody else's."""
        folder = folder_at(path, "receipts")
        refuse_inside_ours(folder, "receipts")
        refuse_foreign(folder, (MARK,), "receipts")
        make_private(folder)
        if not is_there(folder / MARK):
            write_json(folder / MARK, {"format": FORMAT, "format_version": VERSION})
        _refuse_other_version(folder)
        return cls(folder)

    @contextmanager
    def appending(self, schema: "pa.Schema") -> "Iterator[Any]":
        """A writer of one more file: when the block ends well, its rows outlast a crash; else there are none."""
        from pyarrow.parquet import ParquetWriter

        name = f"part-{self._moment():020d}-{os.getpid()}-{next(_NUMBERS):06d}.parquet"
        with atomic_file(self.folder / name, replacing=False) as temporary, ParquetWriter(temporary, schema) as writer:
            yield writer

    def _moment(self) -> int:
        """Now, in nanoseconds, but after all that was there: a clock may be put back, and the order must stay."""
        if not self._last:  # asked once: folders of receipts grow large
            known = [name.split("-")[1] for name in os.listdir(self.folder) if _is_part(name)]
            self._last.append(max((int(text) for text in known if text.isdecimal()), default=0))
        self._last[0] = max(time.time_ns(), self._last[0] + 1)
        return self._last[0]

    def append(self, table: "pa.Table") -> None:
        """Write these rows as one more file; when this returns, they outlast a crash."""
        with self.appending(table.schema) as writer:
            writer.write_table(table)


@dataclass(frozen=True, eq=False)
class ReceiptForm:
    """How the decisions of a policy become receipts."""

    keys: ReceiptKeys
    actions: tuple[Any, ...]
    _seen: Counter[str] = field(default_factory=Counter)  # rows of each case so far, where its steps are not named

    @classmethod
    def of_policy(cls, policy: Any, case: str | None = None) -> "ReceiptForm":
        """The form for a policy; `case` names the column of cases where it is not the episode's."""
        if not hasattr(policy, "eligibility"):
            raise InputError(NO_RECEIPTS)
        return cls(keys_for(policy.table_schema, case), policy.action_names)

    def of_decisions(self, decided: "pa.Table") -> "pa.Table":
        """Receipts of decisions about the rows of a table, whose cases have names."""
        case, step = self.keys.case, self.keys.step
        if case not in decided.column_names:
            raise InputError("receipts need a name for each case, to find its outcome: name its column with case=")
        named: dict[str, Sequence[Any]] = {}
        if step is not None and step not in decided.column_names:
            places = []
            for name in map(text_of, decided[case].to_pylist()):
                places.append(self._seen[name])
                self._seen[name] += 1
            named[step] = places
        return receipts_of(decided, self.keys, self.actions, named)


def is_receipts(source: Any) -> bool:
    """Whether this is the folder of receipts."""
    return isinstance(source, str | os.PathLike) and os.path.isdir(source) and is_there(Path(source) / MARK)


def keys_for(schema: TableSchema, case: str | None = None) -> ReceiptKeys:
    """The columns of receipts under a policy with this schema; `case` names cases where it is not the episode's."""
    own = schema.episode or case or CASE
    step = None if schema.episode is None else schema.step or STEP
    clashes = [name for name in (own, step, *schema.columns) if name in (TIME, ACTION, DEFER, POLICY)]
    if clashes:
        raise InputError(f"column {quoted(clashes)} is called as a column of receipts: rename it")
    return ReceiptKeys(own, step, schema.columns)


def receipts_of(
    decided: "pa.Table", keys: ReceiptKeys, actions: Sequence[Any], named: Mapping[str, Sequence[Any]]
) -> "pa.Table":
    """Decisions as receipts: what a log needs, the policy's hash and the time; `named` are columns they do not have."""
    import pyarrow as pa

    columns: dict[str, Any] = {name: pa.array(values) for name, values in named.items()}
    chances = [f"{PREFIX}{name}" for name in actions]
    kept = dict.fromkeys((keys.case, keys.step, *keys.context, ACTION, *chances, DEFER, POLICY))
    there = set(decided.column_names) - set(columns)
    columns |= {name: decided[name] for name in kept if name is not None and name in there}
    columns[TIME] = pa.repeat(pa.scalar(datetime.now(UTC), pa.timestamp("us", "UTC")), decided.num_rows)
    metadata = {key: value for key, value in (decided.schema.metadata or {}).items() if key.startswith(b"poela.")}
    return pa.table(columns, metadata={**metadata, **keys.metadata()})


@dataclass(frozen=True)
class ReceiptsOf(os.PathLike[str]):
    """The receipts of one policy in a folder in which others wrote, too."""

    folder: Any
    policy: str  # its hash, as the receipts have it
    told: frozenset[str] = frozenset()  # other policies whose receipts are no surprise

    def __fspath__(self) -> str:
        return str(os.fspath(self.folder))


@dataclass(frozen=True, eq=False)
class ReadReceipts:
    """Receipts in the order in which they were written, and what was not taken."""

    table: "pa.Table"
    keys: ReceiptKeys
    notes: tuple[str, ...]


def read_receipts(path: Any) -> ReadReceipts:
    """All receipts in a folder, or those of one policy (`ReceiptsOf`); damaged parts are left out and named."""
    import pyarrow as pa

    from poela.data.opening import explain_read_errors

    folder = Path(path)
    tables, damaged = _parts(folder)
    counts = _by_policy(tables)
    notes = [_damaged_in_words(damaged)] if damaged else []
    if isinstance(path, ReceiptsOf):
        tables, said = _of_policy(path, tables, counts)
        notes += said
    elif len(counts) > 1:
        notes.append(f"receipts of {len(counts)} policies are taken together: {_counts_in_words(counts)}")
    keys = {ReceiptKeys.noted(table.schema.metadata) for table in tables}
    if len(keys) != 1 or (own := keys.pop()) is None:
        raise InputError(
            f"{place(folder)} holds receipts of policies with other columns: keep those of each study in a folder of "
            "its own"
        )
    with explain_read_errors(folder):
        whole = pa.concat_tables(tables, promote_options="permissive")
    return ReadReceipts(whole, own, tuple(notes))


def policies_in(path: Any) -> Counter[str]:
    """How many receipts of each policy a folder has, by the hashes of these."""
    return _by_policy(_parts(Path(path))[0])


def _parts(folder: Path) -> tuple[list["pa.Table"], list[str]]:
    """The tables of all parts that can be read, and the names of those that cannot."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from poela.data.opening import explain_read_errors

    _refuse_other_version(folder)
    names = sorted(filter(_is_part, os.listdir(folder)))
    if not names:
        raise InputError(f"{place(folder)} holds no receipts yet: decide with --receipts first")
    tables, damaged = [], []
    for name in names:
        with explain_read_errors(folder / name):  # which tells of files that are there, and that one may not read
            try:
                tables.append(pq.read_table(folder / name))
            except (pa.ArrowInvalid, pa.ArrowSerializationError, EOFError):
                damaged.append(name)
            except OSError as error:
                if error.errno is not None:
                    raise
                damaged.append(name)  # Arrow's word for bytes that are no Parquet
    if not tables:
        raise InputError(f"nothing in {place(folder)} can be read: {_damaged_in_words(damaged)}")
    return tables, damaged


def _damaged_in_words(names: Sequence[str]) -> str:
    some = f"{', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}"
    if len(names) == 1:
        return f"1 part of the receipts is damaged, and its decisions are left out ({some}): restore it from a backup"
    parts = f"{len(names)} parts of the receipts are damaged"
    return f"{parts}, and their decisions are left out ({some}): restore them from a backup"


def _by_policy(tables: "Sequence[pa.Table]") -> Counter[str]:
    return Counter(name for table in tables for name in _policies(table))


def _policies(table: "pa.Table") -> list[str]:
    return [str(name) for name in table[POLICY].to_pylist()] if POLICY in table.column_names else []


def _of_policy(
    path: ReceiptsOf, tables: "Sequence[pa.Table]", counts: Mapping[str, int]
) -> tuple[list["pa.Table"], list[str]]:
    """The receipts of the policy, and what is said of others'."""
    import pyarrow as pa

    taken = []
    for table in tables:
        own = np.array([name == path.policy for name in _policies(table)], bool)
        if own.any():
            taken.append(table if own.all() else table.filter(pa.array(own)))
    if not taken:
        raise InputError(
            f"{place(Path(path))} has no receipts of this policy ({path.policy}), but {_counts_in_words(counts)}: name "
            "the study that made them"
        )
    total = sum(counts.values())
    others = {name: n for name, n in counts.items() if name != path.policy and name not in path.told}
    return taken, [f"{n:,} of {total:,} receipts are of policy {name}: left out" for name, n in others.items()]


def _counts_in_words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n:,} of {name}" for name, n in counts.items())


def _is_part(name: str) -> bool:
    return name.startswith("part-") and name.endswith(".parquet")


def _refuse_other_version(folder: Path) -> None:
    known = read_json(folder / MARK)
    version = known.get("format_version") if isinstance(known, dict) and known.get("format") == FORMAT else None
    if version != VERSION:
        raise InputError(f"{place(folder)} holds no receipts that this poela reads: choose another folder")
