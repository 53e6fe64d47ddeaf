"""How often a study recommends a policy that truly breaks its guardrail, and how often it clears one that does not.

    python benchmarks/guards.py --logs 500 --jobs 16 --minutes 20 --out docs/results/limits
    python benchmarks/guards.py --table docs/results/limits

Treating helps those with x > 0 and harms: every treatment raises the rate of harm by 0.15 in the kinds `harmful` (what
gains most is beyond the limit of +0.02 per step) and not at all in the kinds `safe`. A false clearance is a recommended
policy that truly raises harm by more than the limit; power is how often a policy is recommended. Each log is learned
from by five folds and by one split in halves. One-step logs have 800 cases, sequential ones 400 episodes of 3 steps.
Rows go to OUT/KIND.jsonl as they are made, and those that are there are not made again.
"""

import argparse
import json
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta
from stored_rows import made_by

import poela
from poela.data.trajectories import Trajectories

FIRST_SEED, FRESH, LIMIT = 40_000, 20_000, 0.02
KINDS = {name: (steps, harm) for steps in (1, 3) for name, harm in ((f"harmful-{steps}", 0.15), (f"safe-{steps}", 0.0))}
WAYS: dict[str, dict[str, Any]] = {"folds": {}, "split": {"shares": (0.5, 0.49, 0.01)}}


def logs_of(kind: str, seed: int) -> Trajectories:
    """A log of this kind: practice treats half of all cases at random."""
    steps, harm = KINDS[kind]
    rng, n = np.random.default_rng(seed), 800 if steps == 1 else 400
    rows = n * steps
    x, actions = rng.normal(size=(rows, 2)), rng.integers(0, 2, rows)
    rewards = actions * np.where(x[:, 0] > 0, 0.8, 0.2) + rng.normal(size=rows)
    harms = (rng.random(rows) < 0.1 + harm * actions).astype(float)
    offsets, even = np.arange(0, rows + 1, steps), np.full((rows, 2), 0.5)
    return Trajectories(x, actions, rewards, offsets, even, 2, outcomes=harms[:, None], outcome_names=["harm"])


def treated(policy: Any, steps: int) -> float:
    """How often a policy truly treats in an episode: contexts do not depend on what is done, so it is followed."""
    rng = np.random.default_rng(1)
    x, actions = rng.normal(size=(FRESH, steps, 2)), np.zeros((FRESH, steps), np.int64)
    total = 0.0
    for step in range(steps):
        rows = FRESH * (step + 1)
        past = x[:, : step + 1].reshape(rows, 2), actions[:, : step + 1].reshape(rows)
        cases = Trajectories(*past, np.zeros(rows), np.arange(0, rows + 1, step + 1), n_actions=2)
        chance = policy.along(cases)[step :: step + 1, 1]
        actions[:, step] = rng.random(FRESH) < chance
        total += float(chance.mean())
    return total


def row_of(kind: str, seed: int, way: str) -> dict[str, Any]:
    """One study: whether a policy is recommended, and by how much that truly raises harm."""
    warnings.simplefilter("ignore")
    steps, harm = KINDS[kind]
    limit, began = LIMIT * steps, time.process_time()
    study = poela.learn(
        logs_of(kind, seed), learners=["fittedq"], guards=[f"harm <= +{limit:g}"], backend="inline", **WAYS[way]
    )
    row = {"kind": kind, "seed": seed, "way": way, "recommended": not study.keeps_logging_policy, "change": None}
    if row["recommended"]:
        row["change"] = harm * (treated(study.policy, steps) - steps / 2)
        row["false"] = row["change"] > limit
    return row | {"cpu": time.process_time() - began, **made_by()}


def done_in(out: Path) -> list[dict[str, Any]]:
    """The rows that are there."""
    return [json.loads(line) for path in sorted(out.glob("*.jsonl")) for line in path.read_text().splitlines()]


def main() -> None:
    """Make rows, and the table of all that are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=20, help="of each one-step kind; of sequential ones a fifth")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=5.0, help="begin no new log after this time")
    parser.add_argument("--out", type=Path, default=Path("docs/results/limits"))
    parser.add_argument("--table", type=Path)
    given = parser.parse_args()
    if given.table is None:
        make(given.out, given.logs, given.jobs, given.minutes)
    print(table(done_in(given.table or given.out)))


def make(out: Path, logs: int, jobs: int, minutes: float) -> None:
    """Make the rows that are missing, as far as time allows; every kind at each seed."""
    os.environ["OMP_NUM_THREADS"] = "1"
    out.mkdir(parents=True, exist_ok=True)
    known = {(row["kind"], row["seed"], row["way"]) for row in done_in(out)}
    tasks = [
        (kind, FIRST_SEED + number, way)
        for number in range(logs)
        for kind, (steps, _) in KINDS.items()
        for way in WAYS
        if number < (logs if steps == 1 else -(-logs // 5))
    ]
    left, end = [task for task in tasks if task not in known], time.monotonic() + 60 * minutes
    with ProcessPoolExecutor(jobs) as pool:
        while left and time.monotonic() < end:
            some, left = left[: 4 * jobs], left[4 * jobs :]
            for done in as_completed([pool.submit(row_of, *task) for task in some]):
                row = done.result()
                with (out / f"{row['kind']}.jsonl").open("a") as file:
                    file.write(json.dumps(row) + "\n")


def table(rows: list[dict[str, Any]]) -> str:
    """Recommended and false ones of each kind and way, with Clopper and Pearson's upper end."""
    lines = [
        "| log | way | logs | recommended | false clearance | at most (95%) | cpu s |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind in KINDS:
        for way in WAYS:
            own = [row for row in rows if (row["kind"], row["way"]) == (kind, way)]
            if not own:
                continue
            recommended, false = sum(row["recommended"] for row in own), sum(bool(row.get("false")) for row in own)
            most = 1.0 if false == len(own) else float(beta.ppf(0.95, false + 1, len(own) - false))
            cpu = np.mean([row["cpu"] for row in own])
            lines.append(f"| {kind} | {way} | {len(own)} | {recommended} | {false} | {most:.1%} | {cpu:.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
