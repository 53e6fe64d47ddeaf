"""Finished pieces of experiments: none is made twice, none is taken for another, and no number depends on them."""

from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from benchmarks.coverage_of_intervals.measurement import coverage
from tests.benchmarks.tiny import tiny_coverage
from tests.experiments.tiny import tiny

from poela.behavior.multinomial import MultinomialBehavior
from poela.core.errors import InputError
from poela.core.files import write_json
from poela_experiments import behavior_models, counterexamples, value_learners
from poela_experiments.frame import kept

made: list[str] = []


@dataclass(frozen=True)
class Setting:
    rate: float


def kept_of(out: Path, name: str, make: Any, *args: Any, **kwargs: Any) -> Any:
    return kept.kept(out, name, partial(make, *args, **kwargs))


def piece_of(setting: Setting, seed: int = 0) -> dict[str, Any]:
    made.append(f"{setting.rate} {seed}")
    if setting.rate < 0:
        raise KeyboardInterrupt
    return {"third": setting.rate / 3, "none": None, "list": [seed, True]}


@pytest.fixture(autouse=True)
def nothing_made() -> None:
    made.clear()


def test_a_piece_is_made_once_for_equal_arguments(tmp_path: Path) -> None:
    first = kept_of(tmp_path, "A piece, H = 2", piece_of, Setting(0.1))
    assert first == {"third": 0.1 / 3, "none": None, "list": [0, True]}
    assert kept_of(tmp_path, "A piece, H = 2", piece_of, setting=Setting(0.1), seed=0) == first
    assert made == ["0.1 0"]
    (file,) = (tmp_path / "kept").iterdir()
    assert file.name.startswith("a-piece-h-2-")


def test_another_setting_another_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        for setting, seed in ((Setting(0.1), 0), (Setting(0.1), 1), (Setting(0.2), 0)):
            assert kept_of(tmp_path, "piece", piece_of, setting, seed)["list"][0] == seed
    assert made == ["0.1 0", "0.1 1", "0.2 0"]
    monkeypatch.setattr(kept, "__version__", "another")
    kept_of(tmp_path, "piece", piece_of, Setting(0.1))
    assert made[3:] == ["0.1 0"]


def test_an_unfinished_piece_leaves_nothing(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            kept_of(tmp_path, "piece", piece_of, Setting(-1.0))
    assert made == ["-1.0 0"] * 2
    assert not (tmp_path / "kept").exists()


def test_a_damaged_piece_is_named(tmp_path: Path) -> None:
    kept_of(tmp_path, "piece", piece_of, Setting(0.1))
    (file,) = (tmp_path / "kept").iterdir()
    file.write_text(file.read_text()[:40])
    with pytest.raises(InputError, match=file.name):
        kept_of(tmp_path, "piece", piece_of, Setting(0.1))


def test_numbers_that_json_does_not_have_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        kept_of(tmp_path, "piece", piece_of, Setting(float("nan")))


def test_arguments_without_a_lasting_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="address"):
        kept_of(tmp_path, "piece", repr, object())


def threads() -> int:
    import torch

    return torch.get_num_threads()


def test_a_piece_is_made_on_one_thread(tmp_path: Path) -> None:
    """Sums of several threads run in another order; the caller's threads are as before."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert kept_of(tmp_path, "threads", threads) == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def results(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.rglob("*") if path.is_file() and path.parent.name != "kept"}


def make_values_tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_learners, "TEMPERATURES", (4.0, 0.0))


def make_behavior_tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("icu_sepsis") is None:
        pytest.skip("the sepsis simulator needs the tables of icu-sepsis")
    models = {"multinomial": MultinomialBehavior(), "MLP": MultinomialBehavior(penalty=10.0)}
    for name in ("MODELS", "SHORT_MODELS"):
        monkeypatch.setattr(behavior_models, name, models)
    # How long a fit takes is told in the table, and is never the same.
    monkeypatch.setattr(behavior_models, "time", SimpleNamespace(perf_counter=lambda: 0.0))


def nothing(_: pytest.MonkeyPatch) -> None: ...


# The experiment, what makes it tiny, and a run of it in a folder.
EXPERIMENTS: dict[str, tuple[Any, Any, Any]] = {
    "coverage": (
        coverage,
        nothing,
        partial(tiny_coverage, only=["heavy-tailed"], ess=[210, 100, 66], repeats=3, others=1),
    ),
    "counterexamples": (
        counterexamples.counterexamples,
        nothing,
        partial(tiny, "counterexamples", greatest_h=3, repeats=5),
    ),
    "behavior": (
        behavior_models.behavior_models,
        make_behavior_tiny,
        partial(tiny, "behavior", episodes=20, logs=2, log_episodes=20, roll_outs=50),
    ),
    "values": (
        value_learners.value_learners,
        make_values_tiny,
        partial(tiny, "values", data_sets=2, episodes=20),
    ),
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_interrupted_experiment_continues(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bytes as without an interruption, and no finished piece is made again."""
    experiment, make_tiny, tiny_run = EXPERIMENTS[name]
    make_tiny(monkeypatch)
    written: list[str] = []
    interrupt_at: list[int] = []

    def interrupting(path: Path, document: Any) -> None:
        if len(written) in interrupt_at:
            interrupt_at.clear()
            raise KeyboardInterrupt
        written.append(path.name)
        write_json(path, document)

    monkeypatch.setattr(kept, "write_json", interrupting)
    experiment(tiny_run(tmp_path / "whole"))
    pieces = written.copy()
    assert len(pieces) > 2
    written.clear()
    interrupt_at.append(1)
    with pytest.raises(KeyboardInterrupt):
        experiment(tiny_run(tmp_path / "cut"))
    assert written == pieces[:1]
    experiment(tiny_run(tmp_path / "cut"))
    assert written == pieces
    assert results(tmp_path / "cut") == results(tmp_path / "whole")
    experiment(tiny_run(tmp_path / "cut", 10))
    assert len(set(written)) == len(written) == 2 * len(pieces)
