"""FittedQ on tumor logs whose contexts do not tell all: a path from policies that can be verified to valuable ones."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from poela.evaluation.evaluate import evaluate
from poela.evaluation.rollouts import true_value
from poela.learners.fitted_q import FittedQ
from poela.simulators.tumor import TumorBehavior, normalised
from poela_experiments.frame.results import Cell, Report, ResultTable
from poela_experiments.frame.run import Run
from poela_experiments.tumor_logs import SCALE, TumorTask

TEMPERATURES = (4.0, 2.0, 1.4, 1.3, 1.2, 1.1, 1.0, 0.7, 0.5, 0.25, 0.0)
BACKUPS = {"max": "as if acting best from the next step on", "soft": "at a price for each departure from the logs"}
VERIFIABLE = 12.0  # effective episodes
NUMBERS = ("true value", "SNTIS", "ESS", "fitted-Q evaluation")
Scored = dict[str, Any]  # a learned policy: its temperature, and what it promises and holds, normalised


def value_learners(run: Run) -> Report:
    """A table for each backup, and its details."""
    tasks = [TumorTask(data_set=run.seed + number, episodes=run.size.episodes) for number in range(run.size.data_sets)]
    parts = {
        f"FittedQ {backup}, data set {task.data_set}": partial(
            path_of_policies, FittedQ(temperatures=TEMPERATURES, backup=backup, regressor="ridge"), task
        )
        for backup in BACKUPS
        for task in tasks
    }
    made = [*run.made(parts).values()]
    paths = {backup: made[place * len(tasks) : (place + 1) * len(tasks)] for place, backup in enumerate(BACKUPS)}
    return run.report(table for backup, own in paths.items() for table in _tables(run, own, backup))


def path_of_policies(learner: FittedQ, task: TumorTask) -> list[Scored]:
    """The policy at each temperature."""
    train, validation = task.logs()
    found = []
    for point in learner.fit_path(train, behavior=TumorBehavior()):
        estimate = evaluate(point.policy, validation, interval=None)
        by_model = evaluate(point.policy, validation, estimator="fqe", interval=None)
        found.append(
            {
                "policy": point.note,
                "true value": normalised(true_value(point.policy, task.simulator, seed=task.data_set).value),
                "SNTIS": normalised(estimate.value) if estimate.ess > 0 else None,  # None: no episode has weight
                "ESS": estimate.ess,
                "fitted-Q evaluation": normalised(by_model.value),
                "verdict": estimate.verdict,
                "says": "; ".join(estimate.warnings),
            }
        )
    return found


def _tables(run: Run, paths: Sequence[Sequence[Scored]], backup: str) -> Iterator[ResultTable]:
    rows: list[dict[str, Cell]] = [
        {
            "policy": points[0]["policy"],
            **{column: _range(point[column] for point in points) for column in NUMBERS},
            "verdict": " or ".join(dict.fromkeys(point["verdict"] for point in points)),
        }
        for points in zip(*paths, strict=True)
    ]
    best = [max((one["true value"] for one in path if one["ESS"] >= VERIFIABLE), default=None) for path in paths]
    notes = (
        f"{SCALE}; from the lowest to the highest of {len(paths)} data sets",
        f"Best true value on the path with an effective sample size of {VERIFIABLE:g} or more: {_range(best)}",
        f"Of the greedy policy the estimate says: {paths[0][-1]['says']}",
    )
    details = [{"data set": number, **point} for number, path in enumerate(paths) for point in path]
    title = "Tumor growth, not Markov: FittedQ with history, from verifiable to valuable"
    how = f"values {BACKUPS[backup]} (backup {backup!r})"
    yield run.table(f"path-{backup}", f"{title}; {how}", rows, notes)
    yield run.table(f"path-{backup}-data-sets", f"Each data set, backup {backup!r}", details, (SCALE,))


def _range(values: Iterable[float | None]) -> str:
    """The lowest and the highest of those that there are, in short.

    >>> _range([85.04, None, 86.1])
    '85.0 to 86.1'
    """
    known = [value for value in values if value is not None]
    return f"{min(known):.1f} to {max(known):.1f}" if known else "none"
