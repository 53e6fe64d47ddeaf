"""One run of an experiment: how much is done, from which seed, where results go, and what carries studies out."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from poela.data.trajectories import Trajectories
from poela.studies.learning import learn
from poela.studies.options import Execution
from poela.studies.study import Study
from poela_experiments.frame.judging import compared
from poela_experiments.frame.kept import kept
from poela_experiments.frame.published import Number, PublishedTable
from poela_experiments.frame.results import Cell, Report, ResultTable, place_of
from poela_experiments.frame.settings import Size

Arguments = ParamSpec("Arguments")
Piece = TypeVar("Piece")


@dataclass(frozen=True)
class Run:
    """What an experiment is given, and all that it needs: pieces that are kept, studies, tables and the report."""

    experiment: str
    out: Path
    size: Size
    seed: int = 0
    execution: Execution = field(default_factory=Execution)  # nothing that numbers depend on

    @property
    def command(self) -> str:
        """That makes the same again.

        >>> Run("demo", Path("out"), Size("quick", {})).command
        'poela reproduce demo --quick --seed 0'
        """
        return f"poela reproduce {self.experiment} --{self.size.name} --seed {self.seed}"

    def kept(
        self, name: str, make: Callable[Arguments, Piece], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Piece:
        """What `make` gives for these arguments; a finished piece is not made again."""
        return kept(self.out, name, make, *args, **kwargs)

    def study(self, logs: Trajectories, directory: str, **settings: Any) -> Study:
        """The study in this directory: carried out, continued after an interruption or, where it is finished, opened.

        Experiments without studies run in this process, whatever the execution says.
        """
        how = self.execution
        place = self.out / directory
        return learn(logs, out=place, resume=True, jobs=how.jobs, backend=how.backend, address=how.address, **settings)

    def place(self, key: str) -> Path:
        """Of a table or a picture with this key: its files, without an ending."""
        return place_of(self.out, self.experiment, key)

    def table(self, key: str, title: str, rows: Sequence[Mapping[str, Cell]], notes: Iterable[str] = ()) -> ResultTable:
        """A table of this run."""
        return ResultTable(key, title, rows, self.command, tuple(notes))

    def beside(self, paper: PublishedTable, numbers: Iterable[Number], notes: Iterable[str] = ()) -> ResultTable:
        """Our numbers beside a table of the paper, judged."""
        return self.table(paper.key, paper.title, compared(paper, numbers), notes)

    def report(self, tables: Iterable[ResultTable], closing: str = "") -> Report:
        """The report, written; where it is written anew after each part, an interruption leaves what was finished."""
        return Report(self.experiment, tuple(tables), closing).write(self.out)
