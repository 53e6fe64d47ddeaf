"""A study survives being killed at any moment."""

import os
import subprocess
from pathlib import Path

from tests.warm import warm

SCRIPT = Path(__file__).with_name("killing.py")


def killed(*given: object) -> list[str]:
    """A line for each kill: what came of it, and how many files were half written then."""
    done = subprocess.run(
        [str(warm().python), str(SCRIPT), *map(str, given)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_kill_9_at_ten_random_moments_then_resume(tmp_path: Path) -> None:
    assert [line.rpartition(" ")[0] for line in killed(tmp_path, 10)] == ["same kept []"] * 10


def test_kill_9_while_files_are_written_then_resume(tmp_path: Path) -> None:
    """Moments lie among the calls that write files. With 50 in the place of 8, the same takes a minute."""
    assert [line.rpartition(" ")[0] for line in killed(tmp_path, 8, "writing")] == ["same kept []"] * 8
