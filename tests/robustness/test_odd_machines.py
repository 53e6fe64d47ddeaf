"""Machines as they are: other users' folders, read-only places, clocks that are put back, disks that know no locks."""

import errno
import fcntl
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.robustness.fuzz_studies import make_study
from tests.robustness.privileges import ordinary_user
from tests.robustness.test_hostile_commands import snapshot

from poela.cli import main
from poela.core.errors import PoelaWarning
from poela.core.temporary import TEMPORARY
from poela.data.receipts import ReceiptKeys, Receipts, read_receipts, receipts_of
from poela.learners.consensus import Consensus
from poela.policies.storage import load_policy
from poela.simulators.registry import simulate
from poela.studies.study import Study

KEYS = ReceiptKeys("case", None, ())
WRITERS = {
    "simulate": "simulate tumor --episodes 5 --out {}/new.csv",
    "decide": "decide policy --rows rows.csv --out {}/new.csv",
    "receipts": "decide policy --rows rows.csv --out new.csv --receipts {}",
    "receipts in a new folder": "decide policy --rows rows.csv --out new.csv --receipts {}/deeper",
    "export": "export policy --onnx {}/new.onnx",
    "report": "report study --out {}/new.html",
    "learn": "learn rows.csv --out {}/study --learners fittedq",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with rows, a policy and a study."""
    folder = tmp_path_factory.mktemp("machine")
    assert main(["simulate", "tumor", "--episodes", "8", "--out", str(folder / "rows.csv")]) == 0
    Consensus().fit(simulate("tumor", episodes=8)).save(folder / "policy")
    make_study(folder / "study")
    return folder


@pytest.fixture
def locked(place: Path) -> Iterator[Path]:
    """A folder that may be read and not written, as those of others are."""
    folder = place / "theirs"
    folder.mkdir()
    (folder / "mine").write_text("mine")
    folder.chmod(0o500)
    yield folder
    folder.chmod(0o700)
    (folder / "mine").unlink()
    folder.rmdir()


@pytest.mark.parametrize("writer", WRITERS)
def test_a_folder_that_may_only_be_read(
    writer: str, place: Path, locked: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    before = snapshot(place)
    with ordinary_user():
        code = main(WRITERS[writer].format(locked.name).split())
    said = capsys.readouterr().err
    assert code in (1, 2)
    assert said.count("error:") == 1, said
    assert "theirs" in said
    assert "report this" not in said
    assert snapshot(place) == before


def test_what_others_may_not_read_is_asked_for_in_words(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    for name, line in {
        "rows.csv": "plan rows.csv --gain 1",
        "policy": "decide policy --rows rows.csv --out new.csv",
        "study": "studies show study",
    }.items():
        mode = (place / name).stat().st_mode
        (place / name).chmod(0)
        try:
            with ordinary_user():
                code = main(line.split())
        finally:
            (place / name).chmod(mode)
        said = capsys.readouterr().err
        assert (code in (1, 2), said.count("error:")) == (True, 1), (line, said)
        assert name in said


def _without_locks(handle: int, operation: int) -> None:
    raise OSError(errno.ENOLCK, "No locks available")


def test_a_disk_without_locks_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", _without_locks)
    with pytest.warns(PoelaWarning, match="knows no locks"):
        make_study(tmp_path / "study")
    study = Study.open(tmp_path / "study")
    assert study.result is not None
    assert main(["studies", "show", str(tmp_path / "study")]) == 0
    train = simulate("tumor", episodes=8)
    for _ in range(2):
        Consensus().fit(train).save(tmp_path / "policy", overwrite=True)
    assert load_policy(tmp_path / "policy").n_actions == train.n_actions
    half_written = tmp_path / "study" / f"{TEMPORARY}other"
    half_written.write_text("somebody writes here, as far as one can know")
    assert main(["studies", "list", str(tmp_path)]) == 0
    assert half_written.exists()
    assert not list((tmp_path / "policy").rglob(f"{TEMPORARY}*"))


def _decided(names: list[str]) -> pa.Table:
    n = len(names)
    columns: dict[str, Any] = {"case": names, "action": ["wait"] * n, "propensity_wait": np.ones(n)}
    return pa.table({**columns, "defer": np.zeros(n, bool), "policy": ["0123456789abcdef"] * n})


def test_receipts_keep_their_order_when_the_clock_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [2_000_000_000 * 10**9]
    monkeypatch.setattr("poela.data.receipts.time.time_ns", lambda: now[0])
    hours = (0, -5, -5, 3, -100_000, -400_000)  # against the first; the last ones are before 1970
    for number, hour in enumerate(hours):
        now[0] = (2_000_000_000 + 3600 * hour) * 10**9
        part = receipts_of(_decided([f"c{number}"]), KEYS, ("wait",), {})
        folder = Receipts.to_append(tmp_path / "receipts")  # as a new process does
        folder.append(part)
        folder.append(receipts_of(_decided([f"c{number} again"]), KEYS, ("wait",), {}))
    found = read_receipts(tmp_path / "receipts").table["case"].to_pylist()
    assert found == [f"c{number}{again}" for number in range(len(hours)) for again in ("", " again")]


def test_a_study_learned_while_the_clock_jumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    moments = iter([0.0, 1e10, -1e9, 5.0, 1e9] * 10**5)
    monkeypatch.setattr(time, "time", lambda: next(moments))
    make_study(tmp_path / "jumping")
    monkeypatch.undo()
    make_study(tmp_path / "steady")
    known = [json.loads((tmp_path / name / "choice.json").read_text()) for name in ("jumping", "steady")]
    assert known[0] == known[1]
