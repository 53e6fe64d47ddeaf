"""The first gradient steps with behavior by kNN, looked at as closely as in the paper: a checkpoint every 10 steps.

Cloning the logging policy comes first, so this is where effective sample sizes are largest. The study of all steps has
its checkpoints wider apart.
"""

from collections.abc import Iterator

from poela_experiments.frame.policies import Examined, Source
from poela_experiments.frame.results import Cell, ResultTable
from poela_experiments.frame.run import Run
from poela_experiments.sepsis_studies import EARLY, LOGGING, cells, sepsis_source
from poela_experiments.sepsis_tables import CHOSEN_BY, NOTES, SEPSIS, WEIGHTED_BY


def first_steps_tables(run: Run) -> Iterator[ResultTable]:
    """The best checkpoints of the first steps, and how the effective sample size falls over them."""
    source = sepsis_source(run, early=True)
    chosen = [source.examined(item, name, "best", least) for name, item, least in source.choices("best")]
    steps, checkpoints = (run.size.kinds[EARLY][name] for name in ("steps", "checkpoints"))
    notes = (
        f"checkpoints after every {steps // checkpoints} of the first {steps} steps; "
        "policy-gradient learners with the paper's settings",
        f"{CHOSEN_BY}; where no policy of a learner has that, with any",
        *NOTES,
        WEIGHTED_BY["kNN"],
    )
    title = "Sepsis, behavior by kNN: best checkpoint of the first steps"
    yield run.table("first-steps", title, [_row(item) for item in [*chosen, source.logging(LOGGING, "best")]], notes)
    title = "Sepsis, behavior by kNN: largest effective sample size by step"
    yield run.table("ess-by-step", title, list(_sizes(source)))


def _row(item: Examined) -> dict[str, Cell]:
    paper = {quantity: SEPSIS["checkpoint"].find(item.learner, quantity) for quantity in ("SNTIS", "ESS")}
    return {
        "learner": item.learner,
        **{f"paper's {quantity}": None if number is None else number.value for quantity, number in paper.items()},
        **cells(item),
        "least ESS": item.least_ess,
        "chosen": item.chosen,
    }


def _sizes(source: Source) -> Iterator[dict[str, Cell]]:
    """Over all settings of a learner, on the validation logs."""
    for name, items in source.by_learner.items():
        largest: dict[int, float] = {}
        for item in items:
            step = source.study.runs[item.run_id].checkpoints[item.number].step
            largest[step] = max(largest.get(step, 0.0), item.metrics["ess"] or 0.0)
        yield {"learner": name, **{f"step {step}": largest[step] for step in sorted(largest)}}
