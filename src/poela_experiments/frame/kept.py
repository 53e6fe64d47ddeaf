"""Finished pieces of an experiment, kept beside its output: an interrupted one continues with those it has."""

import hashlib
import re
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import ParamSpec, TypeVar

from poela import __version__
from poela.core.files import write_json
from poela.core.storage import read_json
from poela.studies.runs import one_thread

DIRECTORY = "kept"  # in the output directory of an experiment

Arguments = ParamSpec("Arguments")
Piece = TypeVar("Piece")


def kept(
    out: Path, name: str, make: Callable[Arguments, Piece], /, *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Piece:
    """What `make` gives for these arguments: from its file, where this version made it of equal ones before.

    It is made on one thread and, new or not, handed back as read from the file, so neither an interruption nor
    the number of cores changes it. Therefore `make` has a name and depends on its arguments alone, these are told apart
    by their `repr` (texts, numbers, dataclasses of them), and what it gives is plain: texts, finite numbers, lists, and
    dictionaries by text.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as out:
    ...     print([kept(Path(out), "powers", pow, 2, power) for power in (3, 4, 3)])
    ...     print(len(list(Path(out).glob("kept/powers-*.json"))))
    [8, 16, 8]
    2
    """
    given = signature(make).bind(*args, **kwargs)
    given.apply_defaults()
    arguments = {argument: repr(value) for argument, value in given.arguments.items()}
    if any(" at 0x" in text for text in arguments.values()):
        raise TypeError(f"{name}: an argument that shows its address is another one in every run")
    basis = {"poela": __version__, "made by": f"{make.__module__}.{make.__qualname__}", "of": arguments}
    key = hashlib.sha256(repr(basis).encode()).hexdigest()[:16]
    file = out / DIRECTORY / f"{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}-{key}.json"
    if not file.exists():
        with one_thread():
            made = make(*args, **kwargs)
        write_json(file, {**basis, "piece": made})
    piece: Piece = read_json(file)["piece"]
    return piece
