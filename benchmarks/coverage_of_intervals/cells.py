"""One cell: a process with a known truth at one distance from its logging policy, and what intervals make of its logs.

Limits of the verdict were set on the first set of processes; the second had no part in anything, and comes first.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from poela.core.errors import InputError
from poela.evaluation.estimators import ESTIMATORS, sntis
from poela.evaluation.evidence import Evidence
from poela.evaluation.scoring import Evaluator, Scoring
from poela.stats.bounds import Bounds, Sample, in_clusters
from poela.stats.intervals import INTERVALS, intervals_of
from poela.stats.verdict import WORDS
from poela_experiments.frame.results import Cell as Value

from .environments import (
    Environment,
    TiltedTumor,
    annotated,
    heavy_tailed,
    sepsis_like,
    simulated,
    tabular,
    tilt_for,
)
from .processes import FIRST, SECOND

LEVELS = (0.8, 0.9, 0.95)
RESAMPLES = 1000
GROSS = 3.0  # standard errors: an estimate farther off is grossly wrong
CALIBRATION, REPORTED = 0, 1  # parts of the seed: tilts are chosen on other logs than those reported
SETS = ("second", "first")  # as they are shown

Rows = dict[str, Any]  # what the tables say of a cell: "cell", a row, and "intervals", a list of rows


@dataclass(frozen=True)
class Cell:
    """One process at one distance from its logging policy."""

    part: str  # the set that it belongs to
    environment: str
    ess: int


def environments(part: str) -> dict[str, Environment]:
    """The processes of a set, by name.

    >>> len(environments("first")), len(environments("second"))
    (27, 22)
    """
    if part == "second":
        return {process.name: process for process in SECOND}
    older: tuple[Environment, ...] = (TiltedTumor(), tabular(), sepsis_like(), heavy_tailed())
    return {process.name: process for process in (*FIRST, *older)}


def measured_rows(cell: Cell, repeats: int, others: int, seed: int) -> Rows:
    """What the tables say of a cell; rivals of the default interval are measured on the first `others` logs.

    >>> measured_rows(Cell("first", "heavy-tailed", 210), repeats=3, others=1, seed=0)["cell"]["episodes"]
    600
    """
    environment = environments(cell.part)[cell.environment]
    tilt, reached = tilt_for(environment, cell.ess, (seed, CALIBRATION))
    target, truth = environment.target(tilt), environment.truth(tilt)
    gain = truth - environment.truth(0.0)
    found: list[dict[str, float]] = []
    rivals: dict[str, list[list[float]]] = {}
    for number, log in enumerate(simulated(environment, repeats, (seed, REPORTED, cell.ess, SETS.index(cell.part)))):
        logs = annotated(log)
        evaluator = Evaluator(logs, Scoring(seed=number, resamples=RESAMPLES))
        [evidence] = evaluator.evidence([target])
        found.append(_outcome(evaluator, evidence, truth, gain))
        if number < others:
            for name, outcomes in _rivals(evaluator, evidence, environment.bounds, truth, number):
                rivals.setdefault(name, []).append(outcomes)
    return {"cell": _cell_row(cell, environment, reached, found), "intervals": list(_interval_rows(cell, rivals))}


def _outcome(evaluator: Evaluator, evidence: Evidence, truth: float, gain: float) -> dict[str, Any]:
    """What happened on one log."""
    estimate, spread = evaluator.estimate(evidence), float(evaluator.returns.std())
    if estimate.low is None or estimate.high is None:
        low = high = np.nan
    else:
        low, high = estimate.low, estimate.high
    bounds = evaluator.bounds
    possible = bounds is None or (low >= bounds.lowest_return and high <= bounds.highest_return)
    own = estimate.gain
    return {
        "ess": estimate.ess,
        "expected": estimate.diagnostics.expected_ess,
        "word": WORDS.index(estimate.verdict),
        "below": truth < low,
        "above": truth > high,
        "none": not high > low,
        "impossible": not possible,
        "informative": (high - low) / 2 < spread / 2,
        "half-width": (high - low) / 2 / spread if spread else np.nan,
        "error": (estimate.value - truth) / estimate.standard_error if estimate.standard_error else np.nan,
        "gain below": own is not None and own.low is not None and gain < own.low,
        "gain above": own is not None and own.high is not None and gain > own.high,
    }


def _rivals(
    evaluator: Evaluator, evidence: Evidence, bounds: Bounds | None, truth: float, seed: int
) -> Iterator[tuple[str, list[float]]]:
    """Whether each interval holds the truth at each level."""
    contributions = in_clusters(sntis(evidence), evaluator.logs.clusters)
    pool = evaluator.pool(evidence, ESTIMATORS["sntis"])
    recombined = None if pool is None else pool.contributions(sntis, evidence.truncation)
    own = bounds or evaluator.bounds
    sample = Sample(contributions, seed, RESAMPLES, evaluator.returns, own, recombined)
    for name, method in INTERVALS.items():
        if method.problems(sample):
            continue
        try:
            intervals = intervals_of(name, sample, LEVELS)
        except InputError:  # such as weights that cannot be made to average 1
            yield name, [0.0] * len(LEVELS)
            continue
        yield name, [float(interval.low <= truth <= interval.high) for interval in intervals]


def _cell_row(
    cell: Cell, environment: Environment, reached: float, found: Sequence[Mapping[str, Any]]
) -> dict[str, Value]:
    column = {name: np.array([one[name] for one in found]) for name in found[0]}
    missed, trusted = column["below"] | column["above"] | column["none"], column["word"] == 0
    row: dict[str, Value] = {
        "set": cell.part,
        "log": environment.name,
        "episodes": environment.episodes,
        "ESS asked": cell.ess,
        "ESS": float(np.median(column["ess"])),
        "expected ESS": float(np.nanmedian(column["expected"])) if np.isfinite(column["expected"]).any() else None,
        "logs": len(found),
        "covered": float(100 * (1 - missed.mean())),
        "truth below": float(100 * column["below"].mean()),
        "truth above": float(100 * column["above"].mean()),
        "half-width": float(np.median(np.nan_to_num(column["half-width"], nan=np.inf).clip(max=99.0))),
        "without width": int(column["none"].sum()),
        "impossible": int(column["impossible"].sum()),
        "gain below": float(100 * column["gain below"].mean()),
        "gain above": float(100 * column["gain above"].mean()),
    }
    for number, word in enumerate(WORDS):
        said = column["word"] == number
        row |= {word: int(said.sum()), f"{word}: missed": int((said & missed).sum())}
        # Without an error to divide by, the estimate knows nothing of how far off it is.
        row[f"{word}: gross"] = int((said & ~(np.abs(column["error"]) <= GROSS)).sum())
        for of, name in (("value", ""), ("gain", "gain ")):
            row |= {f"{word}: {of} {end}": int((said & column[f"{name}{end}"]).sum()) for end in ("below", "above")}
    return row | {
        "informative": int(column["informative"].sum()),
        "informative, trusted": int((column["informative"] & trusted).sum()),
        "reached": bool(reached <= 1.3 * cell.ess),
    }


def _interval_rows(cell: Cell, rivals: Mapping[str, Sequence[Sequence[float]]]) -> Iterator[dict[str, Value]]:
    for name, outcomes in rivals.items():
        covered = 100 * np.mean(outcomes, axis=0)
        levels = {f"{level:.0%}": float(covered[index]) for index, level in enumerate(LEVELS)}
        yield {"set": cell.part, "log": cell.environment, "ESS asked": cell.ess, "interval": name, **levels}
