"""The first gradient steps with behavior by kNN, looked at as closely as in the paper: a checkpoint every 10 steps.

Cloning the logging policy comes first, so this is where effective sample sizes are largest. The study of all steps has
its checkpoints wider apart.
"""

from pathlib import Path

from poela.experiments.published.sepsis import SEPSIS
from poela.experiments.results import Cell, ResultTable
from poela.experiments.running import Running
from poela.experiments.sepsis_policies import Examined, Examiner
from poela.experiments.sepsis_studies import SepsisTask, Size, study_of
from poela.experiments.sepsis_tables import CHOSEN_BY, NOTES, WEIGHTED_BY

PAPER = next(table for table in SEPSIS if table.label == "tab:sepsis_result_checkpoint")


def first_steps_tables(out: Path, size: Size, seed: int, running: Running, command: str) -> list[ResultTable]:
    """The best checkpoints of the first steps, and how the effective sample size falls over them."""
    task = SepsisTask("harmless", "kNN", seed, early=True)
    examiner = Examiner(study_of(task, size, out, running), out)
    chosen = [examiner.examined(item, name, "best", least) for name, item, least in examiner.chosen("best")]
    notes = (
        f"checkpoints after every {size.early_steps // size.early_checkpoints} of the first {size.early_steps} steps; "
        "policy-gradient learners with the paper's settings",
        f"{CHOSEN_BY}; where no policy of a learner has that, with any",
        *NOTES,
        WEIGHTED_BY["kNN"],
    )
    title = "Sepsis, behavior by kNN: best checkpoint of the first steps"
    return [
        ResultTable(title, [_row(item) for item in [*chosen, examiner.logging("best")]], command, notes),
        ResultTable(f"{title.partition(':')[0]}: largest effective sample size by step", _sizes(examiner), command),
    ]


def _row(item: Examined) -> dict[str, Cell]:
    paper = {quantity: PAPER.find(item.learner, quantity, "") for quantity in ("SNTIS", "ESS")}
    return {
        "learner": item.learner,
        **{f"paper's {quantity}": None if number is None else number.value for quantity, number in paper.items()},
        **item.cells(),
        "least ESS": item.least_ess,
        "chosen": item.chosen,
    }


def _sizes(examiner: Examiner) -> list[dict[str, Cell]]:
    """Over all settings of a learner, on the validation logs."""
    source, rows = examiner.source, []
    for name, items in source.by_learner.items():
        largest: dict[int, float] = {}
        for item in items:
            step = source.study.runs[item.run_id].checkpoints[item.number].step
            largest[step] = max(largest.get(step, 0.0), item.metrics["ess"] or 0.0)
        row: dict[str, Cell] = {"learner": name}
        rows.append({**row, **{f"step {step}": largest[step] for step in sorted(largest)}})
    return rows
