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
    assert done.stdout.splitlines() == ["same kept []"] * 10
