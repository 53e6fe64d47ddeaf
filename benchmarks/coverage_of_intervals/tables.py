"""What the cells say together: the words of the verdict, trusted intervals, and the default one beside its rivals."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poela.stats.intervals import INTERVALS
from poela.stats.verdict import WORDS
from poela_experiments.frame.results import Cell, ResultTable
from poela_experiments.frame.run import Run

from .cells import SETS, Rows

ENOUGH = 50  # logs with a word, for a rate of misses in one kind of log
FAILING = 0.1  # of 95% intervals


def coverage_tables(run: Run, found: Sequence[Rows]) -> tuple[ResultTable, ...]:
    """The words of the verdict by set, every cell, and the default interval beside its rivals."""
    cells = [rows["cell"] for rows in found if rows["cell"]["reached"]]
    known = {(row["set"], row["log"], row["ESS asked"]) for row in cells}
    intervals = [row for rows in found for row in rows["intervals"]]
    intervals = [row for row in intervals if (row["set"], row["log"], row["ESS asked"]) in known]
    note = f"{run.size.repeats} logs in each cell; SNTIS; 95% intervals. No limit was set on the second set."
    return (
        run.table("words", "What the words of the verdict are worth", list(_word_rows(cells)), [note]),
        run.table("trusted", "Coverage where the verdict is trust", list(_trusted_rows(cells)), [note]),
        run.table("intervals", "All intervals where ESS is 40 or more", _rival_rows(intervals), [note]),
        run.table(
            "cells", "Every cell", cells, [note, "Misses and gains in percent; half-widths in standard deviations."]
        ),
    )


def _word_rows(cells: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Cell]]:
    for part in SETS:
        own = [row for row in cells if row["set"] == part and not _estimated(row)]
        if not own:
            continue
        logs = sum(row["logs"] for row in own)
        informative = sum(row["informative"] for row in own)
        for word in WORDS:
            said, missed = (sum(row[name] for row in own) for name in (word, f"{word}: missed"))
            yield {
                "set": part,
                "word": word,
                "of all": 100 * said / logs,
                "misses": 100 * missed / said if said else None,
                "of informative": 100 * sum(row["informative, trusted"] for row in own) / max(informative, 1)
                if word == "trust"
                else None,
                "logs": logs,
                "without width": sum(row["without width"] for row in own),
                "impossible": sum(row["impossible"] for row in own),
            }


def separation_rows(cells: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Cell]]:
    """What the words separate, in each set: how often intervals miss, where they fail, and how wide they are.

    A kind of log fails if more than a tenth of the 95% intervals with this word miss the truth there. Half-widths and
    ESS are the medians of kinds, by how many logs of each have the word. Gross errors are counted where rows have them.
    """
    for part in SETS:
        own = [row for row in cells if row["set"] == part and row["reached"] and not _estimated(row)]
        for word in WORDS:
            said = np.array([row[word] for row in own])
            if not said.sum():
                continue
            missed = np.array([row[f"{word}: missed"] for row in own])
            enough = said >= ENOUGH
            rates = np.divide(missed, said, out=np.zeros(len(said)), where=said > 0)
            gross = [row.get(f"{word}: gross") for row in own]
            yield {
                "set": part,
                "word": word,
                "logs": int(said.sum()),
                "misses": 100 * float(missed.sum() / said.sum()),
                "worst kind": 100 * float(rates[enough].max()) if enough.any() else None,
                "in failing kinds": 100 * float(said[enough & (rates > FAILING)].sum() / said.sum()),
                "half-width": _weighted_median([row["half-width"] for row in own], said),
                "ESS": _weighted_median([row["ESS"] for row in own], said),
                "gross": None if None in gross else 100 * float(np.sum(gross) / said.sum()),  # type: ignore[arg-type]
            }


def _weighted_median(values: Sequence[float], counts: NDArray[np.int64]) -> float:
    """The median of values that occur so often.

    >>> _weighted_median([3.0, 1.0, 2.0], np.array([1, 5, 1]))
    1.0
    """
    order = np.argsort(values)
    running = np.cumsum(counts[order])
    return float(values[order[np.searchsorted(running, running[-1] / 2)]])


def _trusted_rows(cells: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Cell]]:
    for row in cells:
        if row["trust"] >= max(0.2 * row["logs"], 1):
            yield {
                **{name: row[name] for name in ("set", "log", "episodes", "ESS", "expected ESS")},
                "trusted": 100 * row["trust"] / row["logs"],
                "covered": 100 * (1 - row["trust: missed"] / row["trust"]),
                "± covered": 100 * float(np.sqrt(0.95 * 0.05 / row["trust"])),
                "half-width": row["half-width"],
            }


def _rival_rows(intervals: Sequence[Mapping[str, Any]]) -> list[dict[str, Cell]]:
    rows = []
    for name in INTERVALS:
        own = [row for row in intervals if row["interval"] == name and row["ESS asked"] >= 40]
        if own:
            at_95 = np.array([row["95%"] for row in own])
            row: dict[str, Cell] = {"interval": name, "cells": len(own)}
            row |= {level: float(np.mean([row[level] for row in own])) for level in ("80%", "90%", "95%")}
            rows.append(row | {"lowest at 95%": float(at_95.min()), "below 90 at 95%": int((at_95 < 90).sum())})
    return rows


def _estimated(row: Mapping[str, Any]) -> bool:
    return str(row["log"]).startswith("estimated")
