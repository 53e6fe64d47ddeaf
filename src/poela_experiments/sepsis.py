"""The sepsis experiment: the paper's tables and figures in a simulator, where the truth is known.

Parts do not depend on each other and keep what they find, so they can run in processes of their own under one `--out`;
the experiment then puts finished parts together:

    python -c 'from poela_experiments.sepsis import *; part("kNN", Run("sepsis", Path("sepsis"), FULL))'
"""

from pathlib import Path

from poela.core.progress import progress
from poela.simulators.sepsis import VARIANTS
from poela_experiments.frame.policies import Source
from poela_experiments.frame.results import Report, ResultTable
from poela_experiments.frame.run import Run
from poela_experiments.frame.settings import Size
from poela_experiments.sepsis_actions import action_table, eligibility_table
from poela_experiments.sepsis_beside import beside_table, closing, default_table
from poela_experiments.sepsis_studies import BEHAVIORS, sepsis_source
from poela_experiments.sepsis_tables import (
    ablation_tables,
    first_steps_tables,
    published_tables,
    radius_tables,
    trade_off_table,
)
from poela_experiments.weights import sepsis_weights

__all__ = ["FULL", "Path", "Run", "part", "parts_of", "sepsis"]

FULL = Size.of("sepsis", "full")
FIRST_STEPS, DEFAULT = "first steps", "default "


def sepsis(run: Run) -> Report:
    """All tables; the report is written anew after each part."""
    names = parts_of(run.size)
    found: list[ResultTable] = []
    report = Report("sepsis", ())
    with progress("sepsis", len(names)) as advance:
        for name in names:
            found += part(name, run)
            report = run.report(found, closing(found))
            advance(1, note=name)
    return report


def parts_of(size: Size) -> list[str]:
    """The names of the parts: behavior models of the paper's tables, both variants with own care, default studies.

    >>> parts_of(FULL)
    ['kNN', 'BC', 'BCRNN', 'first steps', 'harmless 0', 'harmful 0', 'harmless 1', 'harmful 1', 'default harmless', ...]
    """
    beside = [f"{variant} {number}" for number in range(size.own_data_sets) for variant in VARIANTS]
    return [*size.behaviors, FIRST_STEPS, *beside, *(f"{DEFAULT}{variant}" for variant in VARIANTS)]


def part(name: str, run: Run) -> list[ResultTable]:
    """The tables of one part; what is finished is not done again."""
    if name in BEHAVIORS:
        return _published(sepsis_source(run, "harmless", name), name)
    if name == FIRST_STEPS:
        return list(first_steps_tables(run))
    if name.startswith(DEFAULT):
        return [default_table(run, name.removeprefix(DEFAULT))]
    variant, number = name.split()
    return [beside_table(run, variant, int(number))]


def _published(source: Source, behavior: str) -> list[ResultTable]:
    tables = list(published_tables(source, behavior))
    if behavior == "kNN":
        tables += [*ablation_tables(source), *radius_tables(source), sepsis_weights(source)]
        tables += [trade_off_table(source), action_table(source), eligibility_table(source)]
    return tables
