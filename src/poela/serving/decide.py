"""Decisions from a file of rows to a file of decisions, part by part, so that memory stays bounded."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from poela.core.errors import InputError
from poela.core.files import atomic_file
from poela.core.paths import is_there, output_file, place, regular_file
from poela.core.readable import readable
from poela.data.decided import CASE
from poela.data.layout import LogLayout
from poela.data.receipts import ReceiptForm, Receipts
from poela.data.spreadsheets import harmless
from poela.data.words import quoted
from poela.policies.allotting import BatchLimits
from poela.policies.deciding import ALLOTTED, Deciding, decided_parts
from poela.policies.decision_cells import LEFT
from poela.studies.allotment import JudgedAllotment, allotment, refuse_unshown_allotment

if TYPE_CHECKING:
    import pyarrow as pa

    from poela.policies.gaussian import RealPolicy
    from poela.policies.ruled import RuledPolicy


@dataclass(frozen=True)
class Decided:
    """What was decided, counted."""

    rows: int
    deferred: int
    actions: dict[str, int]
    noted: int  # rows with a word about gaps, new categories or deferring
    means: dict[str, float] = field(default_factory=dict)  # of real-valued actions
    policy: str = ""  # its hash, as it stands beside each decision
    numbered: bool = False  # whether rows are known by their numbers alone
    left: dict[str, int] = field(default_factory=dict)  # by what is barred: rows whose choice is left to people

    def __str__(self) -> str:
        acts = ", ".join(f"{name} {count:,}" for name, count in self.actions.items())
        acts += ", ".join(f"{name} {readable(mean)} on average" for name, mean in self.means.items())
        why = f"unlike any logged case or no action is allowed{' or left' * self.policy.endswith(ALLOTTED)}"
        deferred = f"; {self.deferred:,} deferred, since they are {why}" if self.deferred else ""
        left = f"; {sum(self.left.values()):,} left to those who decide" if self.left else ""
        return f"{self.rows:,} rows: {acts or 'no action'}{deferred}{left}"

    def to_json(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def decide_file(
    policy: "RuledPolicy | RealPolicy",
    rows: str | PathLike[str],
    out: str | PathLike[str],
    how: Deciding,
    layout: LogLayout | None = None,
    overwrite: bool = False,
    receipts: str | PathLike[str] | None = None,
) -> Decided:
    """Write a decision for each row of a file, as CSV or Parquet, whole or not at all; the same to receipts, if asked.

    Receipts are there before the decisions are: what somebody may have acted on is written down.
    """
    path = file_for_decisions(out, overwrite)
    if is_there(path) and path.samefile(regular_file(rows)):
        raise InputError(f"{place(path)} is the table of rows itself: choose another file for the decisions")
    count, deferred, noted = 0, 0, 0
    actions, left = Counter[str](), Counter[str]()
    amounts: list[Any] = []
    parts = decided_parts(policy, rows, how, layout)
    first = next(parts)  # what is wrong with the rows shows before anything is written
    with (
        atomic_file(path, replacing=overwrite) as temporary,
        _receipts(receipts, policy, how, first) as note_receipts,
        _writer(path, temporary, first.schema) as writer,
    ):
        for part in _with(first, parts):
            writer.write_table(part.cast(first.schema))
            note_receipts(part.cast(first.schema))
            count += part.num_rows
            own = _left_in(part) if how.leave else Counter[str]()
            left += own
            deferred += part["defer"].to_numpy().sum() - own.total()
            noted += sum(note not in (None, LEFT) for note in part["note"].to_pylist())
            if policy.real_valued:
                amounts.append(np.stack([part[str(name)].to_numpy() for name in policy.action_names], axis=1))
                continue
            for entry in part["action"].value_counts().to_pylist():
                actions[str(entry["values"])] += entry["counts"] if entry["values"] is not None else 0
    taken = {str(name): actions[str(name)] for name in policy.action_names if actions[str(name)]}
    means = {}
    if amounts and deferred < count:
        found = np.nanmean(np.concatenate(amounts), axis=0).tolist()
        means = dict(zip(map(str, policy.action_names), found, strict=True))
    # A column of row numbers alone does not tell: a case may be named and have several rows.
    numbered = not {how.case, policy.table_schema.episode, CASE} & set(first.column_names)
    return Decided(count, int(deferred), taken, noted, means, how.name_of(policy), numbered, dict(left))


def _left_in(part: "pa.Table") -> Counter[str]:
    """How many rows are left to those who decide, by what is barred there."""
    rows = zip(part["barred"].to_pylist(), part["note"].to_pylist(), strict=True)
    return Counter(barred for barred, note in rows if note is not None and note.startswith(LEFT))


def batch_of(
    directory: Path,
    rows: str | PathLike[str],
    how: Deciding,
    limits: BatchLimits,
    layout: LogLayout | None,
    unproven: bool,
) -> tuple[Deciding, JudgedAllotment]:
    """How the cases of a file are allotted within limits, and what is known of it; refused if nothing is shown."""
    from poela.studies.outcomes import read_outcomes
    from poela.studies.study import Study

    if not is_there(directory / "study.json"):
        raise InputError(f"{place(directory)} is no study: a batch is allotted by what a study has judged")
    study = Study.open(directory)
    if how.likeliest:
        raise InputError("a batch is allotted, or each case gets its likeliest action: say one of them")
    how, known = allotment(study, rows, replace(how, outcomes=read_outcomes(directory)), limits, layout)
    if not unproven:
        refuse_unshown_allotment(known, "--unproven")
    return how, known


def file_for_decisions(out: str | PathLike[str], overwrite: bool) -> Path:
    """The path of decisions to be written; refuses what is no place for them, or already somebody's file."""
    return output_file(out, "decisions", overwrite=overwrite, endings=(".parquet", ".csv"))


@contextmanager
def _receipts(
    folder: str | PathLike[str] | None, policy: Any, how: Deciding, first: "pa.Table"
) -> "Iterator[Callable[[pa.Table], None]]":
    """What writes receipts of decisions; nothing where none are asked for."""
    if folder is None:
        yield lambda part: None
        return
    form = ReceiptForm.of_policy(policy, how.case)
    schema = ReceiptForm.of_policy(policy, how.case).of_decisions(first.slice(0, 1)).schema
    with Receipts.to_append(folder).appending(schema) as writer:
        yield lambda part: writer.write_table(form.of_decisions(part).cast(schema))


@dataclass(frozen=True)
class _HarmlessWriter:
    """Writes tables whose texts no spreadsheet runs."""

    writer: Any

    def write_table(self, table: "pa.Table") -> None:
        """One more part."""
        writer = self.writer
        writer.write_table(harmless(table))


@contextmanager
def _writer(path: Path, temporary: Path, schema: "pa.Schema") -> Iterator[Any]:
    import pyarrow as pa

    nested = [field.name for field in schema if pa.types.is_nested(field.type)]
    if nested:
        raise InputError(f"column {quoted(nested)} holds lists or objects, which cannot be kept: leave it out")
    if path.suffix == ".csv":
        from pyarrow.csv import CSVWriter

        with CSVWriter(temporary, harmless(schema.empty_table()).schema) as writer:
            yield _HarmlessWriter(writer)
    else:
        from pyarrow.parquet import ParquetWriter

        with ParquetWriter(temporary, schema) as writer:
            yield writer


def _with(first: "pa.Table", rest: "Iterator[pa.Table]") -> "Iterator[pa.Table]":
    yield first
    yield from rest
