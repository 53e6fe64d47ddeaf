"""How experiments run: every one takes the same arguments, and what an interrupted one has finished is kept."""

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from poela.experiments.registry import EXPERIMENTS
from poela.experiments.running import Running
from poela.experiments.tumor_studies import Size, TumorTask, outcomes_of
from poela.studies.records import RunRecord
from poela.studies.store import Store

INLINE = Running(backend="inline")
TINY = Size(data_sets=1, episodes=30, restarts=1, roll_outs=20, steps=4, checkpoints=2)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_is_called_the_same_way(name: str) -> None:
    module, attribute = EXPERIMENTS[name].run.split(":")
    assert list(inspect.signature(getattr(import_module(module), attribute)).parameters) == [
        "out",
        "quick",
        "seed",
        "running",
    ]


def test_an_interrupted_experiment_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers as without an interruption, and no run is fitted twice."""
    task = TumorTask(episodes=TINY.episodes)
    whole = outcomes_of([task], TINY, tmp_path / "whole", INLINE)
    written: list[str] = []
    write_run = Store.write_run

    def interrupted(store: Store, record: RunRecord, *rest: Any) -> None:
        if len(written) == 3:
            raise KeyboardInterrupt
        written.append(record.task.run_id)
        write_run(store, record, *rest)

    monkeypatch.setattr(Store, "write_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        outcomes_of([task], TINY, tmp_path / "cut", INLINE)
    written.append("the interruption")
    assert outcomes_of([task], TINY, tmp_path / "cut", INLINE) == whole
    assert len(written) == len(set(written))
