"""What the files of a Minari dataset are, before Minari opens them: a dataset of somebody else's is not to be trusted.

Without its spaces Minari builds the environment that the metadata name, which can be any function with any arguments.
A damaged Arrow file ends the whole process, and a small HDF5 file can say that it holds gigabytes, or that its numbers
stand in another file.
"""

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from poela.core.errors import InputError
from poela.core.interruption import safe_point
from poela.core.paths import place, regular_file
from poela.data.opening import explain_read_errors, kind_of_file, open_arrow, open_parquet
from poela.data.unpacking import refuse_swollen

METADATA = "metadata.json"
HDF5 = "main_data.hdf5"
SPACES = ("observation_space", "action_space")
PARTS = ("observations", "actions", "rewards", "terminations", "truncations", "infos")  # of an episode
DEEPEST = 16  # groups within groups; Minari itself has two


def damaged(error: BaseException) -> InputError:
    """That a dataset cannot be read; without the text of the error, which may quote what was logged."""
    return InputError(
        f"the dataset cannot be read ({type(error).__name__}): it is damaged, or no Minari dataset, or one of a "
        "version that the installed Minari does not know"
    )


def refuse_odd_files(folder: Path, opened: bool = False) -> None:
    """Refuse a folder `data` of a dataset that would run code (unless it is open), crash, or unpack to far too much."""
    metadata = _metadata(folder, opened)
    if metadata.get("data_format") == "hdf5":
        if find_spec("h5py") is not None:  # otherwise Minari says what is missing
            _refuse_odd_hdf5(folder / HDF5, metadata.get("total_episodes"))
        return
    for path in sorted(folder.glob("*/*")):
        if path.name != METADATA:
            _refuse_odd_table(path)


def _metadata(folder: Path, opened: bool) -> dict[str, Any]:
    try:
        found = json.loads(regular_file(folder / METADATA).read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        raise damaged(error) from None
    if not isinstance(found, dict):
        raise damaged(TypeError())
    if not opened and not all(isinstance(found.get(name), str) for name in SPACES):
        raise InputError(
            f"the dataset does not say what its observations and actions are ({' and '.join(SPACES)} in "
            f"{place(folder / METADATA)}): Minari would build the environment that it names, and run its code. If you "
            "trust it, open it yourself: from_minari(minari.load_dataset(ID))"
        )
    return found


def _refuse_odd_table(path: Path) -> None:
    """An Arrow or a Parquet file of one episode."""
    regular_file(path)
    with explain_read_errors(path):
        open_parquet(path) if kind_of_file(path) == "Parquet" else open_arrow(path)


def _refuse_odd_hdf5(path: Path, episodes: Any) -> None:
    """Add up what each episode says that it holds, and refuse links to other files, as soon as it is too much."""
    import h5py

    regular_file(path)
    if not isinstance(episodes, int) or episodes < 0:
        raise damaged(ValueError())
    size = 0
    try:
        with h5py.File(path, "r") as file:
            for number in range(episodes):
                safe_point()
                group = _inside(file, f"episode_{number}", path)
                for name in PARTS:
                    if name in group:
                        size += sum(_sizes(_inside(group, name, path), path))
                refuse_swollen(path, size)
    except (AttributeError, LookupError, OSError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise damaged(error) from None


def _inside(group: Any, name: str, path: Path) -> Any:
    """A member of a group, which is no link to elsewhere."""
    import h5py

    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise InputError(f"{place(path)} has a link to another place at {name!r}: copy what it means into the file")
    return group[name]


def _sizes(one: Any, path: Path, depth: int = 0) -> Iterator[int]:
    """Bytes that each dataset in it takes once it is read."""
    import h5py

    if isinstance(one, h5py.Group):
        if depth == DEEPEST:
            raise InputError(f"{place(path)} has more than {DEEPEST} groups within each other: flatten its infos")
        for name in one:
            yield from _sizes(_inside(one, name, path), path, depth + 1)
    elif one.is_virtual or one.external:
        raise InputError(f"{place(path)} keeps numbers in other files: copy them into it")
    else:
        yield one.size * one.dtype.itemsize
