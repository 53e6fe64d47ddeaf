"""How well each behavior model finds a known logging policy, and what cross-fitting does to evaluation.

The truth is known everywhere: the logging policies are the simulators' own, and the value of the evaluated policies
comes from roll-outs. Models are judged on logs that they never saw.
"""

import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from poela.behavior.annotation import annotation
from poela.behavior.boosted import BoostedBehavior
from poela.behavior.calibration import tempered
from poela.behavior.clone import CloneBehavior, RecurrentCloneBehavior
from poela.behavior.model import Behavior
from poela.behavior.multinomial import MultinomialBehavior
from poela.behavior.propensities import KNNBehavior
from poela.behavior.tempered import TemperedBehavior
from poela.core.arrays import FloatArray
from poela.core.errors import PoelaWarning
from poela.core.policy import Memoryless
from poela.data.trajectories import Trajectories
from poela.evaluation.evaluate import evaluate
from poela.simulators.episodes import run as simulated
from poela.simulators.sepsis import Sepsis, SepsisBehavior
from poela.simulators.sepsis_truth import sepsis_value
from poela.simulators.tumor import TumorBehavior, TumorGrowth
from poela_experiments.frame.kept import Part
from poela_experiments.frame.results import Cell, Report, ResultTable, mean_and_error
from poela_experiments.frame.run import Run
from poela_experiments.remembering import remembering_logs

FOLDS = 5
HISTORY = 3  # lags for the memoryless model that is given history features
SEPSIS = Sepsis("harmful")
REMEMBERING = "remembering"
LOGS = ("tumor", REMEMBERING, "sepsis")
IN_SAMPLE, CROSS_FITTED = "in-sample", "cross-fitted"

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
SHORT_MODELS: dict[str, Behavior] = {
    "kNN, k = 100": KNNBehavior(k=100),
    "multinomial": MultinomialBehavior(),
    "boosted trees": BoostedBehavior(max_rounds=50),
    "MLP": CloneBehavior(learning_rate=1e-3, max_steps=1500),
}


def _logs(name: str, episodes: int, seed: tuple[int, ...]) -> Trajectories:
    """Logs with the true propensities."""
    if name == REMEMBERING:
        return remembering_logs(episodes, seed)
    if name == "tumor":
        return simulated(TumorGrowth(), TumorBehavior(), episodes, seed)
    return simulated(SEPSIS, SepsisBehavior(), episodes, seed)


def behavior_models(run: Run) -> Report:
    """All tables."""
    size, seed = run.size, run.seed
    recoveries = {
        f"{log} by {model}": partial(recovery, behavior, log, size.episodes, seed, lags)
        for log, model, behavior, lags in _asked()
    }
    truths = {f"truth of {target}": partial(_true_survival, target, size.roll_outs, seed) for target in TARGETS}
    parts: dict[str, Part] = {**recoveries, **truths}
    for number in range(size.logs):
        for model, behavior in SHORT_MODELS.items():
            parts[f"log {number} by {model}"] = partial(_estimates, behavior, size.log_episodes, number, seed)
        parts[f"log {number}"] = partial(_yardsticks, size.log_episodes, number, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PoelaWarning)  # rare actions miss from small logs: the tables show the effect
        made = run.made(parts)
    return run.report([_recovery_table(run, made), *_error_tables(run, made)])


def _recovery_table(run: Run, made: Mapping[str, Any]) -> ResultTable:
    rows = [{"log": log, "model": model, **made[f"{log} by {model}"]} for log, model, _, _ in _asked()]
    notes = (
        f"{run.size.episodes} episodes to fit on, as many to judge by. Total variation: half the summed difference "
        "between estimated and true probabilities, mean over steps",
        "Lost log likelihood: per step, below that of the true probabilities. Calibration error: of the likeliest "
        "action, and of every action. Seconds: to fit and to apply, by one process (networks on a GPU where there is "
        "one)",
    )
    return run.table("recovery", "How well each model finds a known behavior", rows, notes)


def _asked() -> Iterator[tuple[str, str, Behavior, int]]:
    """Log, name of the model, the model, and how many lags it is given."""
    for log in LOGS:
        yield from ((log, name, behavior, 0) for name, behavior in MODELS.items())
        if log == REMEMBERING:
            yield log, f"MLP, {HISTORY} lags", MODELS["MLP"], HISTORY


def recovery(behavior: Behavior, log: str, episodes: int, seed: int, lags: int) -> dict[str, Cell]:
    """A model fitted on one log of known behavior, and compared with the truth on another.

    >>> recovery(MultinomialBehavior(), "remembering", episodes=50, seed=0, lags=0)["floored steps"]
    0
    """
    train, test = (_logs(log, episodes, (seed, role)) for role in (0, 1))
    if lags:
        train, test = train.with_history(lags), test.with_history(lags)
    started = time.perf_counter()
    report = behavior.fit(train, seed).annotation(test)
    seconds = time.perf_counter() - started
    estimated, true = report.trajectories.propensities, test.propensities
    assert estimated is not None
    assert true is not None
    best = float(np.log(test.logged_propensities).mean())
    return {
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


CAVEAT = (
    "Estimated propensities are smoother than the true ones, so fewer weights vanish and more are truncated. SNTIS "
    "then leans towards the mean logged return, which is near the truth for policies this near to the logging policy"
)

Errors = dict[tuple[str, str], FloatArray]  # (model, how it was fitted) -> estimate − truth, [logs, targets]


def _error_tables(run: Run, made: Mapping[str, Any]) -> Iterator[ResultTable]:
    """SNTIS of known policies on sepsis logs, with propensities from models that did or did not see the episode."""
    size = run.size
    truths = {target: made[f"truth of {target}"] for target in TARGETS}
    found: dict[tuple[str, str], list[FloatArray]] = {}
    for number in range(size.logs):
        by_how = {(model, how): v for model in SHORT_MODELS for how, v in made[f"log {number} by {model}"].items()}
        for key, values in {**by_how, **{(name, ""): v for name, v in made[f"log {number}"].items()}}.items():
            found.setdefault(key, []).append(np.array(values) - np.array([*truths.values()]))
    errors = {key: np.array(values) for key, values in found.items()}
    shown = ", ".join(f"{name} {truth:.2f}" for name, truth in truths.items())
    notes = (
        f"Root mean square of SNTIS - truth over {size.logs} logs of {size.log_episodes} episodes "
        "(25 actions, 44 features)",
        f"True survival of the evaluated policies, in %: {shown}",
        "Saved: mean absolute error in-sample less cross-fitted, paired by log, and its standard error",
    )
    title = "Evaluation error with in-sample and with cross-fitted propensities"
    yield run.table("errors", title, _pairs(errors), notes)
    yield run.table("yardsticks", "The same without estimated propensities", _references(errors), (*notes[:2], CAVEAT))


def _true_survival(target: str, roll_outs: int, seed: int) -> float:
    """What an evaluated policy is worth."""
    return sepsis_value(TARGETS[target], SEPSIS, roll_outs, seed).value


def _estimates(behavior: Behavior, episodes: int, number: int, seed: int, folds: int = FOLDS) -> dict[str, list[float]]:
    """The value of each target on one log, by how the model of the logging policy was fitted."""
    log = _logs("sepsis", episodes, (seed, 2, number))
    return {
        IN_SAMPLE: _by_sntis(behavior.fit(log, seed).annotation(log).trajectories),
        CROSS_FITTED: _by_sntis(annotation(behavior, log, folds, seed).trajectories),
    }


def _yardsticks(episodes: int, number: int, seed: int) -> dict[str, list[float]]:
    """The value of each target on one log without a model of the logging policy."""
    log = _logs("sepsis", episodes, (seed, 2, number))
    return {
        "known propensities": _by_sntis(log),
        "mean logged return, no weights": [float(log.returns().mean())] * len(TARGETS),
    }


def _by_sntis(log: Trajectories) -> list[float]:
    return [evaluate(target, log, estimator="sntis", interval=None).value for target in TARGETS.values()]


def _pairs(errors: Errors) -> list[dict[str, Cell]]:
    rows: list[dict[str, Cell]] = []
    for model in SHORT_MODELS:
        for target, columns in _columns():
            before, after = (errors[model, how][:, columns] for how in (IN_SAMPLE, CROSS_FITTED))
            saved, error = mean_and_error((np.abs(before) - np.abs(after)).mean(axis=1).tolist())
            rows.append(
                {
                    "model": model,
                    "target": target,
                    IN_SAMPLE: _root_mean_square(before),
                    CROSS_FITTED: _root_mean_square(after),
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
