"""Logs that are broken in every way we know: a few short sentences, exit code 2, no secret told, nothing written."""

import faulthandler
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.robustness.hostile_files import FILES
from tests.robustness.hostile_tables import NAMED_BY_ACTIONS, TABLES
from tests.robustness.secret_logs import SECRETS, Case

from poela.cli import main

CASES = FILES | TABLES
assert len(CASES) == len(FILES) + len(TABLES)
LONGEST_MESSAGE, LONGEST_WAIT = 4096, 30


@pytest.fixture(autouse=True)
def _never_wait_forever() -> Iterator[None]:
    faulthandler.dump_traceback_later(100 * LONGEST_WAIT, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def message_about(case: Case, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What `poela learn` says about a file that it refuses."""
    path = case.make(folder)
    before = sorted(folder.rglob("*"))
    flags = [flag.format(folder=folder) for flag in case.flags]
    begun = time.process_time()  # which does not count what else the machine does
    code = main(["learn", str(path), "--out", str(folder / "study"), *flags])
    taken = time.process_time() - begun
    out, err = capsys.readouterr()
    assert code == 2, err
    assert out == ""
    assert all(line.startswith("error: ") for line in err.splitlines()), err
    assert 0 < len(err.replace(str(folder), "")) < LONGEST_MESSAGE
    assert sorted(folder.rglob("*")) == before
    assert taken < LONGEST_WAIT
    return err


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_log(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if name == "no permission" and os.geteuid() == 0:
        pytest.skip("nothing is forbidden to root")
    message = message_about(CASES[name], tmp_path, capsys)
    assert not [word for word in CASES[name].words if word not in message], message
    assert not [secret for secret in SECRETS if secret in message], message


@pytest.mark.parametrize("name", NAMED_BY_ACTIONS)
def test_hostile_propensities(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = message_about(NAMED_BY_ACTIONS[name], tmp_path, capsys)
    assert not [word for word in NAMED_BY_ACTIONS[name].words if word not in message], message
    assert "8675309" not in message


def test_there_are_many() -> None:
    assert len(CASES) + len(NAMED_BY_ACTIONS) > 150
