"""The value-based learners on tumor logs: BCQ, PQL and CQL where contexts tell all, FittedQ where they do not."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from poela.data.trajectories import Trajectories
from poela.evaluation.evaluate import evaluate
from poela.evaluation.rollouts import true_value
from poela.learners.fitted_q import FittedQ
from poela.learners.q_learning import BCQ, CQL, PQL, QLearning
from poela.simulators.tumor import TumorBehavior, normalised
from poela_experiments.frame.published import published
from poela_experiments.frame.results import Cell, Report, ResultTable, with_error
from poela_experiments.frame.run import Run
from poela_experiments.frame.settings import Size
from poela_experiments.frame.trials import SMOOTHING
from poela_experiments.tumor_logs import SCALE, TumorTask

LOWEST_VALUE = -30.0  # v_min of PQL on this task, as in the paper
THRESHOLDS = (0.0, 0.2)
TEMPERATURES = (4.0, 2.0, 1.4, 1.3, 1.2, 1.1, 1.0, 0.7, 0.5, 0.25, 0.0)
BACKUPS = {"max": "as if acting best from the next step on", "soft": "at a price for each departure from the logs"}
VERIFIABLE = 12.0  # effective episodes

# What is tried for each learner; a name begins with that in the paper's tables.
GRIDS: dict[str, tuple[QLearning, ...]] = {
    "BCQ": tuple(BCQ(threshold=share) for share in THRESHOLDS),
    "BCQ, raw inputs": tuple(BCQ(threshold=share, standardise=False) for share in THRESHOLDS),
    "PQL": tuple(PQL(threshold=share, lowest_value=LOWEST_VALUE) for share in THRESHOLDS),
    "PQL, density by neighbours": tuple(
        PQL(threshold=share, lowest_value=LOWEST_VALUE, density="nearest") for share in THRESHOLDS
    ),
    "CQL": tuple(CQL(conservatism=weight) for weight in (0.1, 1.0)),
}
Scored = dict[str, Any]  # a learned policy: its settings, and what it promises and holds, normalised


def value_learners(run: Run) -> Report:
    """Both tables and their details."""
    size = run.size
    tasks = [TumorTask(data_set=run.seed + number, episodes=size.episodes) for number in range(size.data_sets)]
    final = {
        (name, task.data_set): partial(
            final_policies, [_sized(learner, size) for learner in grid], replace(task, markov=True), size.restarts
        )
        for name, grid in GRIDS.items()
        for task in tasks
    }
    paths = {
        (backup, task.data_set): partial(path_of_policies, FittedQ(temperatures=TEMPERATURES, backup=backup), task)
        for backup in BACKUPS
        for task in tasks
    }
    made = run.made({f"{name}, data set {number}": part for (name, number), part in {**final, **paths}.items()})
    sets = [task.data_set for task in tasks]
    by_name = {name: [made[f"{name}, data set {number}"] for number in sets] for name in (*GRIDS, *BACKUPS)}
    tables = [table for backup in BACKUPS for table in _path_tables(run, by_name[backup], backup)]
    return run.report([*_markov_tables(run, {name: by_name[name] for name in GRIDS}), *tables])


def _sized(learner: QLearning, size: Size) -> QLearning:
    """A learner that trains as long as the size says."""
    sized = replace(learner, steps=size.steps)
    return replace(sized, density_steps=size.density_steps) if isinstance(sized, PQL) else sized


def final_policies(grid: Sequence[QLearning], task: TumorTask, restarts: int) -> list[Scored]:
    """What every learner of a grid ends with."""
    train, validation = task.logs()
    found = []
    for learner in grid:
        setting = "conservatism" if isinstance(learner, CQL) else "threshold"
        for restart in range(restarts):
            policy = learner.fit(train, seed=restart, behavior=TumorBehavior())
            name = f"{setting} {getattr(learner, setting):g}, restart {restart}"
            found.append(_scored(policy, name, validation, task, SMOOTHING))
    return found


def path_of_policies(learner: FittedQ, task: TumorTask) -> list[Scored]:
    """The policy at each temperature, with its value by fitted-Q evaluation."""
    train, validation = task.logs()
    return [
        {
            **_scored(point.policy, point.note, validation, task, smoothing=0.0),
            "fitted-Q evaluation": normalised(evaluate(point.policy, validation, estimator="fqe", interval=None).value),
        }
        for point in learner.fit_path(train, behavior=TumorBehavior())
    ]


def _scored(policy: Any, settings: str, validation: Trajectories, task: TumorTask, smoothing: float) -> Scored:
    estimate = evaluate(policy, validation, interval=None, smoothing=smoothing)
    return {
        "policy": settings,
        "true value": normalised(true_value(policy, task.simulator, seed=task.data_set).value),
        "SNTIS": normalised(estimate.value) if estimate.ess > 0 else None,  # None: no logged episode has weight
        "ESS": estimate.ess,
        "verdict": estimate.verdict,
        "says": "; ".join(estimate.warnings),
    }


def _promise(item: Scored) -> float:
    """Its SNTIS; −inf where there is none, so that it is chosen last."""
    return -math.inf if item["SNTIS"] is None else float(item["SNTIS"])


def _markov_tables(run: Run, found: Mapping[str, Sequence[Sequence[Scored]]]) -> Iterator[ResultTable]:
    size = run.size
    summary: list[dict[str, Cell]] = []
    details: list[dict[str, Cell]] = []
    for name, results in found.items():
        best = [max(scored, key=_promise) for scored in results]
        truths = [one["true value"] for one in best]
        number = published("tumor")["main"].find(name.split(",")[0], "true value", "Markov")
        summary.append(
            {
                "learner": name,
                "true value": with_error(truths),
                "in the paper": "" if number is None else f"{number.value:.2f} ± {number.error:.2f}",
                "lowest": min(truths),
                "SNTIS - truth": with_error([_promise(one) - one["true value"] for one in best]),
                "ESS": with_error([one["ESS"] for one in best]),
            }
        )
        for data_set, (one, scored) in enumerate(zip(best, results, strict=True)):
            all_truths = [item["true value"] for item in scored]
            details.append(
                {
                    "learner": name,
                    "data set": data_set,
                    "chosen": one["policy"],
                    **{column: one[column] for column in ("true value", "SNTIS", "ESS")},
                    "lowest of all": min(all_truths),
                    "highest of all": max(all_truths),
                }
            )
    notes = (
        f"{SCALE}. Data sets of {size.episodes} training and {size.episodes} validation episodes, "
        f"{size.restarts} restart{'s' if size.restarts > 1 else ''}, {size.steps} steps, known behavior",
        f"Chosen by validation SNTIS of the greedy policy with a share of {SMOOTHING:g} of the logging policy in it; "
        "the true value (1000 roll-outs) is that of the greedy policy itself",
    )
    yield run.table("markov", "Tumor growth, Markov: final policy chosen by validation SNTIS", summary, notes)
    yield run.table("markov-data-sets", "The same, data set by data set", details, (SCALE,))


def _path_tables(run: Run, paths: Sequence[Sequence[Scored]], backup: str) -> Iterator[ResultTable]:
    columns = ("true value", "SNTIS", "ESS", "fitted-Q evaluation")
    rows: list[dict[str, Cell]] = [
        {
            "policy": points[0]["policy"],
            **{column: _range(point[column] for point in points) for column in columns},
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
