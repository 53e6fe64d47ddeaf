"""Finished parts of an experiment, kept beside its output: an interrupted one continues with those it has."""

import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache, partial
from inspect import signature
from pathlib import Path
from typing import Any

import poela
from poela import __version__
from poela.core.errors import InputError
from poela.core.files import write_json
from poela.core.paths import place
from poela.core.storage import read_json
from poela.studies.runs import one_thread

DIRECTORY = "kept"  # in the output directory of an experiment
Part = partial[Any]  # a function and all that its result depends on


def kept(out: Path, name: str, part: Part, about: Mapping[str, Any] | None = None) -> Any:
    """What the part gives: from its file, where this version made it of equal arguments before.

    It is made on one thread and, new or not, handed back as read from the file, so neither an interruption nor
    the number of cores changes it. Therefore its function has a name and depends on its arguments alone, these are told
    apart by their `repr` (texts, numbers, dataclasses of them), and what it gives is plain: texts, finite numbers,
    lists, and dictionaries by text. `about` says in the file how it came about.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as out:
    ...     print([kept(Path(out), "powers", partial(pow, 2, power)) for power in (3, 4, 3)])
    ...     print(len(list(Path(out).glob("kept/powers-*.json"))))
    [8, 16, 8]
    2
    """
    file = out / DIRECTORY / part_file(name, part)
    if not file.exists():
        with one_thread():
            made = part()
        whole = {**_basis(name, part), "about": dict(about or {}), "piece": made}
        write_json(file, {**whole, "digest": _digest(whole)})
    return read_part(file, name, part)["piece"]


def read_part(file: Path, name: str, part: Part) -> Mapping[str, Any]:
    """A part's file, which must hold that part and nothing else."""
    try:
        read = read_json(file)
    except InputError:
        read = None
    whole = {key: value for key, value in read.items() if key != "digest"} if isinstance(read, dict) else {}
    basis = _basis(name, part)
    sound = set(whole) == {"about", "piece", *basis} and all(whole[key] == basis[key] for key in basis)
    # Parts of earlier versions have no digest.
    if not (sound and isinstance(whole["about"], dict) and read.get("digest") in (None, _digest(whole))):
        raise InputError(
            f"{place(file)} is damaged, or is not the part {name!r}: delete it, and make that part again by its command"
        )
    return whole


def _digest(whole: Mapping[str, Any]) -> str:
    """Of all that a file holds, as JSON has it."""
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:16]


def part_file(name: str, part: Part) -> str:
    """The name of a part's file: its own name, and a hash of what it depends on."""
    return f"{slug(name)}-{hashlib.sha256(repr(_basis(name, part)).encode()).hexdigest()[:16]}.json"


def slug(name: str) -> str:
    """A name as files have it.

    >>> slug("example 2, H = 3")
    'example-2-h-3'
    """
    return re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")


def _basis(name: str, part: Part) -> dict[str, Any]:
    """All that a part depends on, in words."""
    make = part.func
    given = signature(make).bind(*part.args, **part.keywords)
    given.apply_defaults()
    arguments = {argument: repr(value) for argument, value in given.arguments.items()}
    if any(" at 0x" in text for text in arguments.values()):
        raise TypeError(f"{name}: an argument that shows its address is another one in every run")
    return {"poela": __version__, "made by": f"{make.__module__}.{make.__qualname__}", "of": arguments}


@cache
def code_version(*beside: Path) -> str:
    """A short hash of all our sources, and of folders beside them: equal where the same code made two parts."""
    home = Path(poela.__file__).parents[1]
    digest = hashlib.sha256()
    for package in (home / "poela", home / "poela_experiments", *beside):
        for file in sorted(package.rglob("*.py")):
            digest.update(file.relative_to(package.parent).as_posix().encode() + file.read_bytes())
    return digest.hexdigest()[:12]


@cache
def machine() -> dict[str, str]:
    """What numbers may depend on in their last digits: versions of packages, and the device that learns."""
    import platform
    from importlib.metadata import version

    import torch

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    packages = {package: version(package) for package in ("numpy", "scipy", "scikit-learn", "torch")}
    return {"python": platform.python_version(), **packages, "device": device}
