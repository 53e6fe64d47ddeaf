"""Learned support as logs grow: what it leaves open of a hole, and what it bars of what was done.

    python benchmarks/support_growth.py --sizes 400 1500 5000 20000 --logs 4 --out growth/
    python benchmarks/support_growth.py --sizes 1500 --support-alone --logs 30 --first 64000 --out growth/
    python benchmarks/support_growth.py --table growth/

Propensities are hidden. On fresh cases: `open` is the share of the hole in which the third action still has support,
`barred` that of logged decisions without support, `kept` that of cases outside the hole in which the third action has
support; `soft` and `hard` are how probable the third action is in the hole under a tilt (fittedq at temperature 0.5)
with a price of 1 for each nat of missing support and under the hard rule, `free` without a rule.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from holes_in_support.processes import THIRD, OneStep
from holes_in_support.scenarios import scenario
from stored_rows import Row, add_flags, carry_out, rows_in, seeds

from poela.behavior.boosted import BoostedBehavior
from poela.core.errors import InputError
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import USUAL_SUPPORT, Eligibility
from poela.eligibility.support import fit_support
from poela.learners.fitted_q import FittedQ

KINDS = ("half", "corner", "pocket")
FRESH, FRESH_SEED = 20_000, 999
RULES = {
    "soft": Eligibility(support=USUAL_SUPPORT, price=1.0),
    "hard": Eligibility(support=USUAL_SUPPORT),
    "free": Eligibility(),
}


class Growth(NamedTuple):
    """Shares, each of what its name says."""

    open: float
    barred: float
    kept: float
    soft: float = float("nan")
    hard: float = float("nan")
    free: float = float("nan")


def measured(kind: str, size: int, seed: int, tilts: bool = True) -> Growth:
    """One log of this size, asked about fresh cases."""
    process = scenario(f"{kind}:none").process
    assert isinstance(process, OneStep)
    logs = process.simulate(size, seed).with_propensities(None)
    fresh = process.simulate(FRESH, FRESH_SEED)
    hole = process.harmed(np.asarray(fresh.contexts, np.float64))
    model = fit_support(logs, USUAL_SUPPORT)
    if model is None:
        raise InputError(f"{size} cases are too few for a model of support")
    supported = model.supported(model.probabilities(fresh.contexts))
    third, done = supported[:, THIRD], supported[np.arange(FRESH), fresh.actions]
    shares = (third[hole].mean(), 1 - done.mean(), third[~hole].mean())
    rows = _tilts(logs, fresh) if tilts else {}
    return Growth(*map(float, shares), **{name: float(own[hole].mean()) for name, own in rows.items()})


def _tilts(logs: Trajectories, fresh: Trajectories) -> dict[str, np.ndarray]:
    """How probable the third action is at fresh cases under each rule."""
    behavior = BoostedBehavior().fit_quietly(logs, 0)
    learners = {name: FittedQ(temperature=0.5, temperatures=(), history=0, rule=rule) for name, rule in RULES.items()}
    asked = fresh.with_propensities(None)
    return {name: one.fit(logs, behavior=behavior).along(asked)[:, THIRD] for name, one in learners.items()}


def row_of(kind: str, size: int, seed: int, tilts: bool) -> Row:
    """The shares of one log by name; those that were not asked for are left out."""
    return {name: share for name, share in measured(kind, size, seed, tilts)._asdict().items() if share == share}


def table(rows: Sequence[Row]) -> str:
    """Markdown: a row for each kind of hole and size, of means over logs; and the most that any log leaves open."""
    lines = [
        f"| hole | cases | logs | {' | '.join(Growth._fields)} | most open |\n|---|{'---|' * (len(Growth._fields) + 3)}"
    ]
    for kind, size in sorted(
        {(row["task"][0], row["task"][1]) for row in rows}, key=lambda one: (KINDS.index(one[0]), one[1])
    ):
        own = [row for row in rows if row["task"][:2] == [kind, size]]
        means = [[row[name] for row in own if name in row] for name in Growth._fields]
        cells = [f"{np.mean(shares):.3f}" if shares else "" for shares in means]
        most = max(row["open"] for row in own)
        lines.append(f"| {kind} | {size:,} | {len(own)} | {' | '.join(cells)} | {most:.3f} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Measure what has no row yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[400, 1500, 5000, 20_000], help="cases in each log")
    parser.add_argument("--support-alone", action="store_true", help="without tilts")
    add_flags(parser, "growth")
    options = parser.parse_args(arguments)
    if options.table is None:
        numbers = seeds(options.first or 0, options.logs, options.shard)
        tasks = [
            (kind, size, seed, not options.support_alone)
            for seed in numbers
            for kind in KINDS
            for size in options.sizes
        ]
        for _ in carry_out(tasks, row_of, options.out, options.shard, options.jobs, options.minutes):
            pass
    print(table(rows_in(options.out if options.table is None else options.table)))


if __name__ == "__main__":
    main(sys.argv[1:])
