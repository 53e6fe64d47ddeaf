"""The coverage experiment: its truths by enumeration, its counting by hand, and a reduced run of it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.experiments.tiny import tiny

from poela.data.trajectories import Trajectories
from poela.evaluation.weights import effective_sample_size, log_weights
from poela.simulators.tabular import TablePolicy
from poela.studies.learning import Execution
from poela_experiments.coverage import Cell, Rows, coverage, coverage_tables, environments, measured_rows
from poela_experiments.coverage_environments import heavy_tailed, sepsis_like, simulated, tabular, tilt_for
from poela_experiments.frame import kept
from poela_experiments.pages.coverage import coverage_summary

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
    tilt, reached = tilt_for(environment, 100.0, seed=(3, 3))
    target = environment.target(tilt)
    found = [effective_sample_size(log_weights(target, log).episodes) for log in simulated(environment, 40, seed=5)]
    assert 70 < np.median(found) < 140
    assert 90 < reached < 110


def test_logs_are_independent_of_how_many_are_asked_for() -> None:
    first: Trajectories = next(simulated(heavy_tailed(), 1, seed=4))
    again, *_ = simulated(heavy_tailed(), 3, seed=4)
    assert np.array_equal(first.actions, again.actions)


def made_up(part: str, log: str, words: tuple[int, int, int], missed: tuple[int, int, int]) -> Rows:
    """A cell of ten logs: how often each word was said, and how often the interval missed then."""
    said = {"trust": words[0], "caution": words[1], "do not trust": words[2]}
    misses = {f"{word}: missed": count for word, count in zip(said, missed, strict=True)}
    row = {"set": part, "log": log, "episodes": 500, "ESS asked": 60, "ESS": 61.0, "expected ESS": 50.0, "logs": 10}
    row |= {"half-width": 0.2, "without width": 0, "impossible": 1, "informative": 8, "informative, trusted": 4}
    rival = {"set": part, "log": log, "ESS asked": 60, "80%": 70.0, "90%": 80.0}
    rivals = [{**rival, "interval": name, "95%": covered} for name, covered in (("recombined", 95.0), ("bca", 88.0))]
    return {"cell": {**row, **said, **misses, "reached": log != "far"}, "intervals": rivals}


CELLS = [
    made_up("second", "one", (5, 3, 2), (1, 0, 1)),
    made_up("second", "two", (10, 0, 0), (0, 0, 0)),
    made_up("second", "far", (0, 0, 10), (0, 0, 10)),  # its target was never as far from the log as asked
    made_up("second", "estimated propensities", (0, 10, 0), (0, 9, 0)),
    made_up("first", "three", (1, 9, 0), (0, 3, 0)),
]


def test_counting_by_hand() -> None:
    words, trusted, intervals, cells = coverage_tables(RUN, CELLS)
    told = {(row["set"], row["word"]): row for row in words.rows}
    trust = told["second", "trust"]
    assert (trust["of all"], trust["logs"], trust["impossible"]) == (75.0, 20, 2)
    assert trust["misses"] == pytest.approx(100 / 15)
    assert trust["of informative"] == 50.0
    assert told["second", "do not trust"]["misses"] == 50.0
    assert told["first", "caution"]["misses"] == pytest.approx(100 / 3)
    assert told["first", "do not trust"]["misses"] is None
    assert [(row["log"], row["covered"]) for row in trusted.rows] == [("one", 80.0), ("two", 100.0)]
    assert [(row["interval"], row["cells"], row["95%"]) for row in intervals.rows] == [
        ("recombined", 4, 95.0),
        ("bca", 4, 88.0),
    ]
    assert [row["log"] for row in cells.rows] == ["one", "two", "estimated propensities", "three"]


def test_the_page_begins_with_the_set_on_which_nothing_was_set(tmp_path: Path) -> None:
    RUN.report(coverage_tables(RUN, CELLS)).write(tmp_path)
    page = coverage_summary(tmp_path)
    first_row = "| trust | 75.0 | 6.7 | 50.0 |"
    assert page.index("no part in anything") < page.index(first_row) < page.index("the limits were set")
    assert page.index(first_row) < page.index("| one | 500 | 61 | 50 | 80.0 ± 9.7 | 0.20 |") < page.index("| `bca` |")
    assert "far" not in page


def test_environments_by_name() -> None:
    for part in ("first", "second"):
        assert all(environment.name == name for name, environment in environments(part).items())
    assert not set(environments("first")) & set(environments("second"))


def test_reduced_run(tmp_path: Path) -> None:
    run = replace(tiny("coverage", tmp_path, repeats=40, only=["heavy-tailed"]), execution=Execution(jobs=2))
    report = coverage(run)
    words, _, intervals, cells = report.tables
    assert [(row["ESS asked"], row["logs"]) for row in cells.rows] == [(60, 40), (210, 40)]
    # At a true coverage of 95%, fewer than 34 of 40 logs are covered once in 300 times.
    assert all(float(str(row["covered"])) >= 85.0 for row in cells.rows)
    assert sum(float(str(row["of all"])) for row in words.rows) == pytest.approx(100.0)
    assert {"recombined", "normal", "bca"} <= {row["interval"] for row in intervals.rows}
    written = {"coverage.md", *(f"coverage-{key}.parquet" for key in ("words", "trusted", "intervals", "cells"))}
    assert {path.name for path in tmp_path.iterdir()} == written | {kept.DIRECTORY}


def test_the_same_seed_gives_the_same_numbers() -> None:
    cell = Cell("first", "heavy-tailed", 210)
    first, second, other = (measured_rows(cell, 3, 1, seed) for seed in (0, 0, 1))
    assert first == second
    assert first["cell"]["ESS"] != other["cell"]["ESS"]
