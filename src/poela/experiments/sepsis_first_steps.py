"""The first gradient steps with behavior by kNN: policies with the paper's least effective sample size are there.

Cloning the logging policy comes first, and the effective sample size falls fast in the steps that follow. The paper has
a checkpoint every 10 steps; the study of all steps has them wider apart.
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
    task = SepsisTask("harmless", "kNN", seed, first_steps=True)
    examiner = Examiner(study_of(task, size, out, running), out)
    chosen = [examiner.examined(item, name, "best", least) for name, item, least in examiner.chosen("best")]
    notes = (
        f"checkpoints after every {size.first_steps // size.first_checkpoints} of the first {size.first_steps} steps; "
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
        "SNTIS": item.estimate.value,
        "lower bound": item.estimate.low,
        "upper bound": item.estimate.high,
        "ESS": item.estimate.ess,
        "verdict": item.estimate.verdict,
        "true value": item.truth.value,
        "its error": item.truth.standard_error,
        "least ESS": item.least_ess,
        "chosen": item.chosen,
    }


def _sizes(examiner: Examiner) -> list[dict[str, Cell]]:
    """Over all settings of a learner, on the validation logs."""
    own, rows = examiner.own, []
    for name, items in own.own.items():
        row: dict[str, Cell] = {"learner": name}
        for number in range(max(item.number for item in items) + 1):
            at = [item for item in items if item.number == number]
            step = own.study.runs[at[0].run_id]["checkpoints"][number]["step"]
            row[f"step {step}"] = max(item.metrics["ess"] or 0.0 for item in at)
        rows.append(row)
    return rows
