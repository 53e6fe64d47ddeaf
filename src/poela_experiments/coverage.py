"""Measured coverage of every interval, and what the verdict said where the default interval missed."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from signal import SIG_DFL, SIGINT, signal
from typing import Any

import numpy as np
from scipy.special import ndtri

from poela.core.arrays import BoolArray, FloatArray
from poela.core.errors import InputError
from poela.core.progress import progress
from poela.evaluation.bootstrap import bca_ends, percentile_ends, resample, studentised_ends
from poela.evaluation.bounds import Bounds, IntervalMethod, Sample
from poela.evaluation.concentration import empirical_bernstein, hoeffding
from poela.evaluation.contributions import Contributions
from poela.evaluation.diagnostics import diagnose
from poela.evaluation.empirical_likelihood import log_likelihood_ratio
from poela.evaluation.estimators import sntis
from poela.evaluation.evidence import Evidence
from poela.evaluation.intervals import DEFAULT_INTERVAL
from poela.evaluation.normal import normal, student
from poela.evaluation.recombination import recombined_contributions, recombined_ends, studentised_errors
from poela.evaluation.verdict import WORDS, Word, verdict_on
from poela.evaluation.weights import log_weights
from poela_experiments.coverage_environments import (
    Environment,
    TiltedTumor,
    heavy_tailed,
    sepsis_like,
    simulated,
    tabular,
    tilt_for,
)
from poela_experiments.frame.kept import kept
from poela_experiments.frame.results import Cell as Value
from poela_experiments.frame.results import Report, ResultTable
from poela_experiments.frame.run import Run

LEVELS = (0.8, 0.9, 0.95)
RESAMPLES = 1000
TRUSTED_ESS = 100
CALIBRATION, REPORTED = 0, 1  # parts of the seed: tilts are chosen on other logs than those reported

Rows = dict[str, Any]  # what the tables say of a cell: "coverage", a list of rows, and "verdict", a row
Outcomes = FloatArray  # [levels, 2]: where the truth was (−1 below the interval, 0 in it, 1 above it), and the width


@dataclass(frozen=True)
class Cell:
    """One environment at one distance from its logging policy."""

    environment: str
    ess: int


@dataclass(frozen=True, eq=False)
class Measured:
    """What happened in a cell."""

    cell: Cell
    episodes: int
    ess: FloatArray  # [repeats]
    outcomes: Mapping[str, FloatArray]  # for each interval [repeats, levels, 2], as `Outcomes`
    verdicts: tuple[Word, ...]

    def coverage(self, interval: str) -> FloatArray:
        """In percent, at each level."""
        return np.asarray(100 * (self.outcomes[interval][:, :, 0] == 0).mean(axis=0))

    def missed(self, interval: str) -> BoolArray:
        """Which repeats missed at the highest level."""
        return np.asarray(self.outcomes[interval][:, -1, 0] != 0)


def environment_of(name: str) -> Environment:
    """The environment of this name.

    >>> environment_of("tumor").episodes
    1000
    """
    if name == "tumor":
        return TiltedTumor()
    return {"tabular": tabular, "sepsis-like": sepsis_like, "heavy-tailed": heavy_tailed}[name]()


def measure(cell: Cell, repeats: int, seed: int = 0) -> Measured:
    """Every interval on `repeats` fresh logs.

    >>> measure(Cell("heavy-tailed", 210), repeats=3).outcomes["normal"].shape
    (3, 3, 2)
    """
    environment = environment_of(cell.environment)
    tilt = tilt_for(environment, cell.ess, (seed, CALIBRATION))
    target, truth = environment.target(tilt), environment.truth(tilt)
    outcomes: dict[str, list[Outcomes]] = {}
    ess, verdicts = [], []
    for number, log in enumerate(simulated(environment, repeats, (seed, REPORTED, cell.ess))):
        weights = log_weights(target, log)
        evidence = Evidence(weights, log)
        used, truncation = weights.truncated(evidence.truncation), evidence.truncation
        diagnostics = diagnose(weights, used=used, truncation=truncation)
        ess.append(diagnostics.ess)
        verdicts.append(verdict_on(diagnostics).word)
        for name, outcome in _every_interval(evidence, environment.bounds, truth, number):
            outcomes.setdefault(name, []).append(outcome)
    stacked = {name: np.stack(each) for name, each in outcomes.items()}
    return Measured(cell, environment.episodes, np.array(ess), stacked, tuple(verdicts))


def _every_interval(
    evidence: Evidence, bounds: Bounds | None, truth: float, seed: int
) -> Iterator[tuple[str, Outcomes]]:
    """Each interval's outcomes; resamples are drawn once for all levels and all intervals that use them."""
    contributions = sntis(evidence)
    drawn = resample(contributions, RESAMPLES, seed, standard_errors=True)
    pool = recombined_contributions(evidence, sntis, seed)
    errors = studentised_errors(pool, contributions.n_episodes, RESAMPLES, seed)
    left_out = contributions.leave_one_out
    ends: dict[str, Callable[[float], tuple[float, float]]] = {
        "recombined": lambda level: recombined_ends(errors, contributions, evidence.returns, level),
        "percentile": lambda level: percentile_ends(drawn, level),
        "bca": lambda level: bca_ends(drawn, contributions.value, left_out, level),
        "studentised": lambda level: studentised_ends(drawn, contributions, level),
    }
    plain: dict[str, IntervalMethod] = {"student": student, "normal": normal}
    plain |= {"hoeffding": hoeffding, "empirical_bernstein": empirical_bernstein} if bounds else {}
    for name, method in plain.items():
        intervals = [method(Sample(contributions, level, bounds=bounds)) for level in LEVELS]
        yield name, np.array([_outcome(interval.low, interval.high, truth) for interval in intervals])
    for name, ends_at in ends.items():
        yield name, np.array([_outcome(*ends_at(level), truth) for level in LEVELS])
    yield "el", _likelihood_outcomes(contributions, truth, moment=False)
    yield "el_moment", _likelihood_outcomes(contributions, truth, moment=True)


def _outcome(low: float, high: float, truth: float) -> tuple[float, float]:
    return float(truth > high) - float(truth < low), high - low


def _likelihood_outcomes(contributions: Contributions, truth: float, *, moment: bool) -> Outcomes:
    """Whether the truth is in an empirical likelihood interval needs its likelihood, not the interval's ends."""
    try:
        lost = log_likelihood_ratio(contributions, truth, moment=moment)
    except InputError:  # the weights cannot be made to average 1: there is no interval
        lost = np.inf
    side = 1.0 if truth > contributions.value else -1.0
    return np.array([(side * (lost > ndtri((1 + level) / 2) ** 2), np.nan) for level in LEVELS])


def rows_of(measured: Measured) -> Rows:
    """What the tables say of a cell."""
    return {"coverage": list(_coverage_rows(measured)), "verdict": _verdict_row(measured)}


def measured_rows(cell: Cell, repeats: int, seed: int) -> Rows:
    """What the tables say of a cell, once it is measured.

    >>> measured_rows(Cell("heavy-tailed", 210), repeats=3, seed=0)["verdict"]["ESS"]
    210
    """
    return rows_of(measure(cell, repeats, seed))


def coverage_tables(run: Run, cells: Sequence[Rows]) -> tuple[ResultTable, ...]:
    """The tables: how far off each interval is at worst, every coverage, and the verdicts."""
    repeats = run.size.repeats
    errors = ", ".join(f"{100 * np.sqrt(level * (1 - level) / repeats):.1f} at {level:.0%}" for level in LEVELS)
    note = f"{repeats} logs each; SNTIS; the standard error of a coverage is {errors}."
    coverage = [row for cell in cells for row in cell["coverage"]]
    verdicts = [cell["verdict"] for cell in cells]
    return (
        run.table(
            "worst",
            f"Coverage of each interval where ESS is {TRUSTED_ESS} or more: largest distance from nominal, in points "
            f"({sum(row['ESS'] >= TRUSTED_ESS for row in verdicts)} cases)",
            _worst_rows([row for row in coverage if row["ESS"] >= TRUSTED_ESS]),
            (note,),
        ),
        run.table("intervals", "Coverage in percent", coverage, (note,)),
        run.table(
            "verdicts",
            f"What the verdict says, and whether it warns where the 95% interval `{DEFAULT_INTERVAL}` misses",
            verdicts,
            (note,),
        ),
    )


def _worst_rows(trusted: Sequence[Mapping[str, Any]]) -> list[dict[str, Value]]:
    rows = []
    for name in dict.fromkeys(row["interval"] for row in trusted):
        covered = [[row[f"{level:.0%}"] for level in LEVELS] for row in trusted if row["interval"] == name]
        distances = np.array(covered) - 100 * np.array(LEVELS)
        row: dict[str, Value] = {"interval": name}
        for index, level in enumerate(LEVELS):
            row[f"lowest at {level:.0%}"] = float(distances[:, index].min())
            row[f"highest at {level:.0%}"] = float(distances[:, index].max())
        rows.append((float(np.abs(distances).mean()), row))
    return [row | {"mean distance": mean} for mean, row in sorted(rows, key=lambda pair: pair[0])]


def _coverage_rows(measured: Measured) -> Iterator[dict[str, Value]]:
    for name, outcomes in measured.outcomes.items():
        covered, sides = measured.coverage(name), outcomes[:, -1, 0]
        yield {
            "environment": measured.cell.environment,
            "episodes": measured.episodes,
            "ESS": measured.cell.ess,
            "median ESS": float(np.median(measured.ess)),
            "interval": name,
            **{f"{level:.0%}": float(covered[index]) for index, level in enumerate(LEVELS)},
            "below 95%": float(100 * (sides < 0).mean()),
            "above 95%": float(100 * (sides > 0).mean()),
            "median width 95%": _median(outcomes[:, -1, 1]),
        }


def _verdict_row(measured: Measured) -> dict[str, Value]:
    verdicts = np.array(measured.verdicts)
    missed = measured.missed(DEFAULT_INTERVAL)
    return {
        "environment": measured.cell.environment,
        "ESS": measured.cell.ess,
        **{word: float(100 * (verdicts == word).mean()) for word in WORDS},
        "misses": int(missed.sum()),
        "misses warned of": float(100 * (verdicts[missed] != "trust").mean()) if missed.any() else None,
    }


def _median(widths: FloatArray) -> float | None:
    """None where there is no finite one."""
    median = np.nan if np.isnan(widths).any() else float(np.median(widths))
    return median if np.isfinite(median) else None


def coverage(run: Run) -> Report:
    """The experiment: measure, and write the tables to a directory; finished cells are kept there."""
    cells = [Cell(*cell) for cell in run.size.cells]
    found = []
    with progress("coverage", len(cells)) as advance:
        for rows in _each(partial(_kept_rows, run.out, run.size.repeats, run.seed), cells, run.execution.jobs):
            found.append(rows)
            advance()
    return run.report(coverage_tables(run, found))


def _each(function: Callable[[Cell], Rows], cells: Sequence[Cell], jobs: int | None) -> Iterator[Rows]:
    jobs = jobs or os.cpu_count() or 1
    if jobs == 1:
        yield from map(function, cells)
        return
    # An interruption from the keyboard ends the processes too; else they would finish what they were given.
    with ProcessPoolExecutor(jobs, initializer=signal, initargs=(SIGINT, SIG_DFL)) as pool:
        yield from pool.map(function, cells)


def _kept_rows(out: Path, repeats: int, seed: int, cell: Cell) -> Rows:
    return kept(out, f"{cell.environment} at an ESS of {cell.ess}", measured_rows, cell, repeats, seed)
