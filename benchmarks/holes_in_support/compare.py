"""Learners under no rule, the paper's radius, learned support and its soft form: each alone, on the same logs."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from statistics import fmean
from typing import Any

import numpy as np

from poela.core.errors import InputError
from poela_experiments.frame.results import markdown_rows

from .studies import Row, Task

# Holes of every kind, with all kinds of propensities; of few features and many, of one step and eight.
SCENARIOS = (
    *("half:all", "half:own", "half:none", "corner:own", "pocket:own", "pocket:none", "protocol-last:own"),
    *("ward:none", "stopped:own", "steps8:own", "half:own:d20", "pocket:own:d20", "nohole:own"),
)
# PO-CRM is POELA without a rule, and takes none.
COMPARED = {
    "pocrm": ("norule",),
    **dict.fromkeys(("fittedq", "bcq"), ("norule", "radius", "support", "soft")),
    "poela": ("radius", "support", "soft"),
}
COLUMNS = (
    *("scenario", "cases", "learner", "rule", "logs", "true gain", "in the hole", "estimate − true"),
    *("shown per log", "false", "harmful"),
)


def tasks(scenarios: Sequence[str], n: int, seeds: Sequence[int], learners: Sequence[str] = ()) -> list[Task]:
    """All of them, or those of some learners, seed by seed.

    >>> len(tasks(["half:own"], 1500, [1, 2])), len(tasks(["half:own"], 1500, [1, 2], ["fittedq"]))
    (24, 8)
    """
    unknown = [learner for learner in learners if learner not in COMPARED]
    if unknown:
        raise InputError(f"{unknown[0]!r} is not compared: choose from {', '.join(COMPARED)}")
    return [
        Task(name, n, variant, (learner,), seed)
        for seed in seeds
        for name in scenarios
        for learner in learners or COMPARED
        for variant in COMPARED[learner]
    ]


def comparison(rows: Iterable[Row]) -> str:
    """Markdown: a line for each scenario, size, learner and rule, of what its studies recommend or find promising.

    *True gain*, *in the hole* and *estimate − true* (with its standard error) are of that policy, whether it is claimed
    or not; practice, where there is none. *Shown* counts 0 where nothing is claimed.
    """
    whole = sorted((row for row in rows if "error" not in row), key=_kind)
    lines = [_line(kind, [*group]) for kind, group in groupby(whole, _kind)]
    return "\n".join(markdown_rows([*COLUMNS], lines))


def _kind(row: Row) -> tuple[Any, ...]:
    learners, variants = [*COMPARED], ("norule", "radius", "support", "soft")
    learner, variant = row["learners"], row["variant"]
    places = (learners.index(learner) if learner in learners else 99, variants.index(variant))
    return row["scenario"], row["n"], *places, learner, variant


def _line(kind: tuple[Any, ...], rows: Sequence[Row]) -> list[str]:
    name, n, *_, learner, variant = kind
    acting = [row for row in rows if _of(row, "true") is not None]
    true = [_of(row, "true") or 0.0 for row in rows]
    hole = [share for row in rows if (share := _of(row, "in_hole")) is not None]
    apart = [row["estimate"] - _of(row, "true") for row in acting if row["estimate"] is not None]
    cells = [
        *(name, n, learner, variant, len(rows), f"{fmean(true):.3f}", f"{fmean(hole):.1%}" if hole else ""),
        *(_with_error(apart), f"{fmean(row['shown'] if row['claimed'] else 0.0 for row in rows):.3f}"),
        *(sum(row["false"] for row in rows), sum(gain < 0 for gain in true)),
    ]
    return [*map(str, cells)]


def _of(row: Row, name: str) -> float | None:
    """Of what is recommended or, without that, of what is promising."""
    found = row.get(name)
    return row.get(f"promising_{name}") if found is None else found


def _with_error(values: Sequence[float]) -> str:
    """
    >>> _with_error([0.1, 0.3]), _with_error([0.5])
    ('+0.200 ± 0.100', '+0.500')
    """
    if not values:
        return ""
    error = f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.3f}" if len(values) > 1 else ""
    return f"{fmean(values):+.3f}{error}"
