"""Files: atomic, checked, and never executed."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from poela.core.errors import InputError, PoelaError
from poela.core.storage import Stored, atomic_directory, atomic_file, load_stored, save_stored, write_json

STORED = Stored(
    "thing",
    {"number": 1.5, "names": ["a", "b"]},
    {"x": np.arange(3.0)},
    {"part": Stored("inner", {}, {"x": np.eye(2, dtype=np.float32)})},
)


def saved(directory: Path) -> Path:
    save_stored(directory / "thing", STORED, file_format="test", version=1, notes={"note": "hello"})
    return directory / "thing"


def test_stored_objects_come_back(tmp_path: Path) -> None:
    loaded, document = load_stored(saved(tmp_path), file_format="test", version=1)
    assert document["note"] == "hello"
    assert (loaded.kind, loaded.settings) == ("thing", STORED.settings)
    np.testing.assert_array_equal(loaded.arrays["x"], STORED.arrays["x"])
    np.testing.assert_array_equal(loaded.parts["part"].arrays["x"], np.eye(2))
    assert sorted(os.listdir(tmp_path)) == ["thing"]


@pytest.mark.parametrize("name", ["arrays.safetensors", "test.json"])
def test_every_changed_byte_and_truncation_is_noticed(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path) / name
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
    (directory / "arrays.safetensors").unlink()
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


def test_a_directory_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    directory = saved(tmp_path)

    def fail() -> None:
        with atomic_directory(directory) as temporary:
            (temporary / "half").write_text("x")
            raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError):
        fail()
    load_stored(directory, file_format="test", version=1)
    saved(tmp_path)
    assert sorted(os.listdir(directory)) == ["arrays.safetensors", "test.json"]
    assert os.listdir(tmp_path) == ["thing"]


def test_an_impossible_place_gives_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PoelaError, match="cannot be written"):
        write_json(tmp_path / "file" / "a.json", {})
