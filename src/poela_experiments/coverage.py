"""Measured coverage of the default interval and its rivals, and what the words of the verdict are worth.

Limits of the verdict were set on the first set of processes; the second had no part in anything, and comes first.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from poela.core.errors import InputError
from poela.evaluation.bounds import Bounds, Sample, in_clusters
from poela.evaluation.estimators import ESTIMATORS, sntis
from poela.evaluation.evidence import Evidence
from poela.evaluation.intervals import INTERVALS, intervals_of
from poela.evaluation.scoring import Evaluator, Scoring
from poela.evaluation.verdict import WORDS
from poela_experiments.coverage_environments import (
    Environment,
    TiltedTumor,
    annotated,
    heavy_tailed,
    sepsis_like,
    simulated,
    tabular,
    tilt_for,
)
from poela_experiments.coverage_processes import FIRST, SECOND
from poela_experiments.frame.results import Cell as Value
from poela_experiments.frame.results import Report, ResultTable
from poela_experiments.frame.run import Run

LEVELS = (0.8, 0.9, 0.95)
RESAMPLES = 1000
CALIBRATION, REPORTED = 0, 1  # parts of the seed: tilts are chosen on other logs than those reported
LARGEST_SHARE = 0.6  # of episodes that may be effective: beyond, a target is hardly another policy
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


def cells_of(run: Run) -> list[Cell]:
    """Every process at every effective sample size that is well below its number of episodes."""
    return [
        Cell(part, name, ess)
        for part in SETS
        for name, environment in environments(part).items()
        if not run.size.only or name in run.size.only
        for ess in run.size.ess
        if ess <= LARGEST_SHARE * environment.episodes
    ]


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


def coverage_tables(run: Run, found: Sequence[Rows]) -> tuple[ResultTable, ...]:
    """The words of the verdict by set, every cell, and the default interval beside its rivals."""
    cells = [rows["cell"] for rows in found if rows["cell"]["reached"]]
    known = {(row["set"], row["log"], row["ESS asked"]) for row in cells}
    intervals = [row for rows in found for row in rows["intervals"]]
    intervals = [row for row in intervals if (row["set"], row["log"], row["ESS asked"]) in known]
    note = f"{run.size.repeats} logs in each cell; SNTIS; 95% intervals. No limit was set on the second set."
    return (
        run.table("words", "What the words of the verdict are worth", list(_word_rows(cells)), [note]),
        run.table("trusted", "Coverage where the verdict is trust", list(_trusted_rows(cells)), [note]),
        run.table("intervals", "All intervals where ESS is 40 or more", _rival_rows(intervals), [note]),
        run.table(
            "cells", "Every cell", cells, [note, "Misses and gains in percent; half-widths in standard deviations."]
        ),
    )


def _word_rows(cells: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Value]]:
    for part in SETS:
        own = [row for row in cells if row["set"] == part and not _estimated(row)]
        if not own:
            continue
        logs = sum(row["logs"] for row in own)
        informative = sum(row["informative"] for row in own)
        for word in WORDS:
            said, missed = (sum(row[name] for row in own) for name in (word, f"{word}: missed"))
            yield {
                "set": part,
                "word": word,
                "of all": 100 * said / logs,
                "misses": 100 * missed / said if said else None,
                "of informative": 100 * sum(row["informative, trusted"] for row in own) / max(informative, 1)
                if word == "trust"
                else None,
                "logs": logs,
                "without width": sum(row["without width"] for row in own),
                "impossible": sum(row["impossible"] for row in own),
            }


def _trusted_rows(cells: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Value]]:
    for row in cells:
        if row["trust"] >= max(0.2 * row["logs"], 1):
            yield {
                **{name: row[name] for name in ("set", "log", "episodes", "ESS", "expected ESS")},
                "trusted": 100 * row["trust"] / row["logs"],
                "covered": 100 * (1 - row["trust: missed"] / row["trust"]),
                "± covered": 100 * float(np.sqrt(0.95 * 0.05 / row["trust"])),
                "half-width": row["half-width"],
            }


def _rival_rows(intervals: Sequence[Mapping[str, Any]]) -> list[dict[str, Value]]:
    rows = []
    for name in INTERVALS:
        own = [row for row in intervals if row["interval"] == name and row["ESS asked"] >= 40]
        if own:
            at_95 = np.array([row["95%"] for row in own])
            row: dict[str, Value] = {"interval": name, "cells": len(own)}
            row |= {level: float(np.mean([row[level] for row in own])) for level in ("80%", "90%", "95%")}
            rows.append(row | {"lowest at 95%": float(at_95.min()), "below 90 at 95%": int((at_95 < 90).sum())})
    return rows


def _estimated(row: Mapping[str, Any]) -> bool:
    return str(row["log"]).startswith("estimated")


def coverage(run: Run) -> Report:
    """The experiment: measure every cell, and write the tables."""
    size = run.size
    parts = {
        f"{cell.part} {cell.environment} at an ESS of {cell.ess}": partial(
            measured_rows, cell, size.repeats, size.others, run.seed
        )
        for cell in cells_of(run)
    }
    return run.report(coverage_tables(run, [*run.made(parts).values()]))
