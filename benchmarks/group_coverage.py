"""Bounds of gains by group: how often are they above the truth, in any group of a log?

    python benchmarks/group_coverage.py fixed study null --logs 200 --jobs 2 --out groups/
    python benchmarks/group_coverage.py --table groups/

One decision with two features; three actions; six groups of different size by a third feature, in which the second and
the third action help more or less, or harm. fixed: one policy that was learned elsewhere, on new logs, as `poela
evaluate --by` judges it. study: whole studies with `by`, and the policy that each recommends. null: the same where no
action does anything. Counted are logs in which the bound of some group is above its true gain ("at least"), and in
which some interval misses it: both are to be at most 5%. Seeds begin at 80,000.
"""

import argparse
import sys
import warnings
from typing import Any

import numpy as np
from claims import interval
from stored_rows import add_flags, carry_out, commit, rows_in, seeds

import poela
from poela import Trajectories
from poela.evaluation.scoring import Scoring
from poela.studies.by_group import GroupRequest, evaluated_groups

FIRST_SEED = 80_000
SHARES = np.array([0.35, 0.25, 0.15, 0.1, 0.1, 0.05])
EFFECTS = np.array(
    [[0.0, 0.8, -0.5], [0.0, 0.4, 0.4], [0.0, 0.0, 0.0], [0.0, -0.6, 0.6], [0.0, 1.0, 0.2], [0.0, 0.2, 1.0]]
)
FRESH = 50_000


def made(n: int, seed: int, size: float, hidden: bool = False) -> Trajectories:
    """Logs of a practice that looks at the first feature."""
    rng = np.random.default_rng(seed)
    group = rng.choice(len(SHARES), n, p=SHARES)
    x = rng.normal(size=(n, 2))
    mu = practice(x)
    actions = (rng.random((n, 1)) > mu.cumsum(axis=1)).sum(axis=1).clip(max=2)
    rewards = size * worth(group, x)[np.arange(n), actions] + x[:, 1] + rng.normal(size=n)
    names = {"feature_names": ["first", "second", "group"]}
    return Trajectories(
        np.column_stack([x, group]), actions, rewards, np.arange(n + 1), None if hidden else mu, **names
    )


def practice(x: Any) -> Any:
    """[n, 3]."""
    scores = np.stack([np.zeros(len(x)), 0.5 * x[:, 0], -0.5 * x[:, 0]], axis=1)
    chances = np.exp(scores)
    return chances / chances.sum(axis=1, keepdims=True)


def worth(group: Any, x: Any) -> Any:
    """The mean effect of each action [n, 3]."""
    return EFFECTS[group] * (1 + 0.5 * x[:, :1])


class Fixed:
    """Leans to the second action, the more the higher the first feature."""

    def probabilities(self, contexts: Any) -> Any:
        """[n, 3]."""
        rows = np.asarray(contexts, np.float64)
        scores = np.stack([np.zeros(len(rows)), 1.0 + rows[:, 0], -0.5 * rows[:, 0]], axis=1)
        chances = np.exp(scores)
        return chances / chances.sum(axis=1, keepdims=True)


def true_gains(policies: list[Any], size: float) -> list[float]:
    """In every group, of one of these policies at random, as folds have it."""
    fresh = made(FRESH, 1, size)
    x, group = np.asarray(fresh.contexts[:, :2], np.float64), fresh.contexts[:, 2].astype(int)
    doing = np.mean([poela.core.policy.as_policy(policy).along(fresh) for policy in policies], axis=0)
    gains = ((doing - practice(x)) * size * worth(group, x)).sum(axis=1)
    return [float(gains[group == number].mean()) for number in range(len(SHARES))]


def measured(kind: str, seed: int, n: int) -> dict[str, Any]:
    """One log: the bounds of each group, and what is true."""
    warnings.simplefilter("ignore")
    size = 0.0 if kind == "null" else 1.0
    logs, row = made(n, seed, size), {"kind": kind, "seed": seed, "commit": commit()}
    if kind == "fixed":
        found, truth = (
            evaluated_groups(Fixed(), "fixed", logs, Scoring(), GroupRequest(("group",))),
            true_gains([Fixed()], size),
        )
    else:
        study = poela.learn(logs, learners=["fittedq", "rules"], backend="inline", by=["group"], seed=seed)
        chosen = study.choice.chosen
        if chosen is None:
            return row
        found = study.by("group")
        truth = true_gains([study.fold_policy(chosen, fold) for fold in range(study.n_folds)], size)
    groups = [
        {
            "name": group.name,
            "cases": group.cases,
            "gain": group.gain,
            "shown": group.shown,
            "low": group.low,
            "high": group.high,
            "true": truth[int(group.name)],
            "verdict": group.verdict,
        }
        for group in found.groups[1:]
    ]
    return row | {"groups": groups}


def _misses(group: dict[str, Any]) -> bool:
    return group["low"] is not None and not group["low"] <= group["true"] <= group["high"]


def tables(rows: list[dict[str, Any]]) -> list[str]:
    """Of each kind: logs with a bound above the truth, and with an interval that misses it, in any group."""
    heads = (
        "logs",
        "judged",
        "bounds",
        "some bound above the truth (95%)",
        "some interval misses (95%)",
        "bound",
        "true",
    )
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for kind in dict.fromkeys(row["kind"] for row in rows):
        own = [row["groups"] for row in rows if row["kind"] == kind and "groups" in row]
        every = sum(row["kind"] == kind for row in rows)
        bounds = [group for groups in own for group in groups if group["shown"] is not None]
        above = sum(any(one["shown"] is not None and one["shown"] > one["true"] for one in groups) for groups in own)
        missed = sum(any(_misses(one) for one in groups) for groups in own)
        rates = [
            f"{100 * count / max(every, 1):.1f}% ({100 * low:.1f} to {100 * high:.1f})"
            for count, (low, high) in ((count, interval(count, every)) for count in (above, missed))
        ]
        means = [f"{np.mean([group[name] for group in bounds]):.3f}" if bounds else "-" for name in ("shown", "true")]
        lines.append(f"| {kind} | {len(own)} of {every} | {len(bounds)} | {' | '.join([*rates, *means])} |")
    return lines


def main(arguments: list[str]) -> None:
    """Measure what has no row yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="fixed, study, null")
    add_flags(parser, "groups")
    parser.add_argument("--size", type=int, default=1500, help="cases in each log")
    asked = parser.parse_args(arguments)
    if asked.table is None:
        own = seeds(FIRST_SEED if asked.first is None else asked.first, asked.logs, asked.shard)
        tasks = [(kind, seed, asked.size) for kind in asked.kinds or ("fixed", "study", "null") for seed in own]
        for _ in carry_out(tasks, measured, asked.out, asked.shard, asked.jobs, asked.minutes):
            pass
    print("\n".join(tables(rows_in(asked.table or asked.out))))


if __name__ == "__main__":
    main(sys.argv[1:])
