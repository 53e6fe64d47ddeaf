"""Progress bars: late, on standard error, one at a time."""

import subprocess
import sys

import pytest

from poela.core import progress as module
from poela.core.progress import progress, progress_shown


def test_a_slow_task_shows_a_bar_with_the_count(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich draws bars on terminals only
    with progress_shown(), progress("walking", total=3) as advance:
        advance(1, note="first")
        advance(2)
    out, err = capsys.readouterr()
    assert out == ""
    assert "walking" in err
    assert "3/3" in err


def test_a_quick_task_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_shown(), progress("walking", total=3) as advance:
        advance(3)
    assert capsys.readouterr().err == ""


def test_only_the_outermost_bar_shows(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich draws bars on terminals only
    with progress_shown(), progress("outer", total=1) as outer:
        with progress("inner", total=1) as inner:
            inner(1)
        outer(1)
    assert "inner" not in capsys.readouterr().err


def test_nothing_shows_where_nobody_looks() -> None:
    code = (
        "import poela.core.progress as p; p.PATIENCE_SECONDS = 0.0\n"
        "with p.progress('walking', 2) as advance: advance(2)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_long_runs_tell_their_progress_in_lines_where_nobody_sees_a_bar() -> None:
    code = (
        "import poela.core.progress as p; p.PATIENCE_SECONDS = p.LINE_SECONDS = 0.0\n"
        "with p.progress_shown(), p.progress_in_lines(), p.progress('walking', 2) as advance:\n"
        "    with p.progress('inner', 1) as inner: inner(1)\n"
        "    advance(1, note='first'); advance(1)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == ["walking: 1 of 2 (first)", "walking: 2 of 2"]
