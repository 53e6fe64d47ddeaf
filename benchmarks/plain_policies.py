"""What plain policies show: bans by values and rules in one line on tumor logs, trees of two conditions, and trials.

    python benchmarks/plain_policies.py tumor zhou trial --logs 10 --jobs 2 --out plain/
    python benchmarks/plain_policies.py --table plain/

tumor: studies of 2,000 episodes with `--learners rules`. The best *never by values* and the best rule that reads in one
line, each with the gain that is shown and the true one, in normalised points (0: uniform random, 100: the best common
schedule). zhou: the process of Zhou, Athey & Wager, 2,000 rows: true values of the boldest trees of one and of two
conditions. trial: three incentives, 2,830 people: what is recommended, in words, shown and true. Seeds begin at 70,000,
where no setting was chosen. Rows go to OUT as they are made, and those that are there are not made again.
"""

import argparse
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from plain_processes import EFFECTS, trial, true_value, zhou_athey_wager
from stored_rows import add_flags, carry_out, commit, rows_in, seeds

import poela
from poela import Rules
from poela.evaluation.rollouts import compare
from poela.simulators.registry import tumor
from poela.simulators.tumor import normalised

FIRST_SEED = 70_000
ONE_LINE = 80  # letters
FRESH = 20_000
POINTS = normalised(1.0) - normalised(0.0)


def of_tumor(seed: int, size: int, acted: int) -> dict[str, Any]:
    """The best ban by values and the best rule in one line, of a study of rules alone."""
    source = tumor()
    study = poela.learn(source.collect(size or 2000, seed), learners=["rules"], backend="inline", seed=seed)
    shown = [point for point in study.points if point.metrics.get("shown") is not None]
    fitted = [] if study.keeps_logging_policy else [study.policy_of(point) for point in shown]
    says = [getattr(policy, "rule", "") for policy in fitted] or [""] * len(shown)
    kinds = {
        "never": [place for place, rule in enumerate(says) if not rule],
        "line": [place for place, rule in enumerate(says) if 0 < len(rule) <= ONE_LINE],
        "rule": [place for place, rule in enumerate(says) if rule],
    }
    row: dict[str, Any] = {}
    for kind, places in kinds.items():
        best = max(places, key=lambda place: shown[place].metrics["shown"] or 0.0, default=None)
        if best is None:
            continue
        row[f"{kind}_shown"] = POINTS * (shown[best].metrics["shown"] or 0.0)
        row[f"{kind}_changed"] = shown[best].metrics["departure"]
        if fitted:
            found = compare({"it": fitted[best], "practice": source.behavior}, source.simulator, acted, seed)
            row[f"{kind}_true"] = POINTS * found.difference("it", "practice").value
            row[f"{kind}_says"] = says[best] or study.name_of(shown[best])
    return row


def of_zhou(seed: int, size: int, acted: int) -> dict[str, Any]:
    """The boldest trees of one and of two conditions, by their true value."""
    path = list(Rules().fit_path(zhou_athey_wager(size or 2000, seed)[0]))
    fresh, means = zhou_athey_wager(FRESH, seed=99)
    return {"one": true_value(path[-5].policy, fresh, means), "two": true_value(path[-1].policy, fresh, means)}


def of_trial(seed: int, size: int, acted: int) -> dict[str, Any]:
    """What a study with fitted Q, consensus and rules recommends for a trial."""
    logs = trial(seed, size or 2830)
    study = poela.learn(logs, learners=["fittedq", "consensus", "rules"], backend="inline", seed=seed)
    if study.keeps_logging_policy or study.gain is None or study.gain.low is None:
        return {}
    gain = float((study.policy.along(logs).mean(axis=0) - 1 / 3) @ np.asarray(EFFECTS))
    words = study.answer.words
    return {"shown": study.gain.low, "true": gain, "name": study.chosen_name, "rule": study.rule, "words": words}


KINDS: dict[str, Callable[[int, int, int], dict[str, Any]]] = {"tumor": of_tumor, "zhou": of_zhou, "trial": of_trial}


def measured(kind: str, seed: int, size: int, acted: int) -> dict[str, Any]:
    """One log of a kind."""
    warnings.simplefilter("ignore")
    return {"kind": kind, "seed": seed, "commit": commit(), **KINDS[kind](seed, size, acted)}


def _mean(rows: list[dict[str, Any]], name: str) -> str:
    known = [row[name] for row in rows if row.get(name) is not None]
    return f"{np.mean(known):.3f} ({min(known):.3f} to {max(known):.3f})" if known else "-"


def tables(rows: list[dict[str, Any]]) -> list[str]:
    """What the logs of each kind come to."""
    lines = []
    own = {kind: [row for row in rows if row["kind"] == kind] for kind in KINDS}
    if some := own["tumor"]:
        lines += [f"tumor, {len(some)} logs", "", "| | shown (least to most) | true | changed |", "|---|---|---|---|"]
        named = {"never": "never by values", "line": "the best rule in one line", "rule": "the best rule"}
        lines += [
            " | ".join([f"| {words}", *(_mean(some, f"{kind}_{what}") for what in ("shown", "true", "changed"))]) + " |"
            for kind, words in named.items()
        ]
        lines += ["", *(f"- seed {row['seed']}: {row.get('line_says')}" for row in some)]
    if own["zhou"] or own["trial"]:
        lines += ["| process | logs | result |", "|---|---|---|"]
    for name, best in (("one", 1.756), ("two", 2.216)):
        if some := own["zhou"]:
            words = f"Zhou, Athey & Wager, 2,000 rows: the boldest tree of {name} condition{'s' * (name != 'one')}"
            lines.append(f"| {words}, true value | {len(some)} | {_mean(some, name)}; the best there is: {best} |")
    if some := own["trial"]:
        claims = [row for row in some if "shown" in row]
        above, plain = sum(row["shown"] > row["true"] for row in claims), sum(row["rule"] is not None for row in claims)
        words = f"{len(claims)} claims, {plain} in words, {above} above the truth; shown {_mean(claims, 'shown')}"
        process = "trial of three incentives, 2,830 people, effects 0, 0.05, 0.08"
        lines.append(f"| {process} | {len(some)} | {words}, true {_mean(claims, 'true')} |")
        lines += ["", *(f"- seed {row['seed']}: {row.get('words') or 'as before'}" for row in some)]
    return lines


def main(arguments: list[str]) -> None:
    """Measure what has no row yet, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], metavar="KIND", help=", ".join(KINDS))
    add_flags(parser, "plain")
    parser.add_argument("--size", type=int, default=0, help="cases in each log (0: as many as the kind has)")
    parser.add_argument("--acted", type=int, default=4000, help="roll-outs behind a true gain")
    asked = parser.parse_args(arguments)
    if asked.table is None:
        own = seeds(FIRST_SEED if asked.first is None else asked.first, asked.logs, asked.shard)
        tasks = [(kind, seed, asked.size, asked.acted) for kind in asked.kinds or KINDS for seed in own]
        for row in carry_out(tasks, measured, asked.out, asked.shard, asked.jobs):
            print(row, flush=True)
    print("\n".join(tables(rows_in(asked.table or asked.out))))


if __name__ == "__main__":
    main(sys.argv[1:])
