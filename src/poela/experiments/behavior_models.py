"""How well each behavior model finds a known logging policy, and what cross-fitting does to evaluation.

The truth is known everywhere: the logging policies are the simulators' own, and the value of the evaluated policies
comes from roll-outs. Models are judged on logs that they never saw.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from poela.behavior.annotation import annotation
from poela.behavior.boosted import BoostedBehavior
from poela.behavior.calibration import tempered
from poela.behavior.clone import CloneBehavior, RecurrentCloneBehavior
from poela.behavior.model import Behavior
from poela.behavior.multinomial import MultinomialBehavior
from poela.behavior.neighbours import KNNBehavior
from poela.behavior.tempered import TemperedBehavior
from poela.core.arrays import FloatArray
from poela.core.errors import PoelaWarning
from poela.core.policy import LoggedSteps, Memoryless
from poela.core.progress import progress
from poela.data.trajectories import Trajectories
from poela.evaluation.evaluate import evaluate
from poela.experiments.remembering import remembering_logs
from poela.experiments.results import Cell, Report, ResultTable, mean_and_error
from poela.experiments.running import HERE, Running
from poela.simulators.episodes import run
from poela.simulators.sepsis import Sepsis, SepsisBehavior
from poela.simulators.sepsis_truth import sepsis_value
from poela.simulators.tumor import TumorBehavior, TumorGrowth

FOLDS = 5
HISTORY = 3  # lags for the memoryless model that is given history features
SIZES = {True: (300, 3), False: (1000, 12)}  # quick or not: episodes of each sepsis log, and how many logs

SEPSIS = Sepsis("harmful")
ROLL_OUTS = 20_000  # behind the truth of each evaluated policy

MODELS: dict[str, Behavior] = {
    "kNN, k = 100": KNNBehavior(k=100),
    "multinomial": MultinomialBehavior(),
    "boosted trees": BoostedBehavior(),
    "boosted trees, tempered": TemperedBehavior(BoostedBehavior()),
    "MLP, as published": CloneBehavior(steps=500, hidden=(32, 32, 32)),
    "MLP": CloneBehavior(learning_rate=1e-3, max_steps=2000),
    "GRU, as published": RecurrentCloneBehavior(steps=500),
    "GRU": RecurrentCloneBehavior(learning_rate=1e-3, max_steps=2000),
}
# For many small logs: the same kinds of model, with training made short.
QUICK_MODELS: dict[str, Behavior] = {
    "kNN, k = 100": KNNBehavior(k=100),
    "multinomial": MultinomialBehavior(),
    "boosted trees": BoostedBehavior(max_rounds=50),
    "MLP": CloneBehavior(learning_rate=1e-3, max_steps=1500),
}


def behavior_models(out: Path, quick: bool = True, seed: int = 0, running: Running = HERE) -> Report:
    """Both tables; everything runs in this process, whatever `running` says."""
    command = f"poela reproduce behavior {'--quick' if quick else '--full'} --seed {seed}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PoelaWarning)  # rare actions miss from small logs: the tables show the effect
        tables = (recovery(command, 100 if quick else 500, seed), *evaluation_error(command, *SIZES[quick], seed))
    return Report("behavior", tables).write(out)


def recovery(command: str, episodes: int, seed: int) -> ResultTable:
    """Each model fitted on one log of known behavior, and compared with the truth on another."""
    logs: dict[str, Callable[[int], Trajectories]] = {
        "tumor": lambda role: run(TumorGrowth(), TumorBehavior(), episodes, seed=(seed, role)),
        "remembering": lambda role: remembering_logs(episodes, seed=(seed, role)),
        "sepsis": lambda role: run(SEPSIS, SepsisBehavior(), episodes, seed=(seed, role)),
    }
    rows = []
    with progress("models", len(logs) * len(MODELS) + 1) as advance:
        for name, collect in logs.items():
            train, test = collect(0), collect(1)
            for model, behavior in MODELS.items():
                rows.append(_recovery_row(name, model, behavior, train, test, seed))
                advance()
            if name == "remembering":
                plain, asked = train.with_history(HISTORY), test.with_history(HISTORY)
                rows.append(_recovery_row(name, f"MLP, {HISTORY} lags", MODELS["MLP"], plain, asked, seed))
                advance()
    notes = (
        f"{episodes} episodes to fit on, as many to judge by. Total variation: half the summed difference between "
        "estimated and true probabilities, mean over steps.",
        "Lost log likelihood: per step, below that of the true probabilities. Calibration error: of the likeliest "
        "action, and of every action. Seconds: to fit and to apply, on one core.",
    )
    return ResultTable("How well each model finds a known behavior", rows, command, notes)


def _recovery_row(
    log: str, name: str, behavior: Behavior, train: Trajectories, test: Trajectories, seed: int
) -> dict[str, Cell]:
    started = time.perf_counter()
    report = behavior.fit(train, seed).annotation(test)
    seconds = time.perf_counter() - started
    estimated, true = report.trajectories.propensities, test.propensities
    assert estimated is not None
    assert true is not None
    best = float(np.log(test.logged_propensities).mean())
    return {
        "log": log,
        "model": name,
        "total variation": total_variation(estimated, true),
        "lost log likelihood": best - report.calibration.log_likelihood,
        "Brier score": report.calibration.brier,
        "calibration error": report.calibration.expected_calibration_error,
        "of every action": report.calibration.every_action.error,
        "floored steps": report.floored_steps,
        "seconds": seconds,
    }


def total_variation(estimated: FloatArray, true: FloatArray) -> float:
    """Half the summed absolute difference of rows, mean over rows.

    >>> total_variation(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([[1.0, 0.0], [1.0, 0.0]]))
    0.25
    """
    return float(np.abs(estimated - true).sum(axis=1).mean() / 2)


class Sharper(Memoryless):
    """The clinicians, surer of themselves: their probabilities squared."""

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """[N, 25]."""
        return tempered(SepsisBehavior().probabilities(contexts), 0.5)


@dataclass(frozen=True)
class Mixed(Memoryless):
    """The clinicians, with a share of decisions taken at random."""

    share: float

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """[N, 25]."""
        clinicians = SepsisBehavior().probabilities(contexts)
        return np.asarray((1 - self.share) * clinicians + self.share / clinicians.shape[1])


TARGETS: dict[str, Memoryless] = {"sharper": Sharper(), "20% random": Mixed(0.2), "50% random": Mixed(0.5)}


class _Known:
    """A policy whose probabilities along one log are at hand."""

    def __init__(self, rows: FloatArray) -> None:
        self._rows = rows

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        return self._rows

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        return self._rows


CAVEAT = (
    "Estimated propensities are smoother than the true ones, so fewer weights vanish and more are truncated. SNTIS "
    "then leans towards the mean logged return, which is near the truth for policies this near to the logging policy."
)

Errors = dict[tuple[str, str], FloatArray]  # (model, how it was fitted) -> estimate − truth, [logs, targets]


def evaluation_error(command: str, episodes: int, logs: int, seed: int) -> tuple[ResultTable, ResultTable]:
    """SNTIS of known policies on sepsis logs, with propensities from models that did or did not see the episode."""
    truths = np.array([sepsis_value(target, SEPSIS, ROLL_OUTS, seed).value for target in TARGETS.values()])
    found: dict[tuple[str, str], list[FloatArray]] = {}
    with progress("logs", logs) as advance:
        for number in range(logs):
            log = run(SEPSIS, SepsisBehavior(), episodes, seed=(seed, 2, number))
            for key, values in _estimates(log, seed).items():
                found.setdefault(key, []).append(values - truths)
            advance()
    errors: Errors = {key: np.array(values) for key, values in found.items()}
    shown = ", ".join(f"{name} {truth:.2f}" for name, truth in zip(TARGETS, truths, strict=True))
    notes = (
        f"Root mean square of SNTIS - truth over {logs} logs of {episodes} episodes (25 actions, 44 features).",
        f"True survival of the evaluated policies, in %: {shown}.",
        "Saved: mean absolute error in-sample less cross-fitted, paired by log, and its standard error.",
    )
    return (
        ResultTable(
            "Evaluation error with in-sample and with cross-fitted propensities", _pairs(errors), command, notes
        ),
        ResultTable("The same without estimated propensities", _references(errors), command, (*notes[:2], CAVEAT)),
    )


def _estimates(log: Trajectories, seed: int) -> dict[tuple[str, str], FloatArray]:
    """The value of each target by (model, how it was fitted); last, two yardsticks."""
    targets = [_Known(target.along(log)) for target in TARGETS.values()]

    def by_sntis(logs: Trajectories) -> FloatArray:
        return np.array([evaluate(target, logs, estimator="sntis", interval=None).value for target in targets])

    found = {}
    for name, behavior in QUICK_MODELS.items():
        found[name, "in-sample"] = by_sntis(behavior.fit(log, seed).annotation(log).trajectories)
        found[name, "cross-fitted"] = by_sntis(annotation(behavior, log, FOLDS, seed).trajectories)
    found["known propensities", ""] = by_sntis(log)
    found["mean logged return, no weights", ""] = np.full(len(targets), log.returns().mean())
    return found


def _pairs(errors: Errors) -> list[dict[str, Cell]]:
    rows: list[dict[str, Cell]] = []
    for model in QUICK_MODELS:
        for target, columns in _columns():
            before, after = (errors[model, how][:, columns] for how in ("in-sample", "cross-fitted"))
            saved, error = mean_and_error((np.abs(before) - np.abs(after)).mean(axis=1).tolist())
            rows.append(
                {
                    "model": model,
                    "target": target,
                    "in-sample": _root_mean_square(before),
                    "cross-fitted": _root_mean_square(after),
                    "saved": saved,
                    "standard error": error,
                }
            )
    return rows


def _references(errors: Errors) -> list[dict[str, Cell]]:
    return [
        {"estimate": name, "target": target, "error": _root_mean_square(values[:, columns])}
        for (name, how), values in errors.items()
        if not how
        for target, columns in _columns()
    ]


def _columns() -> list[tuple[str, list[int]]]:
    return [*((name, [number]) for number, name in enumerate(TARGETS)), ("all", list(range(len(TARGETS))))]


def _root_mean_square(values: FloatArray) -> float:
    return float(np.sqrt((values**2).mean()))


if __name__ == "__main__":
    print(behavior_models(Path("docs/results"), quick=False))
