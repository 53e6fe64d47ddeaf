"""The coverage experiment: its truths by enumeration, its counting by hand, and a reduced run of it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.experiments.tiny import tiny

from poela.data.trajectories import Trajectories
from poela.evaluation.verdict import Word
from poela.evaluation.weights import effective_sample_size, log_weights
from poela.simulators.tabular import TablePolicy
from poela.studies.learning import Execution
from poela_experiments.coverage import (
    LEVELS,
    Cell,
    Measured,
    coverage,
    coverage_tables,
    environment_of,
    measure,
    rows_of,
)
from poela_experiments.coverage_environments import heavy_tailed, sepsis_like, simulated, tabular, tilt_for
from poela_experiments.frame import kept

RUN = tiny("coverage", Path("out"), repeats=4)


def test_the_truth_is_the_sum_over_every_episode() -> None:
    environment = heavy_tailed()
    logs, chances = environment.problem.episodes_of(TablePolicy(environment.problem, environment.behavior))
    weights = np.exp(log_weights(environment.target(0.7), logs).episodes)
    assert chances.sum() == pytest.approx(1.0)
    assert chances @ weights == pytest.approx(1.0)
    assert chances @ (weights * logs.returns()) == pytest.approx(environment.truth(0.7), abs=1e-9)


def test_noise_does_not_move_the_truth() -> None:
    environment = heavy_tailed()
    returns = environment.simulate(40_000, seed=1).returns()
    assert returns.mean() == pytest.approx(environment.truth(0.0), abs=4 * returns.std() / 200)
    skewness = ((returns - returns.mean()) ** 3).mean() / returns.std() ** 3
    assert skewness > 0.5


def test_recovery_does_not_depend_on_the_policy() -> None:
    environment = sepsis_like()
    assert environment.table(2.0)[-1] == pytest.approx(environment.behavior[-1])
    returns = environment.simulate(20_000, seed=0).returns()
    assert returns.mean() == pytest.approx(environment.truth(0.0), abs=4 * 50 / np.sqrt(20_000))


def test_the_tilt_gives_the_effective_sample_size() -> None:
    environment = tabular()
    target = environment.target(tilt_for(environment, 100.0, seed=(3, 3)))
    found = [effective_sample_size(log_weights(target, log).episodes) for log in simulated(environment, 40, seed=5)]
    assert 70 < np.median(found) < 140


def test_logs_are_independent_of_how_many_are_asked_for() -> None:
    first: Trajectories = next(simulated(heavy_tailed(), 1, seed=4))
    again, *_ = simulated(heavy_tailed(), 3, seed=4)
    assert np.array_equal(first.actions, again.actions)


def made_up(sides: list[float]) -> Measured:
    outcomes = np.zeros((4, len(LEVELS), 2))
    outcomes[:, -1, 0] = sides
    outcomes[:, -1, 1] = [1.0, 2.0, 3.0, 4.0]
    words: tuple[Word, ...] = ("trust", "caution", "do not trust", "trust")
    return Measured(Cell("tabular", 100), 1000, np.array([90.0, 100.0, 110.0, 120.0]), {"recombined": outcomes}, words)


def test_counting_by_hand() -> None:
    worst, shares, verdicts = coverage_tables(RUN, [rows_of(made_up([0.0, -1.0, 1.0, 0.0]))])
    (row,) = shares.rows
    assert (row["80%"], row["95%"], row["below 95%"], row["above 95%"]) == (100.0, 50.0, 25.0, 25.0)
    assert (row["median ESS"], row["median width 95%"]) == (105.0, 2.5)
    assert worst.rows[0]["lowest at 95%"] == pytest.approx(-45.0)
    (verdict,) = verdicts.rows
    assert (verdict["trust"], verdict["misses"], verdict["misses warned of"]) == (50.0, 2, 100.0)


def test_no_miss_needs_no_warning() -> None:
    assert coverage_tables(RUN, [rows_of(made_up([0.0] * 4))])[2].rows[0]["misses warned of"] is None


def test_environments_by_name() -> None:
    for name in ("tabular", "tumor", "sepsis-like", "heavy-tailed"):
        assert environment_of(name).name == name


def test_reduced_run(tmp_path: Path) -> None:
    run = replace(tiny("coverage", tmp_path, repeats=40), execution=Execution(jobs=2))
    cells = [Cell(*cell) for cell in run.size.cells]
    report = coverage(run)
    rows = {(row["environment"], row["ESS"], row["interval"]): row for row in report.tables[1].rows}
    for cell in cells:
        # At a true coverage of 95%, fewer than 34 of 40 logs are covered once in 300 times.
        assert float(str(rows[cell.environment, cell.ess, "recombined"]["95%"])) >= 85.0
    heavy = rows["heavy-tailed", 66, "recombined"], rows["heavy-tailed", 66, "normal"]
    assert float(str(heavy[0]["median width 95%"])) > float(str(heavy[1]["median width 95%"]))
    verdict = report.tables[2].rows[1]
    assert verdict["trust"] == 0.0
    written = {"coverage.md", *(f"coverage-{key}.parquet" for key in ("worst", "intervals", "verdicts"))}
    assert {path.name for path in tmp_path.iterdir()} == written | {kept.DIRECTORY}


def test_the_same_seed_gives_the_same_numbers() -> None:
    cell = Cell("heavy-tailed", 210)
    first, second, other = (measure(cell, 3, seed) for seed in (0, 0, 1))
    assert all(np.array_equal(first.outcomes[name], second.outcomes[name], equal_nan=True) for name in first.outcomes)
    assert not np.array_equal(first.ess, other.ess)
