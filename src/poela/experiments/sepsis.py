"""The sepsis experiment: the paper's tables and figures in a simulator, where the truth is known.

Parts do not depend on each other and keep what they find, so they can run in processes of their own under one `--out`;
the experiment then puts finished parts together:

    python -c 'from poela.experiments.sepsis import *; part("kNN", Path("sepsis"), FULL)'
"""

from pathlib import Path

from poela.core.progress import progress
from poela.experiments.results import Report, ResultTable
from poela.experiments.running import HERE, Running
from poela.experiments.sepsis_actions import action_table, eligibility_table
from poela.experiments.sepsis_beside import beside_table, closing, default_table
from poela.experiments.sepsis_first_steps import first_steps_tables
from poela.experiments.sepsis_policies import Examiner
from poela.experiments.sepsis_studies import BEHAVIORS, FULL, OWN, QUICK, SepsisTask, Size, study_of
from poela.experiments.sepsis_tables import ablation_tables, delta_tables, published_tables, trade_off_table
from poela.experiments.sepsis_weights import weight_table
from poela.simulators.sepsis import VARIANTS

FIRST_STEPS, DEFAULT = "first steps", "default "


def sepsis(out: Path, quick: bool = True, seed: int = 0, running: Running = HERE) -> Report:
    """All tables; the report is written anew after each part, so an interrupted run leaves what it finished."""
    size = QUICK if quick else FULL
    names = parts_of(size)
    found: list[ResultTable] = []
    report = Report("sepsis", ())
    with progress("sepsis", len(names)) as advance:
        for name in names:
            found += part(name, out, size, seed, running)
            report = Report("sepsis", tuple(found), closing(found)).write(out)
            advance(1, note=name)
    return report


def parts_of(size: Size) -> list[str]:
    """The names of the parts: behavior models of the paper's tables, both variants with own care, default studies.

    >>> parts_of(FULL)
    ['kNN', 'BC', 'BCRNN', 'first steps', 'harmless 0', 'harmful 0', 'harmless 1', 'harmful 1', 'default harmless', ...]
    """
    beside = [f"{variant} {number}" for number in range(size.own_data_sets) for variant in VARIANTS]
    return [*size.behaviors, FIRST_STEPS, *beside, *(f"{DEFAULT}{variant}" for variant in VARIANTS)]


def part(name: str, out: Path, size: Size = FULL, seed: int = 0, running: Running = HERE) -> list[ResultTable]:
    """The tables of one part; what is finished is not done again."""
    command = f"poela reproduce sepsis {'--quick' if size == QUICK else '--full'} --seed {seed}"
    if name in BEHAVIORS:
        return _published(Examiner(study_of(SepsisTask("harmless", name, seed), size, out, running), out), out, command)
    if name == FIRST_STEPS:
        return first_steps_tables(out, size, seed, running, command)
    if name.startswith(DEFAULT):
        return [default_table(name.removeprefix(DEFAULT), out, size, seed, running, command)]
    variant, number = name.split()
    task = SepsisTask(variant, OWN, seed + int(number))
    return [beside_table(Examiner(study_of(task, size, out, running), out), command, again=number != "0")]


def _published(examiner: Examiner, out: Path, command: str) -> list[ResultTable]:
    tables = list(published_tables(examiner, command))
    if examiner.source.task.behavior == "kNN":
        tables += ablation_tables(examiner, command)
        tables += delta_tables(examiner, out, command)
        tables.append(weight_table(examiner, command))
        tables.append(trade_off_table(examiner, out, command))
        tables.append(action_table(examiner, out, command))
        tables.append(eligibility_table(examiner, out, command))
    return tables
