"""One run of an experiment: how much is done, from which seed, where results go, and what carries it out."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIG_DFL, SIGINT, signal
from typing import Any

from poela.core.files import write_json
from poela.core.progress import progress
from poela.core.storage import read_json
from poela.studies.options import Execution
from poela_experiments.frame.judging import compared
from poela_experiments.frame.kept import DIRECTORY, Part, code_version, kept, machine, part_file
from poela_experiments.frame.published import Number, PublishedTable
from poela_experiments.frame.results import Cell, Report, ResultTable, place_of
from poela_experiments.frame.settings import Size
from poela_experiments.frame.shards import Shard, ShardDone, join


@dataclass(frozen=True)
class Run:
    """What an experiment is given, and all that it needs: parts that are kept, studies, tables and the report."""

    experiment: str
    out: Path
    size: Size
    seed: int = 0
    execution: Execution = field(default_factory=Execution)  # nothing that numbers depend on
    shard: Shard | None = None  # None: every part is made here
    joined: Sequence[Path] = ()  # folders with the parts of all shards

    def __repr__(self) -> str:
        return f"Run({self.experiment!r}, {self.size!r}, seed={self.seed})"  # all that numbers depend on

    @property
    def command(self) -> str:
        """That makes the same again.

        >>> Run("demo", Path("out"), Size("quick", {})).command
        'poela reproduce demo --quick --seed 0'
        """
        return f"poela reproduce {self.experiment} --{self.size.name} --seed {self.seed}"

    @property
    def code(self) -> str:
        """That makes its numbers, as a short hash."""
        return code_version()

    def made(self, parts: Mapping[str, Part], *, side_by_side: bool = True) -> dict[str, Any]:
        """Every part of the experiment, by name; with a shard, only its share is made, and nothing comes after.

        `side_by_side`: in several processes, unless parts see to that themselves.
        """
        if self.joined:
            join(self.out, self.experiment, parts, self.joined)
        own = self.shard.share(parts) if self.shard else dict(parts)
        jobs = (self.execution.jobs or os.cpu_count() or 1) if side_by_side else 1
        found = {}
        with progress(self.experiment, len(own)) as advance:
            for name, piece in zip(own, self._each(own, min(jobs, len(own) or 1)), strict=True):
                found[name] = piece
                advance(1, note=name)
        if self.shard:
            raise ShardDone(len(own), len(parts))
        self._write_record(own)
        return found

    def _each(self, parts: Mapping[str, Part], jobs: int) -> Iterator[Any]:
        about = {
            "command": f"{self.command}{f' --shard {self.shard}' if self.shard else ''}",
            "settings": dict(self.size.settings),
            "seed": self.seed,
            "code": self.code,
        }
        each = [(about, self.out, name, part) for name, part in parts.items()]
        if jobs == 1:
            yield from map(_made, each)
            return
        # An interruption from the keyboard ends the processes too; else they would finish what they were given.
        with ProcessPoolExecutor(jobs, initializer=signal, initargs=(SIGINT, SIG_DFL)) as pool:
            yield from pool.map(_made, each)

    def _write_record(self, parts: Mapping[str, Part]) -> None:
        """With which code and on what the parts were made, wherever that was."""
        files = [self.out / DIRECTORY / part_file(name, part) for name, part in parts.items()]
        abouts = [read_json(file)["about"] for file in files]
        records = [{name: about.get(name) for name in ("code", "machine")} for about in abouts]
        distinct = [one for place, one in enumerate(records) if one not in records[:place]]
        record = {"command": self.command, "settings": dict(self.size.settings), "parts": len(parts), "made": distinct}
        write_json(self.place("made.json"), record)

    def _mixed(self) -> str:
        """A word on parts that different code has made."""
        record = self.place("made.json")
        states = {one["code"] for one in read_json(record)["made"]} if record.exists() else set()
        return f"Its parts were made by {len(states)} states of the code." if len(states) > 1 else ""

    def place(self, key: str) -> Path:
        """Of a table or a picture with this key: its files, without an ending."""
        return place_of(self.out, self.experiment, key)

    def table(self, key: str, title: str, rows: Sequence[Mapping[str, Cell]], notes: Iterable[str] = ()) -> ResultTable:
        """A table of this run, which says what was left out of the paper's settings."""
        left_out = self.size.settings.get("left_out", "")
        return ResultTable(key, title, rows, self.command, (*notes, *([left_out] if left_out else [])))

    def beside(self, paper: PublishedTable, numbers: Iterable[Number], notes: Iterable[str] = ()) -> ResultTable:
        """Our numbers beside a table of the paper, judged where they can be; a small version stands alone."""
        return self.table(paper.key, paper.title, self.comparison(paper, numbers), notes)

    def comparison(self, paper: PublishedTable, numbers: Iterable[Number]) -> list[dict[str, Cell]]:
        """Its rows."""
        rows = compared(paper, numbers)
        if not self.size.settings.get("about"):
            return rows
        return [{name: row[name] for name in ("contexts", "learner", "quantity", "ours", "± ours")} for row in rows]

    def report(
        self, tables: Iterable[ResultTable], closing: str = "", pictures: Callable[..., None] | None = None
    ) -> Report:
        """The report, written, with pictures that are no comparisons drawn by a function of its tables."""
        about = self.size.settings.get("about", "")
        opening = f"A small version, beside which nothing of the paper can stand: {about}." if about else ""
        opening = " ".join(filter(None, (opening, self._mixed())))
        report = Report(self.experiment, tuple(tables), closing, opening)
        if pictures is not None:
            pictures(self.out, {table.key: table for table in report.tables})
        return report.write(self.out)


def _made(given: tuple[Mapping[str, Any], Path, str, Part]) -> Any:
    about, out, name, part = given
    # A process that has looked at a GPU cannot be forked: each one looks for itself.
    return kept(out, name, part, {**about, "machine": machine()})
