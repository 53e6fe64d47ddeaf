"""A study survives being killed at any moment."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("killing.py")


def test_kill_9_at_ten_random_moments_then_resume(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path), "10"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 10
    assert sum(line.startswith("killed") for line in lines) >= 5
    assert all(line.endswith("same kept []") for line in lines), done.stdout
