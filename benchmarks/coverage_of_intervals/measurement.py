"""The whole measurement: every process at every distance, with the frame of the experiments."""

from functools import partial
from pathlib import Path

from poela_experiments.frame.kept import code_version
from poela_experiments.frame.results import Report
from poela_experiments.frame.run import Run
from poela_experiments.frame.settings import Size

from .cells import SETS, Cell, environments, measured_rows
from .processes import DESCRIBED
from .tables import coverage_tables

NAME = "coverage"
LARGEST_SHARE = 0.6  # of episodes that may be effective: beyond, a target is hardly another policy


class Measurement(Run):
    """A run whose command is a script, and whose code is that of this folder too."""

    @property
    def command(self) -> str:
        """That makes the same again."""
        return f"python benchmarks/coverage.py --{self.size.name} --seed {self.seed}"

    @property
    def code(self) -> str:
        """A short hash of all that makes the numbers."""
        return code_version(Path(__file__).parent)


def size_of(name: str) -> Size:
    """How much is measured: "quick" or "full".

    >>> size_of("full").repeats
    300
    """
    return Size(name, DESCRIBED[name])


def cells_of(run: Run) -> list[Cell]:
    """Every process at every effective sample size that is well below its number of episodes."""
    return [
        Cell(part, name, ess)
        for part in SETS
        for name, environment in environments(part).items()
        if not run.size.only or name in run.size.only
        for ess in run.size.ess
        if ess <= LARGEST_SHARE * environment.episodes
    ]


def coverage(run: Run) -> Report:
    """Measure every cell, and write the tables."""
    size = run.size
    parts = {
        f"{cell.part} {cell.environment} at an ESS of {cell.ess}": partial(
            measured_rows, cell, size.repeats, size.others, run.seed
        )
        for cell in cells_of(run)
    }
    return run.report(coverage_tables(run, [*run.made(parts).values()]))
