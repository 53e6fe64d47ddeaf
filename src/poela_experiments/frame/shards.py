"""One experiment on several machines: each makes a share of its parts, and the parts are joined without doubt."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poela.core.errors import InputError
from poela.core.files import atomic_file
from poela.core.paths import place
from poela_experiments.frame.kept import DIRECTORY, Part, part_file, read_part, slug


class ShardDone(Exception):
    """The parts of a shard are made; there is nothing to report before they are joined with the others."""

    def __init__(self, made: int, parts: int) -> None:
        super().__init__(f"{made} of {parts} parts are made")


@dataclass(frozen=True)
class Shard:
    """Every `of`-th part, from this number on.

    >>> Shard.parsed("2/3").share({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5})
    {'b': 2, 'e': 5}
    """

    number: int
    of: int

    @classmethod
    def parsed(cls, text: str) -> "Shard":
        """Of a text such as 2/8."""
        number, _, of = text.partition("/")
        if not (number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
            raise InputError(f"--shard is {text!r}: it is a number from 1 on and how many there are, such as 2/8")
        return cls(int(number), int(of))

    def share(self, parts: Mapping[str, Any]) -> dict[str, Any]:
        """Its parts."""
        return dict([*parts.items()][self.number - 1 :: self.of])

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def join(out: Path, experiment: str, parts: Mapping[str, Part], folders: Sequence[Path]) -> None:
    """Copy every part from the folder that has it; none may be missing, there twice, or of another kind."""
    for folder in folders:
        if not (folder / DIRECTORY).is_dir():
            raise InputError(f"{place(folder)} holds no parts: give the folder that a shard was written to by --out")
    found = {name: _found(part_file(name, part), folders) for name, part in parts.items()}
    for name, files in found.items():
        if len(files) > 1:
            raise InputError(
                f"the part {name!r} is in {len(files)} folders ({place(files[0].parents[1])} and "
                f"{place(files[1].parents[1])}): each part may be there once"
            )
    _refuse_missing(experiment, [name for name, files in found.items() if not files], len(parts), folders)
    made_by: dict[str, str] = {}
    for name, (file,) in found.items():
        made_by.setdefault(read_part(file, name, parts[name])["about"].get("code", "unknown"), name)
    if len(made_by) > 1:
        names = " and ".join(repr(name) for name in list(made_by.values())[:2])
        raise InputError(f"the parts {names} were made by different code: run one of their shards again")
    for (file,) in found.values():
        with atomic_file(out / DIRECTORY / file.name) as temporary:
            shutil.copyfile(file, temporary)


def _found(name: str, folders: Sequence[Path]) -> list[Path]:
    return [file for folder in folders if (file := folder / DIRECTORY / name).is_file()]


def _refuse_missing(experiment: str, missing: Sequence[str], parts: int, folders: Sequence[Path]) -> None:
    if not missing:
        return
    beside = [name for name in missing if any(any((f / DIRECTORY).glob(f"{slug(name)}-*.json")) for f in folders)]
    if beside:
        raise InputError(
            f"the part {beside[0]!r} is there, but made with other settings, another seed or another version: "
            "run its shard again"
        )
    raise InputError(
        f"{len(missing)} of {parts} parts of {experiment} are missing (the first is {missing[0]!r}): run their shards"
    )
