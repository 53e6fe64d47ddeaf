"""How often `poela watch` claims something on null logs in ten looks, and how often it sees an effect.

    python benchmarks/watching.py --jobs 16 --out docs/results/rounds/watching.json

Outcomes have standard deviation 1. *before*: 500 cases before, 500 after, ten looks at 50, 100, …, 500 of these.
*practice*: 1000 cases of a policy that treats half of them, against a practice that treated none, ten looks at 100,
200, …, 1000; the effect is that of treating, so that the policy gains half of it. *Drift*: 1000 cases without any, each
by itself or in clusters of five that are alike.
"""

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from stored_rows import made_by

from poela.core.files import write_json
from poela.data.trajectories import Trajectories
from poela.rounds.compared import OldMean, Units, compared
from poela.rounds.drift import drifts
from poela.rounds.looks import WatchPlan

LOOKS = 10
EFFECTS = (0.0, 0.2, 0.3)
CASES, CLUSTERS = 1000, {"independent": 1, "clustered": 5}  # of logs without drift: how many are alike
PLANS = {
    "sequence": WatchPlan(),
    "obrien-fleming": WatchPlan(method="obrien-fleming", looks=LOOKS),
    "pocock": WatchPlan(method="pocock", looks=LOOKS),
}


def before_after(effect: float, rng: np.random.Generator) -> tuple[Units, OldMean | None]:
    """500 cases before, and 500 after."""
    old, new = rng.normal(size=500), effect + rng.normal(size=500)
    return Units(new, np.arange(500)), Units(old, np.arange(500)).summary


def practice(effect: float, rng: np.random.Generator) -> tuple[Units, OldMean | None]:
    """1000 cases of a policy that treats every second one, against a practice that treats none."""
    treated = rng.random(1000) < 0.5
    returns = effect * treated + rng.normal(size=1000)
    return Units(returns, np.arange(1000), np.where(treated, 0.0, 2.0)), None


KINDS = {"before": before_after, "practice": practice}


def naive(cases: Units, old: OldMean | None, sizes: list[int]) -> tuple[bool, bool]:
    """Whether a plain 95% interval at each look says better, or worse."""
    found = [compared(cases.first(size), old, WatchPlan(), (size,), None) for size in sizes]
    return any(one.value > 1.96 * one.error for one in found), any(one.value < -1.96 * one.error for one in found)


def claims(kind: str, effect: float, number: int, seed: int) -> dict[str, tuple[bool, bool]]:
    """Whether ten looks at one log claim better, and worse, by plan."""
    cases, old = KINDS[kind](effect, np.random.default_rng([seed, number]))
    sizes = [cases.n * look // LOOKS for look in range(1, LOOKS + 1)]
    found = {"naive": naive(cases, old, sizes)}
    for name, plan in PLANS.items():
        looks = [
            compared(cases.first(size), old, plan, tuple(sizes[: place + 1]), None) for place, size in enumerate(sizes)
        ]
        found[name] = any(one.is_better for one in looks), any(one.is_worse for one in looks)
    return found


def false_alarms(each: int, number: int, seed: int) -> list[str]:
    """Which checks raise an alarm in ten looks at 1000 cases without any drift, alike within clusters of so many."""
    rng = np.random.default_rng([seed, each, number])
    of = np.repeat(np.arange(CASES // each), each)
    n, alike = len(of), float(each > 1)
    x = rng.normal(size=(n, 4)) + 0.8 * alike * rng.normal(size=(of[-1] + 1, 4))[of]
    chance = rng.uniform(0.2, 0.8, n)
    actions = (rng.random(n) < chance).astype(int)
    doing = np.stack([1 - chance, chance], axis=1)
    rewards = x[:, 0] + actions + rng.normal(size=n) + alike * rng.normal(size=of[-1] + 1)[of]
    logs = Trajectories(x, actions, rewards, np.arange(n + 1), doing, clusters=of)
    looks = [np.arange(n * look // LOOKS) for look in range(1, LOOKS + 1)]
    found = [drifts(logs.take(seen), doing[seen], None, 1.0, CASES // each) for seen in looks]
    return sorted({check.name for checks in found for check in checks if check.drifted})


def one_log(number: int, seed: int) -> dict[str, Any]:
    """Everything about one number of a log."""
    seen = {f"{kind} {effect:g}": claims(kind, effect, number, seed) for kind in KINDS for effect in EFFECTS}
    alarms = {name: false_alarms(each, number, seed) for name, each in CLUSTERS.items()}
    return {"claims": seen, "alarms": alarms}


def summary(logs: list[dict[str, Any]]) -> dict[str, Any]:
    """Shares of logs."""
    rows = []
    for kind in KINDS:
        for effect in EFFECTS:
            for plan in (*PLANS, "naive"):
                better, worse = np.mean([log["claims"][f"{kind} {effect:g}"][plan] for log in logs], axis=0)
                row = {"kind": kind, "effect": effect, "plan": plan, "better": float(better), "worse": float(worse)}
                rows.append({**row, "logs": len(logs)})
    alarms = {name: float(np.mean([bool(log["alarms"][name]) for log in logs])) for name in CLUSTERS}
    return {"rows": rows, "false_alarms": alarms, "looks": LOOKS, "logs": len(logs), **made_by()}


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with ProcessPoolExecutor(options.jobs) as pool:
        logs = list(pool.map(one_log, range(options.logs), [options.seed] * options.logs, chunksize=4))
    found = summary(logs)
    for row in found["rows"]:
        print(json.dumps(row))
    for name, share in found["false_alarms"].items():
        print(f"drift, {name} cases: a false alarm in {share:.1%} of {options.logs} logs, ten looks each")
    if options.out is not None:
        write_json(options.out, found)


if __name__ == "__main__":
    main()
