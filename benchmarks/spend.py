"""How often the curve of gain against spend is right: the process "map" of the package maq, with known truth.

Sverdrup, Wu, Athey and Wager (JCGS 2025) simulate it so: ten uniform features, three arms at random, regions in two of
the features that say which arm is best, noise with variance 4, and costs of the two arms that differ from case to case
(x1 and 2·x2). A study walks by value for money at ten spends; the truth of each policy is its mean over fresh cases.

Run `python benchmarks/spend.py --episodes 1000 --minutes 4 --out rows.csv`; rows are added to what is there.
"""

import argparse
import csv
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import poela
from poela.core.arrays import FloatArray
from poela.core.errors import PoelaWarning
from poela.data.trajectories import Trajectories
from poela.studies.allotment import spend_number
from poela.studies.candidates import Candidate

FRESH = 20_000
WALK = Candidate("hullwalk", {"cost": "cost", "history": 0})


def means_and_costs(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The mean reward and the cost of each arm [n, 3]."""
    low = (x[:, 4] < 0.6) & (x[:, 6] > 0.35)
    near = (x[:, 4] / 0.6) ** 2 + (x[:, 6] / 0.35) ** 2 < 1
    far = ((x[:, 4] - 1) / 0.4) ** 2 + ((x[:, 6] - 1) / 0.35) ** 2 < 1
    high = near | far
    arms = np.arange(3.0)
    means = np.where(low[:, None], 3 - arms, np.where(high[:, None], 1.5 * (arms - 1), 2 - np.abs(arms - 1) / 2))
    return means, np.column_stack([np.zeros(len(x)), x[:, 0], 2 * x[:, 1]])


def logged(n: int, rng: np.random.Generator) -> Trajectories:
    """A trial of so many cases."""
    x, arms = rng.random((n, 10)), rng.integers(0, 3, n)
    means, costs = means_and_costs(x)
    rewards = means[np.arange(n), arms] + 2 * rng.normal(size=n)
    paid = costs[np.arange(n), arms]
    given: Any = {"outcomes": paid[:, None], "outcome_names": ["cost"]}
    return Trajectories(x, arms, rewards, np.arange(n + 1), np.full((n, 3), 1 / 3), n_actions=3, **given)


def rows_of(n: int, seed: int) -> list[dict[str, Any]]:
    """What a study of n cases says of each of its policies, beside what is true."""
    rng = np.random.default_rng((seed, n))
    logs = logged(n, rng)
    settings: Any = {"candidates": [WALK], "backend": "inline", "no_audit": True}
    study = poela.learn(logs, cost="cost", seed=seed, **settings)
    assert study.result is not None
    number = spend_number(study.result.guards)
    x = rng.random((FRESH, 10))
    means, costs = means_and_costs(x)
    now, found = float(means.mean()), []
    for point in study.points:
        acts = [study.fold_policy(point, fold).probabilities(x) for fold in range(study.n_folds)]
        chances = np.mean(acts, axis=0)
        metrics = point.metrics
        found.append(
            {
                "episodes": n,
                "seed": seed,
                "number": point.number,
                "true_spend": float((chances * costs).sum(axis=1).mean()),
                "true_gain": float((chances * means).sum(axis=1).mean()) - now,
                "spend": metrics.get(f"guard_{number}"),
                "spend_at_most": metrics.get(f"guard_{number}_bound"),
                **{name: metrics.get(name) for name in ("gain", "gain_low", "shown")},
            }
        )
    return found


def main() -> None:
    """Add rows for as many minutes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    ends, seed = time.monotonic() + 60 * asked.minutes, asked.first
    warnings.simplefilter("ignore", PoelaWarning)
    while time.monotonic() < ends:
        rows = rows_of(asked.episodes, seed)
        fresh = not asked.out.exists()
        with asked.out.open("a", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            if fresh:
                writer.writeheader()
            writer.writerows(rows)
        seed += 1


if __name__ == "__main__":
    main()
