"""The one gate for what users ask to be written: a new file or a plain one that may go; a folder that is nobody else's.

What is written inside a study goes through `files.atomic_file`, which refuses links, pipes and devices for itself.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from poela.core.errors import InputError
from poela.core.paths import folder_at, is_there, kind_of, new_path, place

STUDY_MARK = ".poela-study"
# Files by which the folder of a study or a policy is known: what lies in one is checked against the rest of it.
OWNED = {STUDY_MARK: "study", "poela-policy.json": "policy"}


def output_file(
    path: Any,
    what: str,
    *,
    overwrite: bool = False,
    endings: Sequence[str] = (),
    is_ours: Callable[[Path], bool] | None = None,
) -> Path:
    """Where a file may be written, refused before any work: never a device, a pipe, a socket, a link, or in a study.

    A plain file may be replaced with `overwrite`, or where `is_ours` knows it as an earlier one of its kind.
    """
    file = new_path(path, what)
    if endings and file.suffix not in endings:
        raise InputError(f"{place(file)} ends in neither {' nor '.join(endings)}: choose one of them")
    folder_at(file.parent, what)
    refuse_inside_ours(file, what)
    if not is_there(file):
        return file
    if (kind := kind_of(file.lstat().st_mode)) is not None:
        raise InputError(f"{place(file)} is {kind}, and no file: name another for {what}")
    if not (overwrite or (is_ours is not None and is_ours(file))):
        foreign = "" if is_ours is None else f" and is no {what.partition(' ')[2]} of ours"
        raise InputError(f"{place(file)} exists already{foreign}: choose another file, or add --overwrite")
    return file


def output_folder(path: Any, what: str) -> Path:
    """Where a folder may be written: anywhere but in a study, a policy, or among the system's devices."""
    folder = folder_at(path, what)
    refuse_inside_ours(folder, what)
    return folder


def refuse_inside_ours(path: Path, what: str) -> None:
    """Refuse a place within the folder of a study or a policy, whose files are checked against each other."""
    # By its true place: a link may lead into such a folder.
    for folder in Path(os.path.realpath(path)).parents:
        for mark, owner in OWNED.items():
            if is_there(folder / mark):
                raise InputError(f"{place(path)} is inside the folder of a {owner}: choose another place for {what}")
