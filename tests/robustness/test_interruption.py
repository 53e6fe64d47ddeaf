"""Ctrl-C and SIGTERM at any moment: the same words, the same exit code, nothing left behind, nothing lost."""

import json
import os
import subprocess
from pathlib import Path

from tests.warm import warm

SCRIPT = Path(__file__).with_name("signalling.py")
MOMENTS = int(os.environ.get("POELA_MOMENTS", "12"))  # `make fuzz` asks for more
WORDS = "error: interrupted: what has finished is kept in"


def test_signals_in_each_part_of_the_way(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(warm().python), str(SCRIPT), str(tmp_path), str(MOMENTS)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    attempts = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(attempts) == MOMENTS
    interrupted = [attempt for attempt in attempts if attempt["code"] != 0]
    assert len(interrupted) >= MOMENTS * 2 // 3  # the others were signalled once everything was written
    for attempt in interrupted:
        assert attempt["code"] == 1, attempt
        assert WORDS in attempt["errors"]
        assert "Traceback" not in attempt["errors"]
        assert attempt["errors"].rstrip().endswith("continue with --resume")
    for attempt in attempts:
        assert attempt["left"] == [], attempt
        assert (attempt.get("resumed", 0), attempt.get("same", True)) == (0, True), attempt
