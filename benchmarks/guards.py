"""How often a study recommends a policy that truly breaks its guardrail, and how often it clears one that does not.

    python benchmarks/guards.py --logs 500 --jobs 16 --minutes 20
    python benchmarks/guards.py --table docs/results/limits/guards

Treating helps those with x > 0 more, and harms: each treatment raises the rate of harm by 0.15 in the kinds `harmful`,
by 0.05 in `moderate` (to treat everybody is just beyond the limit of +0.02 per step), not at all in `safe`, and in
`ward` by 0.15 in one of two wards, each of which is guarded. A false clearance is a recommended policy that truly
raises harm by more than the limit (of one ward); power is how often a policy is recommended. Each log is learned
from by five folds, and by one split in halves. One-step logs have 800 cases, sequential ones (a fifth as
many) 400 episodes of 3 steps. A run goes on where there are rows.
"""

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta
from stored_rows import Row, add_flags, carry_out, rows_in, seeds

import poela
from poela.data.trajectories import Trajectories

FIRST_SEED, FRESH, LIMIT = 40_000, 20_000, 0.02
HARMS = {"harmful": (0.15, 0.15), "moderate": (0.05, 0.05), "safe": (0.0, 0.0), "ward": (0.15, 0.0)}  # by ward
KINDS = {f"{name}-{steps}": (steps, harms) for steps in (1, 3) for name, harms in HARMS.items()}
del KINDS["ward-3"]
WAYS: dict[str, dict[str, Any]] = {"folds": {}, "split": {"shares": (0.5, 0.49, 0.01)}}
NAMES = ("x", "z", "ward")


def contexts(rng: np.random.Generator, rows: int) -> Any:
    """Two features, and the ward that a case is in."""
    return np.column_stack([rng.normal(size=(rows, 2)), rng.integers(0, 2, rows)])


def logs_of(kind: str, seed: int) -> Trajectories:
    """A log of this kind: practice treats half of all cases at random."""
    steps, harms = KINDS[kind]
    rng, n = np.random.default_rng(seed), 800 if steps == 1 else 400
    rows = n * steps
    x, actions = contexts(rng, rows), rng.integers(0, 2, rows)
    rewards = actions * np.where(x[:, 0] > 0, 0.8, 0.2) + rng.normal(size=rows)
    harm = (rng.random(rows) < 0.1 + np.asarray(harms)[x[:, 2].astype(int)] * actions).astype(float)
    offsets, even = np.arange(0, rows + 1, steps), np.full((rows, 2), 0.5)
    names: Any = {"feature_names": NAMES, "outcomes": harm[:, None], "outcome_names": ["harm"]}
    return Trajectories(x, actions, rewards, offsets, even, 2, **names)


def raised(policy: Any, steps: int, harms: tuple[float, float]) -> list[float]:
    """By how much a policy truly raises harm in an episode, in each ward of its first step.

    Contexts do not depend on what is done, so it is followed.
    """
    rng = np.random.default_rng(1)
    x, actions = contexts(rng, FRESH * steps).reshape(FRESH, steps, 3), np.zeros((FRESH, steps), np.int64)
    more = np.zeros(FRESH)
    for step in range(steps):
        rows = FRESH * (step + 1)
        past = x[:, : step + 1].reshape(rows, 3), actions[:, : step + 1].reshape(rows)
        cases = Trajectories(*past, np.zeros(rows), np.arange(0, rows + 1, step + 1), n_actions=2)
        chance = policy.along(cases)[step :: step + 1, 1]
        actions[:, step] = rng.random(FRESH) < chance
        more += np.asarray(harms)[x[:, step, 2].astype(int)] * (chance - 0.5)
    return [float(more[x[:, 0, 2] == ward].mean()) for ward in (0, 1)]


def row_of(kind: str, way: str, seed: int) -> Row:
    """One study: whether a policy is recommended, and by how much that truly raises harm."""
    warnings.simplefilter("ignore")
    steps, harms = KINDS[kind]
    by, limit = " by ward" * (kind == "ward-1"), LIMIT * steps
    study = poela.learn(
        logs_of(kind, seed), learners=["fittedq"], guards=[f"harm{by} <= +{limit:g}"], backend="inline", **WAYS[way]
    )
    row: Row = {"recommended": not study.keeps_logging_policy, "change": None}
    if row["recommended"]:
        wards = raised(study.policy, steps, harms)
        row["change"] = max(wards) if by else float(np.mean(wards))
        row["false"] = row["change"] > limit
    return row


def table(rows: list[Row]) -> str:
    """Recommended and false ones of each kind and way, with Clopper and Pearson's upper end."""
    lines = [
        "| log | way | logs | recommended | false clearance | at most (95%) | cpu s |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind in KINDS:
        for way in WAYS:
            own = [row for row in rows if row["task"][:2] == [kind, way]]
            if not own:
                continue
            recommended, false = sum(row["recommended"] for row in own), sum(bool(row.get("false")) for row in own)
            most = 1.0 if false == len(own) else float(beta.ppf(0.95, false + 1, len(own) - false))
            cpu = np.mean([row["cpu"] for row in own])
            lines.append(f"| {kind} | {way} | {len(own)} | {recommended} | {false} | {most:.1%} | {cpu:.1f} |")
    return "\n".join(lines)


def main() -> None:
    """Make rows, and the table of all that are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_flags(parser, "docs/results/limits/guards")
    asked = parser.parse_args()
    folder: Path = asked.table or asked.out
    if asked.table is None:
        first = FIRST_SEED if asked.first is None else asked.first
        tasks = [
            (kind, way, seed)
            for seed in seeds(first, asked.logs, asked.shard)
            for kind, (steps, _) in KINDS.items()
            for way in WAYS
            if seed - first < (asked.logs if steps == 1 else -(-asked.logs // 5))
        ]
        for _ in carry_out(tasks, row_of, folder, asked.shard, asked.jobs, asked.minutes):
            pass
    print(table(rows_in(folder)))


if __name__ == "__main__":
    main()
