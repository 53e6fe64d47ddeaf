"""Grids of candidates in a TOML file.

[[grid]]
learner = "poela"
radius = [0.1, "q50"]         # a list holds alternatives
variance_penalty = [0.1, 1.0]
hidden = [[64, 64]]           # one alternative, itself a list
steps = 1000                  # anything else is the same for all

[[grid]]
learner = "bcq"
rule.radius = ["q25", "q75"]  # a setting of a rule
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from poela.core.errors import InputError
from poela.core.paths import regular_file
from poela.studies.candidates import Candidate, grid


def candidates_in(path: Path) -> list[Candidate]:
    """The candidates that a file describes."""
    try:
        document = tomllib.loads(regular_file(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as TOML: {error}") from None
    return grids_in(document, str(path))


def grids_in(document: Mapping[str, Any], where: str) -> list[Candidate]:
    """The candidates of a parsed document.

    >>> [str(c) for c in grids_in({"grid": [{"learner": "poela", "radius": [0.1, "q50"], "steps": 9}]}, "here")]
    ['poela radius=0.1 steps=9', 'poela radius=q50 steps=9']
    """
    grids = document.get("grid")
    unknown = [name for name in document if name != "grid"]
    if not isinstance(grids, list) or not grids or unknown or not all(isinstance(entry, dict) for entry in grids):
        raise InputError(f"{where} must hold tables called [[grid]], and nothing else")
    nameless = sum(not isinstance(entry.get("learner"), str) for entry in grids)
    if nameless:
        raise InputError(f'{nameless} of {len(grids)} grids in {where} name no learner: add learner = "poela"')
    return [candidate for entry in grids for candidate in _grid(entry)]


def _grid(entry: Mapping[str, Any]) -> list[Candidate]:
    choices = {name: _alternatives(value) for name, value in entry.items() if name != "learner"}
    return grid(entry["learner"], **choices)


def _alternatives(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [dict(candidate.settings) for candidate in grid("", **{k: _alternatives(v) for k, v in value.items()})]
    return value if isinstance(value, list) else [value]
