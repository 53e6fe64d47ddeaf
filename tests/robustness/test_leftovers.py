"""Programs that are ended inside `poela.learn`: no training rows stay behind, and signals reach whom they are for."""

import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from tests.warm import warm

from poela.core.interruption import deferred_signals, safe_point
from poela.core.temporary import own_folder, remove_own_folder

SCRIPT = Path(__file__).with_name("ending.py")


def test_programs_that_are_ended_while_they_learn(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(warm().python), str(SCRIPT), str(tmp_path)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *ends, afterwards = [json.loads(line) for line in done.stdout.splitlines()]
    # SIGTERM ends the program as ever, or calls the program's own handler; Ctrl-C is an exception.
    assert [end["code"] for end in ends] == [-signal.SIGTERM, -signal.SIGTERM, 7, 8, -signal.SIGKILL]
    for end in ends[:-1]:
        assert (end["left"], end["own"], end["found"]) == ([], [], 1)
    assert len(ends[-1]["own"]) == 1  # nobody can clean up after signal 9 but the next who comes
    assert afterwards["own"] == []


def test_folders_of_others_and_folders_in_use_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "poela-notes").mkdir()
    (tmp_path / "poela-notes" / "mine.txt").write_text("keep")
    (tmp_path / "poela-file").write_text("keep")
    (tmp_path / "poela-link").symlink_to("poela-notes")
    (tmp_path / "poela-left").mkdir()
    (tmp_path / "poela-left" / ".poela-tmp-owner").touch()
    first, held = own_folder()
    second, other = own_folder()
    kept = {"poela-notes", "poela-file", "poela-link", first.name, second.name}
    assert set(os.listdir(tmp_path)) == kept
    remove_own_folder(first, held)
    remove_own_folder(second, other)
    assert set(os.listdir(tmp_path)) == kept - {first.name, second.name}


def test_a_signal_that_comes_too_late_to_be_raised_is_passed_on() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored
    try:
        with pytest.raises(KeyboardInterrupt), deferred_signals(passed_on=True):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_inside_another_orderly_block_a_signal_is_not_lost() -> None:
    with deferred_signals():
        with deferred_signals(passed_on=True):
            signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            safe_point()
    safe_point()
