"""A provisional answer while a study runs: what it says, when it goes, and that the result does not depend on it."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import poela
from poela.cli.study_output import study_document
from poela.core import progress
from poela.core.errors import PoelaError
from poela.data.trajectories import Trajectories
from poela.report.page import unfinished_sections
from poela.studies import runs, so_far
from poela.studies.candidates import Candidate
from poela.studies.records import SoFarRecord, Task
from poela.studies.so_far import left_out_in_words, so_far_in_words
from poela.studies.study import Study

FITTED, CONSENSUS = Candidate("fittedq", {"history": 0}), Candidate("consensus")
LATE = Candidate("pocrm", {"steps": 2, "hidden": (2,), "device": "cpu"})


def coins(episodes: int, effect: float) -> Trajectories:
    """One step, two actions by a fair coin, and what the second one adds."""
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, episodes)
    contexts, rewards = rng.normal(size=(episodes, 1)), effect * actions + rng.normal(size=episodes)
    return Trajectories(contexts, actions, rewards, np.arange(episodes + 1), np.full((episodes, 2), 0.5))


def learn(logs: Any, candidates: list[Candidate], **settings: Any) -> Study:
    return poela.learn(logs, candidates=candidates, **{"folds": 2, "backend": "inline", **settings})


@pytest.fixture
def interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """A study whose last learner was interrupted before its first run."""
    learned_by = runs.learned_by

    def stops(tasks: list[Task], fold: Any) -> Any:
        if tasks[0].candidate.learner == "pocrm":
            raise KeyboardInterrupt
        return learned_by(tasks, fold)

    with monkeypatch.context() as patched:
        patched.setattr(runs, "learned_by", stops)
        with pytest.raises(KeyboardInterrupt):
            learn(coins(300, effect=1.0), [LATE, FITTED], out=tmp_path / "study")
    return Study.open(tmp_path / "study")


def test_what_is_said_early_is_what_a_study_of_the_finished_paths_alone_ends_with(interrupted: Study) -> None:
    early, alone = interrupted.so_far, learn(coins(300, effect=1.0), [FITTED])
    assert early is not None
    assert alone.choice.chosen is not None  # of two folds: nobody can be left out beside the other one
    assert (early.runs, early.of, early.policies) == (2, 4, len(alone.points))
    assert early.low == alone.choice.chosen.metrics["shown"]
    assert early.gain == alone.choice.chosen.metrics["gain"]
    assert early.policy == alone.details_of(alone.choice.chosen)


def test_everybody_who_looks_is_told_that_it_is_provisional(interrupted: Study) -> None:
    early = interrupted.so_far
    assert early is not None
    said = so_far_in_words(early, interrupted.record)
    assert said.startswith(f"So far, after {early.policies} policies (2 of 4 runs): at least +")
    assert said.endswith("better than what is done now (95%, provisional).")
    assert any(said in str(block) for block in unfinished_sections(interrupted)[0].blocks)
    assert study_document(interrupted)["so_far"]["low"] == early.low


def test_the_result_takes_its_place_and_does_not_depend_on_it(interrupted: Study, tmp_path: Path) -> None:
    ended = learn(coins(300, effect=1.0), [LATE, FITTED], out=interrupted.directory, resume=True)
    assert ended.so_far is None
    assert not (interrupted.directory / "so_far.json").exists()
    learn(coins(300, effect=1.0), [LATE, FITTED], out=tmp_path / "fresh", backend="local", jobs=1)
    for name in ("choice.json", "table.parquet"):
        assert (tmp_path / "fresh" / name).read_bytes() == (ended.directory / name).read_bytes()


def test_where_nothing_is_shown_that_is_said(interrupted: Study) -> None:
    early = SoFarRecord(interrupted.record.fingerprint, 1, 4, 1, "logging policy", None, None, 0.95)
    said = so_far_in_words(early, interrupted.record)
    assert said == "So far, after 1 policy (1 of 4 runs): nothing is shown to be better (provisional)."


def test_each_learner_has_one_line_in_the_order_of_what_they_cost(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(so_far, "MOST_SHARE", 1e9)  # however slow the machine is
    with progress.progress_in_lines(told_alone=True):
        learn(coins(200, effect=1.0), [LATE, FITTED, CONSENSUS])
    first, *lines = capsys.readouterr().err.splitlines()
    assert first.startswith("So far, after")
    assert [line.partition(" has finished")[0] for line in lines] == ["fittedq", "consensus", "pocrm"]
    assert all("So far, after" in line for line in lines[:2])


def test_no_look_is_taken_that_would_cost_more_than_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        """A second of the processor for each path that is judged, and ten of the clock for each run."""

        processor, clock = 0.0, 0.0

    def answer(early: so_far.SoFar) -> Any:
        looks.append(early._judged)
        Clock.processor += early._judged
        shares.append(Clock.processor / Clock.clock)
        raise PoelaError("nothing to write")

    looks: list[int] = []
    shares: list[float] = []
    monkeypatch.setattr(time, "perf_counter", lambda: Clock.clock)
    monkeypatch.setattr(time, "process_time", lambda: Clock.processor)
    monkeypatch.setattr(so_far.SoFar, "_answer", answer)
    finished = so_far.SoFar.finished

    def later(*arguments: Any) -> None:
        Clock.clock += 10
        finished(*arguments)

    monkeypatch.setattr(so_far.SoFar, "finished", later)
    many = [Candidate("fittedq", {"history": 0, "penalty": float(one)}) for one in range(1, 9)]
    learn(coins(100, effect=1.0), many)
    assert looks[0] == 1
    assert len(looks) > 2
    assert max(shares) <= so_far.MOST_SHARE


def test_a_page_or_a_terminal_says_which_learners_were_left_out(interrupted: Study) -> None:
    assert left_out_in_words(interrupted).startswith("Left out: 2 of 4 runs (pocrm 2 of 2).")
