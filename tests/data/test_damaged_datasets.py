"""Files of Minari datasets that are damaged or made by an attacker: logs, or one sentence; nothing runs or swells."""

import json
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import poela
from poela.core.errors import InputError, PoelaError, PoelaWarning
from poela.data import unpacking

needs_hdf5 = pytest.mark.skipif(find_spec("h5py") is None, reason="needs h5py")
FORMATS = ["arrow", "parquet", pytest.param("hdf5", marks=needs_hdf5)]
DAMAGES = 60


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "sets"))
    return tmp_path / "sets"


def written(data_format: str, name: str = "visits-v0") -> Any:
    rng = np.random.default_rng(0)
    logs = poela.Trajectories(
        rng.normal(size=(6, 2)),
        [0, 2, 1, 1, 0, 2],
        rng.normal(size=6),
        [0, 3, 4, 6],
        propensities=np.full((6, 3), 1 / 3),
    )
    return poela.to_minari(logs, name, data_format=data_format)


def edited(root: Path, **changes: Any) -> None:
    """Other metadata for the dataset; what is None goes."""
    path = root / "visits-v0" / "data" / "metadata.json"
    found = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({name: value for name, value in found.items() if value is not None}))


@pytest.mark.parametrize("space", ["observation_space", "action_space"])
def test_a_dataset_cannot_run_a_program(space: str, root: Path, tmp_path: Path) -> None:
    """Minari builds the environment where a space is missing: any function, with any arguments."""
    written("arrow")
    spec: dict[str, Any] = {
        "id": "Any-v0", "entry_point": "os:system", "kwargs": {"command": f"touch {tmp_path}/it-ran"},
        "reward_threshold": None, "nondeterministic": False, "max_episode_steps": None, "order_enforce": True,
        "disable_env_checker": True, "additional_wrappers": [], "vector_entry_point": None,
    }  # fmt: skip
    edited(root, **{space: None, "env_spec": json.dumps(spec)})
    with pytest.raises(InputError, match="would build the environment that it names, and run its code"):
        poela.from_minari("visits-v0")
    assert not (tmp_path / "it-ran").exists()


def test_who_has_opened_a_dataset_is_trusted_with_its_spaces(root: Path) -> None:
    dataset = written("arrow")
    edited(root, observation_space=None)
    assert poela.from_minari(dataset).n_steps == 6


ODD_METADATA: dict[str, dict[str, Any]] = {
    "no kind of files": {"data_format": None},
    "another kind of files": {"data_format": "../../x"},
    "no version": {"minari_version": None},
    "a version to come": {"minari_version": "99.0"},
    "no number of episodes": {"total_episodes": None},
    "too many episodes": {"total_episodes": 10**12},
    "fewer than none": {"total_episodes": -1},
    "a text for their number": {"total_episodes": "SECRET-77125"},
    "a space of no kind": {"observation_space": '{"type": "SECRET-77125"}'},
    "a space that is none": {"action_space": "[" * 5000},
    "a space without a type of numbers": {"observation_space": '{"type": "Box", "shape": [2], "low": 0, "high": 1}'},
    "a huge space": {"observation_space": '{"type": "Discrete", "n": 10000000, "start": 0}'},
}


@pytest.mark.filterwarnings("ignore")  # Minari's own, of versions
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("case", ODD_METADATA)
def test_odd_metadata(case: str, data_format: str, root: Path) -> None:
    written(data_format)
    edited(root, **ODD_METADATA[case])
    with pytest.raises(PoelaError) as caught:
        poela.from_minari("visits-v0")
    assert "77125" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore::poela.core.errors.PoelaWarning")
@pytest.mark.parametrize("data_format", FORMATS)
def test_damaged_files_are_read_or_refused_in_words(data_format: str, root: Path) -> None:
    """A broken length in an Arrow file once ended the process, and HDF5 and Minari have errors of many kinds."""
    written(data_format)
    rng, said = np.random.default_rng(1), []
    whole = {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
    for _ in range(DAMAGES):
        path = list(whole)[rng.integers(len(whole))]
        content = bytearray(whole[path])
        place = int(rng.integers(len(content)))
        match rng.integers(4):
            case 0:
                del content[place:]
            case 1:
                content[place] = rng.integers(256)
            case 2:
                content[place : place + 16] = bytes(16)
            case _:
                content[place : place + 8] = b"\xff" * 8
        path.write_bytes(content)
        try:
            poela.from_minari("visits-v0")
        except PoelaError as error:
            said.append(str(error))
        path.write_bytes(whole[path])
    assert DAMAGES / 4 < len(said) < DAMAGES
    assert not [one for one in said if "\n" in one]
    assert poela.from_minari("visits-v0").n_steps == 6


def replaced(name: str, make: Callable[[Any, Path], None]) -> Callable[[Path], None]:
    """Another thing in the place of one part of the first episode."""

    def change(path: Path) -> None:
        import h5py

        (path.parent / "secret").write_bytes(b"SECRET-77125" * 100)
        with h5py.File(path.parent / "other.hdf5", "w") as other:
            other["rewards"] = np.arange(3.0)
        with h5py.File(path, "a") as file:
            del file["episode_0"][name]
            make(file["episode_0"], path.parent)

    return change


def far_away(group: Any, folder: Path) -> None:
    import h5py

    group["rewards"] = h5py.ExternalLink(str(folder / "other.hdf5"), "rewards")


def elsewhere(group: Any, folder: Path) -> None:
    import h5py

    group["rewards"] = h5py.SoftLink("/episode_1/rewards")


def bytes_of_a_file(group: Any, folder: Path) -> None:
    group.create_dataset("rewards", (3,), np.float64, external=[(str(folder / "secret"), 0, 24)])


def put_together(group: Any, folder: Path) -> None:
    import h5py

    layout = h5py.VirtualLayout((3,), np.float64)
    layout[:] = h5py.VirtualSource(str(folder / "other.hdf5"), "rewards", (3,))
    group.create_virtual_dataset("rewards", layout)


def gigabytes_of_nothing(group: Any, folder: Path) -> None:
    group.create_dataset("rewards", (2**31,), np.float64, chunks=(1024,))


def groups_without_end(group: Any, folder: Path) -> None:
    infos = group.create_group("infos")
    infos["again"] = infos


HDF5: dict[str, tuple[Callable[[Path], None], str]] = {
    "a link to another file": (replaced("rewards", far_away), "a link to another place at 'rewards'"),
    "a link inside": (replaced("rewards", elsewhere), "a link to another place at 'rewards'"),
    "bytes of another file": (replaced("rewards", bytes_of_a_file), "keeps numbers in other files"),
    "parts of another file": (replaced("rewards", put_together), "keeps numbers in other files"),
    "a bomb": (replaced("rewards", gigabytes_of_nothing), "unpacks to more than"),
    "groups without end": (replaced("infos", groups_without_end), "groups within each other"),
    "a number for a group": (replaced("rewards", lambda group, _: None), "cannot be read"),
}


@needs_hdf5
@pytest.mark.parametrize("case", HDF5)
def test_an_hdf5_file_made_by_an_attacker(case: str, root: Path) -> None:
    change, words = HDF5[case]
    dataset = written("hdf5")
    change(root / "visits-v0" / "data" / "main_data.hdf5")
    for given in ("visits-v0", dataset):
        with pytest.raises(InputError, match=words) as caught:
            poela.from_minari(given)
        assert "77125" not in str(caught.value)


def test_an_episode_that_swells(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written("arrow")
    path = next((root / "visits-v0" / "data" / "1").glob("*.arrow"))
    table = pa.table({"rewards": np.zeros(10**6)})
    how = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema, options=how) as writer:
        writer.write_table(table)
    monkeypatch.setattr(unpacking, "SMALL", 1 << 20)
    with pytest.raises(InputError, match="times its size"):
        poela.from_minari("visits-v0")


@pytest.mark.parametrize("name", ["", ".", "a\0b", "visits-v1", "x" * 300])
def test_names_of_no_dataset(name: str, root: Path) -> None:
    written("arrow")
    with pytest.raises(InputError, match="there is no Minari dataset"):
        poela.from_minari(name)


def test_files_that_are_no_files(root: Path) -> None:
    import os

    written("arrow")
    shutil.copytree(root / "visits-v0", root / "other-v0")
    for name in ("metadata.json", "1/pipe.arrow"):
        path = root / "other-v0" / "data" / name
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        with pytest.raises(InputError, match="is a pipe, not a file"):
            poela.from_minari("other-v0")
        path.unlink()
        if name == "metadata.json":
            shutil.copy(root / "visits-v0" / "data" / name, path)


def test_a_truncated_episode_is_still_told_of(root: Path) -> None:
    rng = np.random.default_rng(0)
    logs = poela.Trajectories(rng.normal(size=(4, 1)), [0, 1, 0, 1], rng.normal(size=4), [0, 2, 4])
    poela.to_minari(logs, "cut-v0", terminated=False, data_format="arrow")
    with pytest.warns(PoelaWarning, match="2 of 2 episodes were cut"):
        poela.from_minari("cut-v0")
