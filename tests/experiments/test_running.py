"""How experiments run: every one is a function of a run, and what an interrupted one has finished is kept."""

import inspect
from pathlib import Path

import pytest

from poela.studies.options import Execution
from poela_experiments.frame.published import Number, published
from poela_experiments.frame.results import Report, ResultTable
from poela_experiments.frame.run import Run
from poela_experiments.frame.settings import Size
from poela_experiments.registry import EXPERIMENTS


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_is_called_the_same_way(name: str) -> None:
    assert list(inspect.signature(EXPERIMENTS[name].function).parameters) == ["run"]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_both_sizes_with_the_same_settings(name: str) -> None:
    quick, full = (Size.of(name, size) for size in ("quick", "full"))
    assert set(quick.settings) - {"about"} == set(full.settings) - {"left_out"}


def test_a_setting_that_is_not_there_is_named() -> None:
    with pytest.raises(AttributeError, match="'episode'"):
        Size.of("demo", "quick").episode  # noqa: B018


def test_an_experiment_runs_with_its_own_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[Run] = []

    def function(run: Run) -> Report:
        runs.append(run)
        return run.report(())

    monkeypatch.setattr("poela_experiments.tumor.tumor_order", function)
    EXPERIMENTS["tumor-order"].run(tmp_path, quick=False, seed=3, execution=Execution("inline"))
    (run,) = runs
    assert (run.size, run.seed, run.out) == (Size.of("tumor-order", "full"), 3, tmp_path)
    assert run.command == "poela reproduce tumor-order --full --seed 3"


@pytest.mark.parametrize("name", ["tumor", "tumor-order", "sepsis", "cartpole"])
def test_a_small_version_says_what_it_is_and_shows_nothing_of_the_paper(name: str, tmp_path: Path) -> None:
    run = Run(name, tmp_path, Size.of(name, "quick"), 0)
    (paper, *_) = published("tumor").values()
    table = run.beside(paper, [Number("POELA", "Markov", "true value", 90.0, 1.0)])
    assert [*table.rows[0]] == ["contexts", "learner", "quantity", "ours", "± ours"]
    text = str(run.report([table]))
    assert text.startswith("A small version, beside which nothing of the paper can stand: ")
    assert "episodes" in text.partition("\n\n")[0]


def test_what_is_printed_fits_a_hundred_columns() -> None:
    row = {f"column {number}": "x" * 17 for number in range(9)}
    table = ResultTable("wide", "A title. " * 20, [row], "poela", ("a note " * 30,))
    lines = str(table).splitlines()
    assert max(map(len, lines)) <= 100
    assert "in the file wide.parquet only: column 5, column 6, column 7, column 8" in str(table)


def test_tables_are_told_apart_by_their_keys() -> None:
    tables = [ResultTable(key, "title", [], "poela") for key in ("a", "b", "a")]
    assert Report("x", tuple(tables[:2])).tables
    with pytest.raises(ValueError, match="same key: a, b, a"):
        Report("x", tuple(tables))
