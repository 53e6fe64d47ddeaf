"""Ctrl-C and SIGTERM at any moment: the same words, the same exit code, nothing left behind, nothing lost."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_name("signalling.py")
MOMENTS = 25
KILLS = 10  # `signalling.py FOLDER 50 kill` makes more
WORDS = "error: interrupted: what has finished is kept in"


def attempts_of(*given: object) -> list[dict[str, Any]]:
    """What came of the attempts of the script."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, given)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def test_kills_while_files_are_written(tmp_path: Path) -> None:
    attempts = attempts_of(tmp_path, str(KILLS), "kill")
    assert len(attempts) == KILLS
    assert all(attempt["code"] == -signal.SIGKILL for attempt in attempts)
    assert sum(attempt["half"] > 0 for attempt in attempts) >= KILLS / 5  # it has hit what it aims at
    for attempt in attempts:
        assert attempt["shown"] in (0, 2), attempt
        assert "Traceback" not in attempt["said"], attempt
        assert (attempt.get("resumed", 0), attempt.get("same", True), attempt.get("left", [])) == (0, True, []), attempt


def test_signals_at_random_moments(tmp_path: Path) -> None:
    attempts = attempts_of(tmp_path, str(MOMENTS))
    assert len(attempts) == MOMENTS
    interrupted = [attempt for attempt in attempts if attempt["code"] != 0]
    assert len(interrupted) >= MOMENTS / 2  # the others were signalled once everything was written
    for attempt in interrupted:
        assert attempt["code"] == 1, attempt
        assert WORDS in attempt["errors"]
        assert "Traceback" not in attempt["errors"]
        assert attempt["errors"].rstrip().endswith("continue with --resume")
    for attempt in attempts:
        assert attempt["left"] == [], attempt
        assert (attempt.get("resumed", 0), attempt.get("same", True)) == (0, True), attempt
