"""The value-based learners on tumor logs: BCQ, PQL and CQL where contexts tell all, FittedQ where they do not."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

from poela.core.progress import progress
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
from poela_experiments.tumor_studies import SCALE, TumorTask

SMOOTHING = 0.01  # of the logging policy in the greedy ones, as in the paper
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


@dataclass(frozen=True)
class Scored:
    """One learned policy; values are normalised."""

    settings: str
    restart: int
    sntis: float | None  # None: no logged episode has weight
    ess: float
    truth: float
    verdict: str
    says: str
    by_model: float | None = None  # its value by fitted-Q evaluation, where that was asked for

    @property
    def promise(self) -> float:
        """Its SNTIS; −inf where there is none, so that it is chosen last."""
        return -math.inf if self.sntis is None else self.sntis


Chosen = list[tuple[Scored, list[Scored]]]  # for each data set the chosen policy, and all that it was chosen from
Advance = Callable[[], None]


def value_learners(run: Run) -> Report:
    """Both tables and their details."""
    size = run.size
    tasks = [TumorTask(data_set=run.seed + number, episodes=size.episodes) for number in range(size.data_sets)]
    markov = [replace(task, markov=True) for task in tasks]
    grids = {name: [_sized(learner, size) for learner in grid] for name, grid in GRIDS.items()}
    paths = {backup: FittedQ(temperatures=TEMPERATURES, backup=backup) for backup in BACKUPS}
    fits = size.restarts * sum(map(len, grids.values())) + len(paths)
    with progress("value learners", fits * size.data_sets) as advance:
        chosen = {name: _chosen(run, grid, markov, advance) for name, grid in grids.items()}
        found = {backup: _paths(run, learner, tasks, advance) for backup, learner in paths.items()}
    paths_tables = [table for backup, points in found.items() for table in _path_tables(run, points, backup)]
    return run.report([*_markov_tables(run, chosen), *paths_tables])


def _sized(learner: QLearning, size: Size) -> QLearning:
    """A learner that trains as long as the size says."""
    sized = replace(learner, steps=size.steps)
    return replace(sized, density_steps=size.density_steps) if isinstance(sized, PQL) else sized


def _chosen(run: Run, grid: Sequence[QLearning], tasks: Sequence[TumorTask], advance: Advance) -> Chosen:
    """Final policies, chosen by validation SNTIS."""
    found = []
    for task in tasks:
        scored = []
        for learner, restart in product(grid, range(run.size.restarts)):
            name = f"{type(learner).__name__} {task.directory}"
            scored.append(Scored(**run.kept(name, _final_policy, learner, task, restart)))
            advance()
        found.append((max(scored, key=lambda item: item.promise), scored))
    return found


def _final_policy(learner: QLearning, task: TumorTask, restart: int, smoothing: float = SMOOTHING) -> dict[str, Any]:
    """What a learner ends with, as the parts of `Scored`."""
    train, validation = task.logs()
    policy = learner.fit(train, seed=restart, behavior=TumorBehavior())
    return asdict(_scored(policy, _shown(learner), restart, validation, task, smoothing))


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
        sntis=normalised(estimate.value) if estimate.ess > 0 else None,
        ess=estimate.ess,
        truth=normalised(true_value(policy, task.simulator, seed=task.data_set).value),
        verdict=estimate.verdict,
        says="; ".join(estimate.warnings),
    )


def _markov_tables(run: Run, chosen: Mapping[str, Chosen]) -> Iterator[ResultTable]:
    size = run.size
    summary: list[dict[str, Cell]] = [
        {
            "learner": name,
            "true value": with_error([best.truth for best, _ in results]),
            "in the paper": _in_the_paper(name),
            "lowest": min(best.truth for best, _ in results),
            "SNTIS - truth": with_error([best.promise - best.truth for best, _ in results]),
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
        f"{SCALE}. Data sets of {size.episodes} training and {size.episodes} validation episodes, "
        f"{size.restarts} restart{'s' if size.restarts > 1 else ''}, {size.steps} steps, known behavior.",
        f"Chosen by validation SNTIS of the greedy policy with a share of {SMOOTHING:g} of the logging policy in it; "
        "the true value (1000 roll-outs) is that of the greedy policy itself.",
    )
    yield run.table("markov", "Tumor growth, Markov: final policy chosen by validation SNTIS", summary, notes)
    yield run.table("markov-data-sets", "The same, data set by data set", details, (SCALE,))


def _in_the_paper(name: str) -> str:
    """The paper's true value with its standard error; "" where it has none.

    >>> _in_the_paper("BCQ, raw inputs"), _in_the_paper("CQL")
    ('82.68 ± 15.19', '')
    """
    number = published("tumor")["main"].find(name.split(",")[0], "true value", "Markov")
    return "" if number is None else f"{number.value:.2f} ± {number.error:.2f}"


def _paths(run: Run, learner: FittedQ, tasks: Sequence[TumorTask], advance: Advance) -> list[list[Scored]]:
    """The policy at each temperature, for each data set."""
    found = []
    for task in tasks:
        points = run.kept(f"FittedQ {task.directory}", _path_of_policies, learner, task)
        found.append([Scored(**point) for point in points])
        advance()
    return found


def _path_of_policies(learner: FittedQ, task: TumorTask) -> list[dict[str, Any]]:
    """The parts of `Scored` for each temperature."""
    train, validation = task.logs()
    points = []
    for point in learner.fit_path(train, behavior=TumorBehavior()):
        scored = _scored(point.policy, point.note, 0, validation, task, smoothing=0.0)
        by_model = evaluate(point.policy, validation, estimator="fqe", interval=None).value
        points.append(asdict(replace(scored, by_model=normalised(by_model))))
    return points


def _path_tables(run: Run, paths: Sequence[Sequence[Scored]], backup: str) -> Iterator[ResultTable]:
    rows: list[dict[str, Cell]] = [
        {
            "policy": points[0].settings,
            "true value": _range([point.truth for point in points]),
            "SNTIS": _range([point.sntis for point in points]),
            "ESS": _range([point.ess for point in points]),
            "fitted-Q evaluation": _range([point.by_model for point in points]),
            "verdict": " or ".join(dict.fromkeys(point.verdict for point in points)),
        }
        for points in zip(*paths, strict=True)
    ]
    best = [max((point.truth for point in path if point.ess >= VERIFIABLE), default=None) for path in paths]
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
            "SNTIS": point.sntis,
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
    yield run.table(f"path-{backup}", f"{title}; {how}", rows, notes)
    yield run.table(f"path-{backup}-data-sets", f"Each data set, backup {backup!r}", details, (SCALE,))


def _range(values: Iterable[float | None]) -> str:
    """The lowest and the highest of those that there are, in short.

    >>> _range([85.04, None, 86.1])
    '85.0 to 86.1'
    """
    known = [value for value in values if value is not None]
    return f"{min(known):.1f} to {max(known):.1f}" if known else "none"
