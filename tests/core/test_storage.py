"""Files: atomic, checked, and never executed."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poela.core.errors import InputError, PoelaError
from poela.core.files import atomic_file, write_json
from poela.core.storage import Stored, load_stored, remove_stored, save_stored
from poela.core.temporary import TEMPORARY

FORM: dict[str, Any] = {"file_format": "test", "version": 1}

STORED = Stored(
    "thing",
    {"number": 1.5, "names": ["a", "b"]},
    {"x": np.arange(3.0)},
    {"part": Stored("inner", {}, {"x": np.eye(2, dtype=np.float32)})},
)


def saved(directory: Path) -> Path:
    save_stored(directory / "thing", STORED, file_format="test", version=1, notes={"note": "hello"})
    return directory / "thing"


def arrays_of(directory: Path) -> Path:
    (path,) = directory.glob("arrays-*.safetensors")
    return path


def test_stored_objects_come_back(tmp_path: Path) -> None:
    loaded, document = load_stored(saved(tmp_path), file_format="test", version=1)
    assert document["note"] == "hello"
    assert (loaded.kind, loaded.settings) == ("thing", STORED.settings)
    np.testing.assert_array_equal(loaded.arrays["x"], STORED.arrays["x"])
    np.testing.assert_array_equal(loaded.parts["part"].arrays["x"], np.eye(2))
    assert sorted(os.listdir(tmp_path)) == ["thing"]


@pytest.mark.parametrize("name", ["arrays-*.safetensors", "test.json"])
def test_every_changed_byte_and_truncation_is_noticed(tmp_path: Path, name: str) -> None:
    (path,) = saved(tmp_path).glob(name)
    good = path.read_bytes()
    for position in range(0, len(good) - 2, 7):
        bad = bytearray(good)
        bad[position] ^= 1
        path.write_bytes(bytes(bad))
        try:
            loaded, _ = load_stored(path.parent, file_format="test", version=1)
        except InputError as error:
            assert len(error.problems) == 1  # noqa: PT017
        else:  # white space between JSON tokens may change without a meaning
            assert name == "test.json"
            assert loaded.settings == STORED.settings
    for length in (0, 1, len(good) // 2, len(good) - 3):
        path.write_bytes(good[:length])
        with pytest.raises(InputError):
            load_stored(path.parent, file_format="test", version=1)


def test_wrong_format_version_and_missing_files(tmp_path: Path) -> None:
    directory = saved(tmp_path)
    with pytest.raises(InputError, match="format version 1; this poela reads version 2"):
        load_stored(directory, file_format="test", version=2)
    with pytest.raises(InputError, match="does not exist"):
        load_stored(tmp_path / "nowhere", file_format="test", version=1)
    arrays_of(directory).unlink()
    with pytest.raises(InputError, match="cannot be read"):
        load_stored(directory, file_format="test", version=1)


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"old": True})

    def fail() -> None:
        with atomic_file(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError):
        fail()
    with pytest.raises(ValueError):
        write_json(path, {"bad": float("nan")})
    assert json.loads(path.read_text()) == {"old": True}
    assert os.listdir(tmp_path) == ["a.json"]


def other(directory: Path, **settings: Any) -> None:
    save_stored(directory, Stored("other", {}, {"y": np.ones(2)}), **FORM, notes={}, **settings)


def test_an_object_is_overwritten_only_where_that_is_asked_for(tmp_path: Path) -> None:
    directory = saved(tmp_path)
    with pytest.raises(InputError, match="holds a test already: choose another folder, or say overwrite=True"):
        other(directory)
    assert load_stored(directory, **FORM)[0].kind == "thing"
    (directory / "mine.txt").write_text("keep")
    other(directory, overwrite=True)
    assert load_stored(directory, **FORM)[0].kind == "other"
    assert sorted(os.listdir(directory)) == [arrays_of(directory).name, "mine.txt", "test.json"]


def test_files_of_the_first_form_load_and_are_replaced_whole(tmp_path: Path) -> None:
    directory = saved(tmp_path)
    arrays = arrays_of(directory)
    document = json.loads((directory / "test.json").read_text())
    document["checksums"]["arrays.safetensors"] = document["checksums"].pop(arrays.name)
    arrays.rename(directory / "arrays.safetensors")
    write_json(directory / "test.json", document)
    assert load_stored(directory, **FORM)[0].kind == "thing"
    other(directory, overwrite=True)
    assert sorted(os.listdir(directory)) == [arrays_of(directory).name, "test.json"]


def test_whatever_is_not_ours_is_refused_and_left_alone(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "arrays.safetensors").write_bytes(b"somebody else's")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(foreign)
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    for place in ("foreign", "file", "link", "nowhere"):
        for overwrite in (False, True):
            with pytest.raises(InputError):
                other(tmp_path / place, overwrite=overwrite)
    remove_stored(tmp_path / "nothing there", "test")
    with pytest.raises(InputError):
        remove_stored(foreign, "test")
    assert (foreign / "arrays.safetensors").read_bytes() == b"somebody else's"
    assert (tmp_path / "file").read_text() == "mine"


def test_an_object_is_removed_without_what_lies_beside_it(tmp_path: Path) -> None:
    directory = saved(tmp_path)
    (directory / "mine.txt").write_text("keep")
    remove_stored(directory, "test")
    assert os.listdir(directory) == ["mine.txt"]
    remove_stored(saved(tmp_path / "deeper"), "test")
    assert os.listdir(tmp_path / "deeper") == []


def test_a_save_that_was_killed_before_its_document_is_done_again(tmp_path: Path) -> None:
    directory = saved(tmp_path)
    (directory / "test.json").unlink()
    (directory / f"{TEMPORARY}x").write_text("half")
    other(directory)
    assert load_stored(directory, **FORM)[0].kind == "other"


def test_files_are_for_the_owner_alone(tmp_path: Path) -> None:
    directory = saved(tmp_path / "new")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new", directory)] == [0o700, 0o700]
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}


def test_an_impossible_place_gives_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PoelaError, match="cannot be written"):
        write_json(tmp_path / "file" / "a.json", {})
