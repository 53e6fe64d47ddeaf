"""Standard output that is full, closed or without most letters, and texts that a terminal would obey."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from poela.cli import main


def run(command: str, **settings: object) -> "subprocess.CompletedProcess[str]":
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8", "check": False, **settings}
    return subprocess.run([sys.executable, "-m", "poela", *command.split()], **given)  # type: ignore[call-overload,no-any-return]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no such device")
@pytest.mark.parametrize("command", ["reproduce list", "reproduce list --json", "--help"])
def test_a_full_output_is_one_sentence(command: str) -> None:
    with open("/dev/full", "w") as full:
        done = run(command, stdout=full)
    assert done.stderr == "error: standard output cannot be written: No space left on device\n"
    assert done.returncode == 1


def test_a_reader_who_leaves_and_streams_that_are_closed() -> None:
    code = "reproduce list --json"
    ours, theirs = os.pipe()
    os.close(ours)
    gone = run(code, stdout=theirs)
    os.close(theirs)
    assert (gone.returncode, gone.stderr) == (1, "")
    shell = f"{sys.executable} -m poela {code} >&- 2>&-; {sys.executable} -m poela nonsense 2>/dev/full"
    closed = subprocess.run(["sh", "-c", f"{shell}; echo $?"], capture_output=True, text=True, check=False)
    assert (closed.stdout, closed.stderr) == ("2\n", "")


def test_letters_that_a_stream_does_not_know(tmp_path: Path) -> None:
    plain = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "1"}
    (tmp_path / "nöpe").mkdir()
    (tmp_path / "nöpe" / "study.json").write_text("{")
    shown = run("studies list", env=plain, cwd=tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "n?pe cannot be read" in shown.stdout
    refused = run("studies show ñope", env=plain, cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: \\xf1ope holds no study")


@pytest.mark.parametrize("command", ["show", "list", "compare"])
def test_no_control_character_reaches_a_terminal(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    main(["studies", command, "nope\x1b[31m"])
    out, err = capsys.readouterr()
    assert r"nope\x1b[31m" in out + err
    assert "\x1b" not in out + err
