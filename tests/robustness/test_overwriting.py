"""Signal 9 inside the writing of a policy and of a study's last step: always the old or the new state."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("overwriting.py")


def test_kills_while_overwriting(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path), "30"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [(kind, state) for kind, state, _ in lines] == [("policy", "whole")] * 30 + [("study", "whole")] * 31
    assert sum(int(half) > 0 for _, _, half in lines) >= 10  # kills that fell into a write
