"""The value-based learners on tumor logs: BCQ, PQL and CQL where contexts tell all, FittedQ where they do not.

python -m poela.experiments.value_learners [--quick] [--out docs/results]
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from poela.core.progress import progress, progress_shown
from poela.data.trajectories import Trajectories
from poela.evaluation.evaluate import evaluate
from poela.evaluation.rollouts import true_value
from poela.experiments.results import Cell, Report, ResultTable, with_error
from poela.experiments.running import HERE, Running
from poela.experiments.tumor_studies import TumorTask
from poela.learners.fitted_q import FittedQ
from poela.learners.q_learning import BCQ, CQL, PQL, QLearning
from poela.simulators.tumor import TumorBehavior, normalised

QUICK, FULL = (2, 200, 1), (5, 1000, 5)  # data sets, episodes, restarts
SMOOTHING = 0.01  # of the logging policy in the greedy ones, as in the paper
LOWEST_VALUE = -30.0  # v_min of PQL on this task, as in the paper
THRESHOLDS = (0.0, 0.2)
TEMPERATURES = (4.0, 2.0, 1.4, 1.3, 1.2, 1.1, 1.0, 0.7, 0.5, 0.25, 0.0)
BACKUPS = {"max": "as if acting best from the next step on", "soft": "at a price for each departure from the logs"}
VERIFIABLE = 12.0  # effective episodes
SCALE = "normalised: uniform random 0, best schedule found 100"

# What is tried for each learner, and the paper's value (mean ± standard error over 5 runs).
GRIDS: dict[str, tuple[tuple[QLearning, ...], str]] = {
    "BCQ": (tuple(BCQ(threshold=share) for share in THRESHOLDS), "82.68 ± 15.19"),
    "BCQ, raw inputs": (tuple(BCQ(threshold=share, standardise=False) for share in THRESHOLDS), "82.68 ± 15.19"),
    "PQL": (tuple(PQL(threshold=share, lowest_value=LOWEST_VALUE) for share in THRESHOLDS), "99.98 ± 0.38"),
    "PQL, density by neighbours": (
        tuple(PQL(threshold=share, lowest_value=LOWEST_VALUE, density="nearest") for share in THRESHOLDS),
        "99.98 ± 0.38",
    ),
    "CQL": (tuple(CQL(conservatism=weight) for weight in (0.1, 1.0)), ""),
}


@dataclass(frozen=True)
class Scored:
    """One learned policy; values are normalised."""

    settings: str
    restart: int
    sntis: float
    ess: float
    truth: float
    verdict: str
    says: str
    by_model: float = float("nan")  # its value by fitted-Q evaluation


Chosen = list[tuple[Scored, list[Scored]]]  # for each data set the chosen policy, and all that it was chosen from


def value_learners(out: Path, quick: bool = True, seed: int = 0, running: Running = HERE) -> Report:
    """Both tables and their details; everything runs in this process, whatever `running` says."""
    data_sets, episodes, restarts = QUICK if quick else FULL
    tasks = [TumorTask(data_set=seed + number, episodes=episodes) for number in range(data_sets)]
    command = f"python -m poela.experiments.value_learners{' --quick' if quick else ''}"
    markov = [replace(task, markov=True) for task in tasks]
    grids = {name: ([_shorter(learner) for learner in grid] if quick else grid) for name, (grid, _) in GRIDS.items()}
    chosen = {name: _chosen(name, grid, markov, restarts) for name, grid in grids.items()}
    paths = {backup: _paths(tasks, backup) for backup in BACKUPS}
    tables = [table for backup, found in paths.items() for table in _path_tables(found, backup, command)]
    return Report("value_learners", (*_markov_tables(chosen, command), *tables)).write(out)


def _shorter(learner: QLearning) -> QLearning:
    quick = replace(learner, steps=200)
    return replace(quick, density_steps=200) if isinstance(quick, PQL) else quick


def _chosen(name: str, grid: Sequence[QLearning], tasks: Sequence[TumorTask], restarts: int) -> Chosen:
    """Final policies, chosen by validation SNTIS."""
    found = []
    with progress(name, len(tasks) * len(grid) * restarts) as advance:
        for task in tasks:
            train, validation = task.logs()
            scored = []
            for learner in grid:
                for restart in range(restarts):
                    policy = learner.fit(train, seed=restart, behavior=TumorBehavior())
                    scored.append(_scored(policy, _shown(learner), restart, validation, task, SMOOTHING))
                    advance()
            found.append((max(scored, key=lambda item: item.sntis), scored))
    return found


def _shown(learner: QLearning) -> str:
    name = "conservatism" if isinstance(learner, CQL) else "threshold"
    return f"{name} {getattr(learner, name):g}"


def _scored(
    policy: Any, settings: str, restart: int, validation: Trajectories, task: TumorTask, smoothing: float
) -> Scored:
    estimate = evaluate(policy, validation, interval=None, smoothing=smoothing)
    return Scored(
        settings=settings,
        restart=restart,
        sntis=normalised(estimate.value),
        ess=estimate.ess,
        truth=normalised(true_value(policy, task.simulator, seed=task.data_set).value),
        verdict=estimate.verdict,
        says="; ".join(estimate.warnings),
    )


def _markov_tables(chosen: Mapping[str, Chosen], command: str) -> tuple[ResultTable, ResultTable]:
    summary: list[dict[str, Cell]] = [
        {
            "learner": name,
            "true value": with_error([best.truth for best, _ in results]),
            "in the paper": GRIDS[name][1],
            "lowest": min(best.truth for best, _ in results),
            "SNTIS - truth": with_error([best.sntis - best.truth for best, _ in results]),
            "ESS": with_error([best.ess for best, _ in results]),
        }
        for name, results in chosen.items()
    ]
    details: list[dict[str, Cell]] = [
        {
            "learner": name,
            "data set": number,
            "chosen": f"{best.settings}, restart {best.restart}",
            "true value": best.truth,
            "SNTIS": best.sntis,
            "ESS": best.ess,
            "lowest of all": min(item.truth for item in scored),
            "highest of all": max(item.truth for item in scored),
        }
        for name, results in chosen.items()
        for number, (best, scored) in enumerate(results)
    ]
    notes = (
        f"{SCALE}. Data sets of 1000 training and 1000 validation episodes, 5 restarts, 1000 steps, known behavior.",
        f"Chosen by validation SNTIS of the greedy policy with a share of {SMOOTHING:g} of the logging policy in it; "
        "the true value (1000 roll-outs) is that of the greedy policy itself.",
    )
    return (
        ResultTable("Tumor growth, Markov: final policy chosen by validation SNTIS", summary, command, notes),
        ResultTable("The same, data set by data set", details, command, (SCALE,)),
    )


def _paths(tasks: Sequence[TumorTask], backup: str) -> list[list[Scored]]:
    """The policy at each temperature, for each data set."""
    found = []
    with progress("FittedQ", len(tasks) * len(TEMPERATURES)) as advance:
        for task in tasks:
            train, validation = task.logs()
            path = []
            for point in FittedQ(temperatures=TEMPERATURES, backup=backup).fit_path(train, behavior=TumorBehavior()):
                scored = _scored(point.policy, point.note, 0, validation, task, smoothing=0.0)
                by_model = evaluate(point.policy, validation, estimator="fqe", interval=None).value
                path.append(replace(scored, by_model=normalised(by_model)))
                advance()
            found.append(path)
    return found


def _path_tables(paths: Sequence[Sequence[Scored]], backup: str, command: str) -> tuple[ResultTable, ResultTable]:
    rows: list[dict[str, Cell]] = [
        {
            "policy": points[0].settings,
            "true value": _range([point.truth for point in points]),
            "SNTIS": _range([point.sntis for point in points if point.ess > 0]),
            "ESS": _range([point.ess for point in points]),
            "fitted-Q evaluation": _range([point.by_model for point in points]),
            "verdict": " or ".join(dict.fromkeys(point.verdict for point in points)),
        }
        for points in zip(*paths, strict=True)
    ]
    best = [max((point.truth for point in path if point.ess >= VERIFIABLE), default=np.nan) for path in paths]
    notes = (
        f"{SCALE}; from the lowest to the highest of {len(paths)} data sets.",
        f"Best true value on the path with an effective sample size of {VERIFIABLE:g} or more: {_range(best)}.",
        f"Of the greedy policy the estimate says: {paths[0][-1].says}.",
    )
    details: list[dict[str, Cell]] = [
        {
            "data set": number,
            "policy": point.settings,
            "true value": point.truth,
            "SNTIS": point.sntis if point.ess > 0 else None,
            "ESS": point.ess,
            "fitted-Q evaluation": point.by_model,
            "verdict": point.verdict,
            "says": point.says,
        }
        for number, path in enumerate(paths)
        for point in path
    ]
    title = "Tumor growth, not Markov: FittedQ with history, from verifiable to valuable"
    how = f"values {BACKUPS[backup]} (backup {backup!r})"
    return (
        ResultTable(f"{title}; {how}", rows, command, notes),
        ResultTable(f"Each data set, backup {backup!r}", details, command, (SCALE,)),
    )


def _range(values: Sequence[float]) -> str:
    """The lowest and the highest, in short.

    >>> _range([85.04, 86.1])
    '85.0 to 86.1'
    """
    return f"{min(values):.1f} to {max(values):.1f}" if values else "none"


def main() -> None:
    """Print the tables and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args()
    with progress_shown():
        print(value_learners(options.out, quick=options.quick))


if __name__ == "__main__":
    main()
