"""Coverage of the gain beside that of the value, from mild tilts of the logging policy to far ones.

Studies claim gains, mostly of mild tilts: there value and gain differ most, since a policy that does nearly what was
done has nearly the same luck, whose difference is known far better than either value.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from poela.stats.verdict import WORDS
from poela_experiments.frame.results import markdown_rows

from .cells import SETS, Cell, environments, measured_rows

TILTS = {"very mild": 0.95, "mild": 0.8, "medium": 0.5, "far": 0.2}  # the share of episodes that are effective
COLUMNS = (
    *("set", "tilt", "verdict", "logs", "value: truth below", "value: truth above"),
    *("gain: truth below", "gain: truth above", "worst kind (gain: truth below)"),
)
ENOUGH = 50  # logs, for the rate of one kind

Task = tuple[str, str, str, int, int]  # the environment, its set, the tilt, logs, the seed


def tasks(repeats: int, pieces: int, seed: int, only: Sequence[str] = ()) -> list[Task]:
    """Every process at every tilt, in pieces of a few logs each: one piece of all of them comes before the next.

    >>> len(tasks(repeats=50, pieces=2, seed=0)) == 2 * 4 * (27 + 22)
    True
    """
    return [
        (name, part, tilt, repeats, seed + piece)
        for piece in range(pieces)
        for part in SETS
        for name in environments(part)
        if not only or name in only
        for tilt in TILTS
    ]


def measured(name: str, part: str, tilt: str, repeats: int, seed: int) -> dict[str, Any]:
    """The row of a piece."""
    ess = round(TILTS[tilt] * environments(part)[name].episodes)
    found = measured_rows(Cell(part, name, ess), repeats, others=0, seed=seed)["cell"]
    return {"tilt": tilt, **{key: value for key, value in found.items() if key != "reached"}}


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: how often the truth is beyond either end of a 95% interval (2.5% each), in percent of logs.

    Processes whose propensities are estimated are left out. Below the lower end is what makes a claim false.
    """
    return "\n".join(markdown_rows([*COLUMNS], [*_lines(rows)]))


def _lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
    known = [row for row in rows if not str(row["log"]).startswith("estimated")]
    for part in SETS:
        for tilt in TILTS:
            own = [row for row in known if (row["set"], row["tilt"]) == (part, tilt)]
            for word in (None, *WORDS):
                counts = np.array([_counts(row, word) for row in own]).reshape(-1, 5)
                if counts[:, 0].sum() == 0:
                    continue
                shares = 100 * counts[:, 1:].sum(axis=0) / counts[:, 0].sum()
                kinds = [str(row["log"]) for row in own]
                worst = _worst(kinds, counts[:, 0], counts[:, 3])
                yield [
                    part,
                    tilt,
                    word or "any",
                    f"{counts[:, 0].sum():.0f}",
                    *(f"{share:.1f}" for share in shares),
                    worst,
                ]


def _counts(row: Mapping[str, Any], word: str | None) -> tuple[float, float, float, float, float]:
    """Logs with this word, and those where the truth of value and gain is below and above the interval."""
    if word is None:
        n = row["logs"]
        shares = (row[name] for name in ("truth below", "truth above", "gain below", "gain above"))
        below, above, gain_below, gain_above = (n * share / 100 for share in shares)
        return n, below, above, gain_below, gain_above
    names = ("value below", "value above", "gain below", "gain above")
    below, above, gain_below, gain_above = (row[f"{word}: {name}"] for name in names)
    return row[word], below, above, gain_below, gain_above


def _worst(kinds: Sequence[str], logs: Any, missed: Any) -> str:
    """The highest rate of a kind with enough logs.

    >>> _worst(["a", "a", "b"], np.array([30, 30, 60]), np.array([3, 3, 1]))
    '10.0 (a)'
    """
    rates = []
    for kind in dict.fromkeys(kinds):
        own = np.array([one == kind for one in kinds])
        if logs[own].sum() >= ENOUGH:
            rates.append((100 * missed[own].sum() / logs[own].sum(), kind))
    return f"{max(rates)[0]:.1f} ({max(rates)[1]})" if rates else ""
