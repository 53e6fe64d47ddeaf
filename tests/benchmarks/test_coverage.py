"""The measurement of coverage: its truths by enumeration, its counting by hand, and a reduced run of it."""

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.coverage_of_intervals import page
from benchmarks.coverage_of_intervals.cells import Cell, environments, measured_rows
from benchmarks.coverage_of_intervals.environments import heavy_tailed, sepsis_like, simulated, tabular, tilt_for
from benchmarks.coverage_of_intervals.measurement import cells_of, coverage
from benchmarks.coverage_of_intervals.processes import FIRST, SECOND, Process
from benchmarks.coverage_of_intervals.tables import coverage_tables, separation_rows
from tests.benchmarks.tiny import tiny_coverage
from tests.warm import warm

from poela.core.storage import read_json
from poela.data.trajectories import Trajectories
from poela.evaluation.weights import log_weights
from poela.simulators.tabular import TablePolicy
from poela.stats.verdict import WORDS
from poela.stats.weights import effective_sample_size
from poela.studies.options import Execution
from poela_experiments.frame import kept

ROOT = Path(__file__).parents[2]
RUN = tiny_coverage(Path("out"), repeats=4)


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
    assert 70 < reached < 140
    target = environment.target(tilt)
    found = [effective_sample_size(log_weights(target, log).episodes) for log in simulated(environment, 40, seed=5)]
    assert 70 < np.median(found) < 140


def test_logs_are_independent_of_how_many_are_asked_for() -> None:
    first: Trajectories = next(simulated(heavy_tailed(), 1, seed=4))
    again, *_ = simulated(heavy_tailed(), 3, seed=4)
    assert np.array_equal(first.actions, again.actions)


@pytest.mark.parametrize("process", [*FIRST[::5], *SECOND[::5]], ids=lambda process: process.name)
def test_processes_log_what_they_are_worth_and_weigh_one(process: Process) -> None:
    logs = process.simulate(20_000 // process.cluster_size * process.cluster_size, seed=(1, 2))
    returns = logs.returns()
    spread = returns.std() * np.sqrt(process.cluster_size / len(returns))
    assert returns.mean() == pytest.approx(process.truth(0.0), abs=5 * spread)
    if logs.propensities is not None:
        weights = np.exp(log_weights(process.target(0.2), logs).episodes)
        error = weights.std() * np.sqrt(process.cluster_size / len(weights))
        assert weights.mean() == pytest.approx(1.0, abs=5 * error)
        weighted = weights * returns
        error = (weights * (returns - weighted.mean())).std() * np.sqrt(process.cluster_size / len(weights))
        assert weighted.sum() / weights.sum() == pytest.approx(process.truth(0.2), abs=5 * error)


def test_the_sets_share_no_process_and_no_seed() -> None:
    assert not {process.name for process in FIRST} & {process.name for process in SECOND}
    assert not {process.seed for process in FIRST} & {process.seed for process in SECOND}
    assert len(SECOND) >= 16


def made_up(part: str, trusted: int, missed: int, **other: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys((*WORDS, *(f"{word}: missed" for word in WORDS)), 0)
    row |= {"set": part, "log": "made up", "episodes": 100, "ESS asked": 60, "ESS": 61.0, "expected ESS": 50.0}
    row |= {"logs": 100, "trust": trusted, "trust: missed": missed, "caution": 100 - trusted, "half-width": 0.2}
    row |= {"informative": 80, "informative, trusted": trusted, "without width": 0, "impossible": 0, "reached": True}
    return {"cell": row | other, "intervals": [{"set": part, "log": "made up", "ESS asked": 60, "interval": "normal"}]}


def test_words_are_counted_by_set_and_the_second_comes_first() -> None:
    cells = [made_up("first", 50, 5), made_up("second", 40, 1), made_up("second", 20, 2)]
    for cell in cells:
        cell["intervals"][0] |= {"80%": 70.0, "90%": 85.0, "95%": 88.0}
    words, trusted, intervals, every = coverage_tables(RUN, cells)
    assert [row["set"] for row in words.rows] == ["second"] * 3 + ["first"] * 3
    first = words.rows[0]
    assert (first["of all"], first["misses"], first["of informative"]) == (30.0, 5.0, 37.5)
    assert [row["covered"] for row in trusted.rows] == pytest.approx([90.0, 97.5, 90.0])
    assert intervals.rows[0]["below 90 at 95%"] == 3
    assert len(every.rows) == 3


def test_a_target_that_stays_near_and_estimated_propensities_do_not_count() -> None:
    cells = [
        made_up("first", 50, 5),
        made_up("first", 90, 90, reached=False),
        made_up("first", 90, 90, log="estimated x"),
    ]
    words = coverage_tables(RUN, [{**cell, "intervals": []} for cell in cells])[0]
    assert words.rows[0]["misses"] == 10.0


def test_what_the_words_separate_by_hand() -> None:
    """Two kinds of log: trust misses 2 of 60 and 3 of 40 (too few for a rate), caution 12 of 60 and 1 of 90."""

    def kind(trust: tuple[int, int], caution: tuple[int, int], width: float, **other: object) -> dict[str, object]:
        row: dict[str, object] = {
            "set": "second",
            "log": "made up",
            "reached": True,
            "half-width": width,
            "ESS": 100 * width,
        }
        counts = zip(("trust", "caution", "do not trust"), (trust, caution, (0, 0)), strict=True)
        for word, (said, missed) in counts:
            row |= {word: said, f"{word}: missed": missed}
        return row | other

    cells = [kind((60, 2), (60, 12), 0.2), kind((40, 3), (90, 1), 0.5)]
    left_out = [kind((99, 99), (99, 99), 9.0, reached=False), kind((99, 99), (0, 0), 9.0, log="estimated x")]
    trust, caution = separation_rows([*cells, *left_out])
    assert [row["word"] for row in (trust, caution)] == ["trust", "caution"]
    assert (trust["misses"], caution["misses"]) == pytest.approx((5.0, 100 * 13 / 150))
    assert (trust["worst kind"], caution["worst kind"]) == pytest.approx((100 * 2 / 60, 20.0))
    assert (trust["in failing kinds"], caution["in failing kinds"]) == pytest.approx((0.0, 40.0))
    assert (trust["half-width"], caution["half-width"], caution["ESS"]) == (0.2, 0.5, 50.0)
    assert trust["gross"] is None
    gross = {f"{word}: gross": count for word, count in (("trust", 3), ("caution", 6), ("do not trust", 0))}
    trust, caution = separation_rows([cell | gross for cell in cells])
    assert (trust["gross"], caution["gross"]) == pytest.approx((6.0, 8.0))


def test_a_cell_is_measured_and_the_default_interval_holds() -> None:
    rows = measured_rows(Cell("second", "normal bandit, 12 actions", 120), repeats=30, others=2, seed=3)
    assert rows["cell"]["covered"] >= 80  # at a true coverage of 95%, fewer than 24 of 30 once in 10,000 times
    assert rows["cell"]["without width"] == rows["cell"]["impossible"] == 0
    assert sum(rows["cell"][f"{word}: gross"] for word in WORDS) <= 3  # 30 times 0.3% and longer tails
    assert {"recombined", "bca", "normal"} <= {row["interval"] for row in rows["intervals"]}


def test_a_reduced_run_keeps_its_cells(tmp_path: Path) -> None:
    run = replace(tiny_coverage(tmp_path, repeats=3, others=1, ess=[210]), execution=Execution(jobs=2))
    assert [cell.environment for cell in cells_of(run)] == ["yes 2%, 2 actions", "heavy-tailed"]
    report = coverage(run)
    assert [table.key for table in report.tables] == ["words", "trusted", "intervals", "cells"]
    assert (tmp_path / "coverage.md").is_file()
    assert {path.stem for path in (tmp_path / "coverage").iterdir()} == {
        "words",
        "trusted",
        "intervals",
        "cells",
        "made",
    }
    assert len(list((tmp_path / kept.DIRECTORY).iterdir())) == 2
    assert len(environments("second")) == len(SECOND)


def script(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [str(warm().python), str(ROOT / "benchmarks" / "coverage.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_the_script_makes_a_share_of_the_cells(tmp_path: Path) -> None:
    """Of five cells the last, that of the heavy tails at an ESS of 210, by the code of the folder and the packages."""
    done = script("--shard", "5/5", "--jobs", "1", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 of 5 parts are made")
    (file,) = (tmp_path / kept.DIRECTORY).iterdir()
    about = read_json(file)["about"]
    assert about["command"] == "python benchmarks/coverage.py --quick --seed 0 --shard 5/5"
    assert about["code"] == RUN.code != kept.code_version()


def test_what_the_script_cannot_do_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    done = script("--join", str(tmp_path), "--out", str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: 5 of 5 parts of coverage are missing")
    assert len(done.stderr.splitlines()) == 1


def test_committed_page_on_intervals_is_that_of_the_stored_results() -> None:
    """If this fails: python benchmarks/coverage.py --page docs/intervals.md."""
    text = (ROOT / "docs" / "intervals.md").read_text(encoding="utf-8")
    assert page.filled(text, page.coverage_summary(ROOT / "docs" / "results")) == text
