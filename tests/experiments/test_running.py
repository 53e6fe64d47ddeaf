"""How experiments run: every one is a function of a run, and what an interrupted one has finished is kept."""

import inspect
from pathlib import Path
from typing import Any

import pytest
from tests.experiments.tiny import tiny_tumor

from poela.studies.options import Execution
from poela.studies.records import RunRecord
from poela.studies.store import Store
from poela_experiments.frame.results import Report, ResultTable
from poela_experiments.frame.run import Run
from poela_experiments.frame.settings import Size
from poela_experiments.registry import EXPERIMENTS
from poela_experiments.tumor import outcomes_of
from poela_experiments.tumor_studies import TumorTask


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_is_called_the_same_way(name: str) -> None:
    assert list(inspect.signature(EXPERIMENTS[name].function).parameters) == ["run"]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_both_sizes_with_the_same_settings(name: str) -> None:
    quick, full = (Size.of(name, size) for size in ("quick", "full"))
    assert set(quick.settings) - {"grids"} == set(full.settings)


def test_a_setting_that_is_not_there_is_named() -> None:
    with pytest.raises(AttributeError, match="'episode'"):
        Size.of("demo", "quick").episode  # noqa: B018


def test_an_experiment_runs_with_its_own_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the tumor experiment for the weights in its studies."""
    runs: list[Run] = []

    def function(run: Run) -> Report:
        runs.append(run)
        return run.report(())

    monkeypatch.setattr("poela_experiments.weights.tumor_weights", function)
    EXPERIMENTS["tumor-weights"].run(tmp_path, quick=False, seed=3, execution=Execution("inline"))
    (run,) = runs
    assert (run.size, run.seed, run.out) == (Size.of("tumor", "full"), 3, tmp_path)
    assert run.command == "poela reproduce tumor-weights --full --seed 3"


def test_tables_are_told_apart_by_their_keys() -> None:
    tables = [ResultTable(key, "title", [], "poela") for key in ("a", "b", "a")]
    assert Report("x", tuple(tables[:2])).tables
    with pytest.raises(ValueError, match="same key: a, b, a"):
        Report("x", tuple(tables))


def test_an_interrupted_experiment_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers as without an interruption, and no run is fitted twice."""
    whole, cut = (tiny_tumor(tmp_path / name) for name in ("whole", "cut"))
    task = TumorTask(episodes=whole.size.episodes)
    outcomes = list(outcomes_of([(task, task.source(whole))]))
    written: list[str] = []
    write_run = Store.write_run

    def interrupted(store: Store, record: RunRecord, *rest: Any) -> None:
        if len(written) == 3:
            raise KeyboardInterrupt
        written.append(record.task.run_id)
        write_run(store, record, *rest)

    monkeypatch.setattr(Store, "write_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(outcomes_of([(task, task.source(cut))]))
    written.append("the interruption")
    assert list(outcomes_of([(task, task.source(cut))])) == outcomes
    assert len(written) == len(set(written))
