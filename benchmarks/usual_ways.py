"""Beside the usual ways to learn a rule from one-step logs and to say what it gains: what is claimed, and is it true?

    python benchmarks/usual_ways.py --logs 200 --jobs 16 --minutes 5 --out usual/
    python benchmarks/usual_ways.py effect-weak --ways tree tree-split --logs 500 --out usual/
    python benchmarks/usual_ways.py --table usual/

The usual way: doubly robust scores of every action (AIPW; boosted values, cross-fitted, logged propensities), the rule
with the best score, and the one-sided 95% normal bound of its gain over practice on scores that it was not learned
from. `tree` is the exact tree of depth two, `linear` the best action by a linear regression of each action's scores.
Plain names are cross-fitted, as most people do: five folds, each judged by the rule of the others, errors of folds
taken as independent, and the rule of all cases is handed back. `-split` is honest: one half learns, the other judges.
`study` is `poela.learn` with fittedq, consensus and rules. Kinds of logs are those of claims.py; a claim is a bound
above zero, and false if it is above the true gain of what is handed back. Seeds begin at 20,000, where nothing was
chosen.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from aipw_rules import FOLDS, Rule, bound, gains, linear, scores_of, tree
from claims import FIRST_SEED, KINDS, carried_out, interval
from stored_rows import Row, add_flags, carry_out, commit, rows_in, seeds

PROCESSES = ("arms-2", "prognosis", "effect-weak", "effect-prognosis", "effect-strong")


RULES: dict[str, Callable[[Any, Any], Rule]] = {"tree": tree, "linear": linear}
WAYS = ("study", *RULES, *(f"{name}-split" for name in RULES))


class Fixed:
    """A rule as a policy."""

    def __init__(self, rule: Rule, n_actions: int) -> None:
        self.rule, self.n_actions = rule, n_actions

    def along(self, logs: Any) -> Any:
        """[N, A]."""
        return np.eye(self.n_actions)[self.rule(np.asarray(logs.contexts, np.float64))]


def judged(name: str, logs: Any, seed: int) -> tuple[float, float, Rule]:
    """The gain, its bound and the rule that is handed back."""
    learn, x = RULES[name.removesuffix("-split")], np.asarray(logs.contexts, np.float64)
    n, order = len(x), np.random.default_rng((seed, 6)).permutation(len(x))
    if name.endswith("-split"):
        first, second = (np.isin(np.arange(n), half) for half in np.array_split(order, 2))
        parts = [
            scores_of(x[half], logs.actions[half], logs.rewards[half], logs.propensities[half], seed)
            for half in (first, second)
        ]
        rule = learn(x[first], parts[0])
        return *bound(gains(rule, x[second], parts[1], logs.propensities[second])), rule
    scores, added = scores_of(x, logs.actions, logs.rewards, logs.propensities, seed), np.zeros(n)
    for held_out in np.array_split(order, FOLDS):
        others = ~np.isin(np.arange(n), held_out)
        rule = learn(x[others], scores[others])
        added[held_out] = gains(rule, x[held_out], scores[held_out], logs.propensities[held_out])
    return *bound(added), learn(x, scores)


def measured(kind: str, way: str, seed: int, episodes: int | None) -> Row:
    """One log, one way."""
    if way == "study":
        return {"kind": kind, "way": way, **carried_out(kind, "fittedq+consensus+rules", episodes, seed)}
    process = KINDS[kind]
    logs = process.logs(episodes or process.episodes, seed)
    started = time.process_time()
    value, low, rule = judged(way, logs, seed)
    row: Row = {"kind": kind, "way": way, "seed": seed, "commit": commit(), "cpu": time.process_time() - started}
    row["handed"] = 0.0 if process.gain is None else process.gain(Fixed(rule, logs.n_actions))
    return row | ({"shown": low, "estimated": value, "true": row["handed"]} if low > 0 else {})


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """Markdown; shown and true count 0 where nothing is claimed."""
    yield "| kind | way | logs | claims | false | % (95% interval) | shown per log | true per log | cpu |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for kind in dict.fromkeys([*PROCESSES, *(row["kind"] for row in rows)]):
        for way in WAYS:
            own = [row for row in rows if (row["kind"], row["way"]) == (kind, way)]
            if not own:
                continue
            claims = [row for row in own if "shown" in row]
            false = sum(row["shown"] > row["true"] for row in claims)
            low, high = interval(false, len(own))
            means = [f"{sum(row[name] for row in claims) / len(own):.4f}" for name in ("shown", "true")]
            share = f"{100 * false / len(own):.1f} ({100 * low:.1f} to {100 * high:.1f})"
            cpu = f"{np.mean([row['cpu'] for row in own]):.1f}"
            yield f"| {kind} | {way} | {len(own)} | {len(claims)} | {false} | {share} | {' | '.join(means)} | {cpu} |"


def main(arguments: list[str]) -> None:
    """Measure what has no row yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="of claims.py, of one step, with logged propensities")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=[*WAYS])
    parser.add_argument("--episodes", type=int)
    add_flags(parser, "usual")
    asked = parser.parse_args(arguments)
    if asked.table is None:
        if unknown := [kind for kind in asked.kinds if kind not in KINDS]:
            parser.error(f"there is no kind {unknown[0]!r}: see claims.py --list")
        own = seeds(FIRST_SEED if asked.first is None else asked.first, asked.logs, asked.shard)
        kinds = asked.kinds or PROCESSES
        tasks = [(kind, way, seed, asked.episodes) for seed in own for kind in kinds for way in asked.ways]
        for _ in carry_out(tasks, measured, asked.out, asked.shard, asked.jobs, asked.minutes):
            pass
    print("\n".join(tables(rows_in(asked.table or asked.out))))


if __name__ == "__main__":
    main(sys.argv[1:])
