"""Signal 9 inside the writing of a policy and of a study's last step: always the old or the new state."""

import os
import subprocess
from pathlib import Path

from tests.warm import warm

SCRIPT = Path(__file__).with_name("overwriting.py")
STUDIES = 10  # kills


def test_kills_while_overwriting(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(warm().python), str(SCRIPT), str(tmp_path), str(STUDIES)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    policies = len(lines) - STUDIES - 1
    assert policies >= 30
    assert [(kind, state) for kind, state, _ in lines] == [("policy", "whole")] * policies + [("study", "whole")] * (
        STUDIES + 1
    )
    assert sum(int(half) > 0 for _, _, half in lines) >= 20  # kills that fell into a write
