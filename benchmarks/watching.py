"""How often `poela watch` claims something on null logs in ten looks, and how often it sees an effect.

    python benchmarks/watching.py --out docs/results/rounds/watching.json

Outcomes have standard deviation 1. *before*: 500 cases before, 500 after, ten looks at 50, 100, …, 500 of these.
*practice*: 1000 cases of a policy that treats half of them, against a practice that treated none, ten looks at 100,
200, …, 1000; the effect is that of treating, so that the policy gains half of it.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from poela.core.files import write_json
from poela.data.trajectories import Trajectories
from poela.rounds.compared import Units, compared
from poela.rounds.drift import drifts
from poela.rounds.looks import WatchPlan

LOOKS = 10
PLANS = {
    "sequence": WatchPlan(),
    "obrien-fleming": WatchPlan(method="obrien-fleming", looks=LOOKS),
    "pocock": WatchPlan(method="pocock", looks=LOOKS),
}


def before_after(effect: float, rng: np.random.Generator) -> tuple[Units, tuple[float, float] | None]:
    """500 cases before, and 500 after."""
    old, new = rng.normal(size=500), effect + rng.normal(size=500)
    return Units(new, np.arange(500)), (float(old.mean()), float(old.std(ddof=1) / np.sqrt(500)))


def practice(effect: float, rng: np.random.Generator) -> tuple[Units, tuple[float, float] | None]:
    """1000 cases of a policy that treats every second one, against a practice that treats none."""
    treated = rng.random(1000) < 0.5
    returns = effect * treated + rng.normal(size=1000)
    return Units(returns, np.arange(1000), np.where(treated, 0.0, 2.0)), None


KINDS = {"before": before_after, "practice": practice}


def naive(cases: Units, old: tuple[float, float] | None, sizes: list[int]) -> tuple[bool, bool]:
    """Whether a plain 95% interval at each look says better, or worse."""
    found = [compared(cases.first(size), old, WatchPlan(), (size,), None) for size in sizes]
    return any(one.value > 1.96 * one.error for one in found), any(one.value < -1.96 * one.error for one in found)


def claims(kind: str, effect: float, logs: int, seed: int) -> dict[str, tuple[float, float]]:
    """The share of logs in which ten looks claim better, and worse, by plan."""
    counts = {name: np.zeros(2) for name in (*PLANS, "naive")}
    for number in range(logs):
        cases, old = KINDS[kind](effect, np.random.default_rng([seed, number]))
        sizes = [cases.n * look // LOOKS for look in range(1, LOOKS + 1)]
        counts["naive"] += naive(cases, old, sizes)
        for name, plan in PLANS.items():
            looks = [
                compared(cases.first(size), old, plan, tuple(sizes[: place + 1]), None)
                for place, size in enumerate(sizes)
            ]
            counts[name] += any(one.is_better for one in looks), any(one.is_worse for one in looks)
    return {name: (float(found[0] / logs), float(found[1] / logs)) for name, found in counts.items()}


def false_alarms(logs: int, seed: int) -> float:
    """The share of logs without any drift in which ten looks at 1000 cases raise an alarm."""
    alarms = 0
    for number in range(logs):
        rng = np.random.default_rng([seed, 1, number])
        x, chance = rng.normal(size=(1000, 4)), rng.uniform(0.2, 0.8, 1000)
        actions = (rng.random(1000) < chance).astype(int)
        doing = np.stack([1 - chance, chance], axis=1)
        rewards = x[:, 0] + actions + rng.normal(size=1000)
        said = Trajectories(x, actions, rewards, np.arange(1001), doing)
        alarms += any(
            check.drifted
            for size in range(100, 1001, 100)
            for check in drifts(said.take(np.arange(size)), doing[:size], None, 1.0, 1000)
        )
    return alarms / logs


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = [
        {"kind": kind, "effect": effect, "plan": plan, "better": better, "worse": worse, "logs": options.logs}
        for kind in KINDS
        for effect in (0.0, 0.2, 0.3)
        for plan, (better, worse) in claims(kind, effect, options.logs, options.seed).items()
    ]
    alarms = false_alarms(options.logs, options.seed)
    for row in rows:
        print(json.dumps(row))
    print(f"drift: a false alarm in {alarms:.1%} of {options.logs} logs, ten looks each")
    if options.out is not None:
        write_json(options.out, {"rows": rows, "false_alarms": alarms, "looks": LOOKS})


if __name__ == "__main__":
    main()
