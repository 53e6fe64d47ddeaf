"""Measured coverage of every interval, and what the verdict said where the default interval missed.

python -m poela.experiments.coverage [--quick] [--repeats 1000] [--out docs/results]
"""

import argparse
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

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
from poela.experiments.coverage_environments import (
    Environment,
    TiltedTumor,
    heavy_tailed,
    sepsis_like,
    simulated,
    tabular,
    tilt_for,
)
from poela.experiments.results import Cell as Value
from poela.experiments.results import Report, ResultTable
from poela.experiments.running import HERE, Running

LEVELS = (0.8, 0.9, 0.95)
RESAMPLES = 1000
TRUSTED_ESS = 100
CALIBRATION, REPORTED = 0, 1  # parts of the seed: tilts are chosen on other logs than those reported

Outcomes = FloatArray  # [levels, 2]: where the truth was (−1 below the interval, 0 in it, 1 above it), and the width


@dataclass(frozen=True)
class Cell:
    """One environment at one distance from its logging policy."""

    environment: str
    ess: int


CELLS = (
    *(Cell(name, ess) for name in ("tabular", "tumor", "sepsis-like") for ess in (5, 20, 100, 500)),
    *(Cell("heavy-tailed", ess) for ess in (20, 66, 100, 210)),
)
QUICK_CELLS = (Cell("tabular", 500), Cell("heavy-tailed", 66))


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


def coverage_tables(cells: Sequence[Measured], command: str) -> tuple[ResultTable, ...]:
    """The tables: how far off each interval is at worst, every coverage, and the verdicts."""
    repeats = len(cells[0].ess)
    errors = ", ".join(f"{100 * np.sqrt(level * (1 - level) / repeats):.1f} at {level:.0%}" for level in LEVELS)
    note = f"{repeats} logs each; SNTIS; the standard error of a coverage is {errors}."
    return (
        ResultTable(
            f"Coverage of each interval where ESS is 100 or more: largest distance from nominal, in points "
            f"({len([cell for cell in cells if cell.cell.ess >= TRUSTED_ESS])} cases)",
            _worst_rows(cells),
            command,
            (note,),
        ),
        ResultTable("Coverage in percent", [row for cell in cells for row in _coverage_rows(cell)], command, (note,)),
        ResultTable(
            f"What the verdict says, and whether it warns where the 95% interval `{DEFAULT_INTERVAL}` misses",
            [_verdict_row(cell) for cell in cells],
            command,
            (note,),
        ),
    )


def _worst_rows(cells: Sequence[Measured]) -> list[dict[str, Value]]:
    trusted = [cell for cell in cells if cell.cell.ess >= TRUSTED_ESS]
    rows = []
    for name in dict.fromkeys(name for cell in trusted for name in cell.outcomes):
        distances = np.array([cell.coverage(name) for cell in trusted if name in cell.outcomes]) - 100 * np.array(
            LEVELS
        )
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
    return None if np.isnan(widths).all() else float(np.median(widths))


def coverage_table(repeats: int = 1000, *, quick: bool = False, seed: int = 0, jobs: int = 1) -> Report:
    """All tables; `quick` measures two cells on fewer logs."""
    cells, repeats = (QUICK_CELLS, min(repeats, 100)) if quick else (CELLS, repeats)
    if jobs > 1:
        with ProcessPoolExecutor(jobs) as pool:
            measured = list(pool.map(measure, cells, [repeats] * len(cells), [seed] * len(cells)))
    else:
        with progress("coverage", len(cells)) as advance:
            measured = []
            for cell in cells:
                measured.append(measure(cell, repeats, seed))
                advance(1, note=f"{cell.environment}, ESS {cell.ess}")
    command = f"python -m poela.experiments.coverage{' --quick' if quick else ''} --repeats {repeats} --seed {seed}"
    return Report("coverage", coverage_tables(measured, command))


def coverage(out: Path, quick: bool = False, seed: int = 0, running: Running = HERE) -> Report:
    """The experiment: measure, and write the tables to a directory."""
    return coverage_table(quick=quick, seed=seed, jobs=running.jobs or os.cpu_count() or 1).write(Path(out))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Measured coverage of every interval.")
    parser.add_argument("--quick", action="store_true", help="two cells on few logs")
    parser.add_argument("--repeats", type=int, default=1000, help="logs for each cell")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, help="a directory for coverage.md and Parquet files")
    options = parser.parse_args()
    report = coverage_table(options.repeats, quick=options.quick, seed=options.seed, jobs=options.jobs)
    print(report if options.out is None else report.write(options.out))


if __name__ == "__main__":
    main()
