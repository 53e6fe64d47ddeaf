"""Several processes save into one folder and read it: everybody finds an old or a new object, and it is whole."""

import json
import os
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.robustness.saving import WRITERS
from tests.warm import warm

from poela.core import storage
from poela.core.errors import InputError, PoelaError
from poela.core.files import atomic_file
from poela.core.storage import Stored, load_stored, save_stored

SCRIPT = Path(__file__).with_name("saving.py")
TIMES = 40  # that each of the writers saves


def test_processes_that_save_and_read_one_folder(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(warm().python), str(SCRIPT), str(tmp_path / "thing"), str(TIMES)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert [problem for _, problem in answer["told"]] == [""] * 5
    assert sorted(turns for turns, _ in answer["told"])[-WRITERS:] >= [TIMES] * WRITERS
    assert all(turns for turns, _ in answer["told"])
    arrays, document = answer["left"]
    assert arrays.startswith("arrays-")
    assert document == "test.json"


def save(folder: Path, number: int, overwrite: bool = False) -> None:
    stored = Stored("thing", {}, {"x": np.full(3, number)})
    save_stored(folder, stored, file_format="test", version=1, notes={}, overwrite=overwrite)


def test_what_another_is_writing_is_not_swept_away(tmp_path: Path) -> None:
    (tmp_path / "thing").mkdir()
    (tmp_path / "thing" / ".poela-tmp-left").write_text("by a killed process")
    with atomic_file(tmp_path / "thing" / "mine.txt") as temporary:
        save(tmp_path / "thing", 1)
        assert temporary.exists()
        temporary.write_text("mine")
    assert (tmp_path / "thing" / "mine.txt").read_text() == "mine"
    assert not list((tmp_path / "thing").glob(".*"))


def test_only_one_of_many_saves_without_overwriting(tmp_path: Path) -> None:
    refused: list[str] = []

    def attempt(number: int) -> None:
        try:
            save(tmp_path / "thing", number)
        except InputError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 7
    assert all("holds a test already" in problem for problem in refused)
    assert len(os.listdir(tmp_path / "thing")) == 2


def test_a_reader_who_falls_between_two_documents_reads_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "thing", 1)
    plain = storage.read_json

    def slow(path: Path) -> object:
        document = plain(path)
        monkeypatch.setattr(storage, "read_json", plain)
        save(tmp_path / "thing", 2, overwrite=True)
        return document

    monkeypatch.setattr(storage, "read_json", slow)
    found, _ = load_stored(tmp_path / "thing", file_format="test", version=1)
    assert found.arrays["x"].tolist() == [2, 2, 2]


@pytest.mark.skipif(os.name != "posix", reason="a folder cannot be locked there")
def test_a_folder_that_stays_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    (tmp_path / "thing").mkdir()
    handle = os.open(tmp_path / "thing", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    monkeypatch.setattr("poela.core.temporary.PATIENCE_SECONDS", 0.1)
    with pytest.raises(PoelaError, match="thing is in use by another process"):
        save(tmp_path / "thing", 1)
    os.close(handle)
    save(tmp_path / "thing", 1)
