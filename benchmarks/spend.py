"""How often the curve of gain against spend is right: the process "map" of the package maq, with known truth.

Sverdrup, Wu, Athey and Wager (JCGS 2025) simulate it so: ten uniform features, three arms at random, regions in two of
the features that say which arm is best, noise with variance 4, and costs of the two arms that differ from case to case
(x1 and 2·x2). A study walks by value for money at ten spends; the truth of each policy is its mean over fresh cases.

    python benchmarks/spend.py --episodes 1000 --minutes 4 --out docs/results/limits/spend-1000.csv
    python benchmarks/spend.py --table docs/results/limits > docs/results/limits/spend.md

Rows are added to what is there.
"""

import argparse
import csv
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta

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


HEADER = """# Spend: how often the curve is right

The process "map" of the package maq (`python benchmarks/spend.py --help`), one study for each log, ten policies of the
hull walk in each, by ridge values. *Above the truth*: logs in which any of the ten gains that are shown (95%, all
together) is above the true one. *Spend above its bound*: logs in which any true spend is. *Alone*: policies whose own
95% bound is above the truth, of all, and in how many logs: a bound of independent folds, for one policy, without what
folds share, of which nothing is claimed. The ten policies of a log are nearly one, and miss together. Logs are few:
what they can exclude is in the intervals (95%, Clopper–Pearson).

| cases | logs | above the truth | spend above its bound | alone | shown, mean (true) at the 5th spend | at the last |
|---|---|---|---|---|---|---|"""


def table(folder: Path) -> str:
    """What the rows in a folder come to."""
    lines = [HEADER]
    for path in sorted(folder.glob("spend-*.csv"), key=lambda one: int(one.stem.split("-")[1])):
        with path.open(newline="") as file:
            rows = [{k: None if v == "" else float(v) for k, v in row.items()} for row in csv.DictReader(file)]
        seeds = {row["seed"] for row in rows}
        too_high = {row["seed"] for row in rows if _above(row["shown"], row["true_gain"])}
        too_dear = {row["seed"] for row in rows if _above(row["true_spend"], row["spend_at_most"])}
        alone = [row["seed"] for row in rows if _above(row["gain_low"], row["true_gain"])]
        cells = [f"{len(too_high)} {_interval(len(too_high), len(seeds))}"]
        cells += [
            f"{len(too_dear)} {_interval(len(too_dear), len(seeds))}",
            f"{len(alone)} of {len(rows)}, in {len(set(alone))} logs",
        ]
        for place in (4, 9):
            own = [row for row in rows if row["number"] == place]
            shown = float(np.mean([row["shown"] if row["shown"] is not None else np.nan for row in own]))
            cells.append(f"{shown:+.2f} ({np.mean([row['true_gain'] or 0.0 for row in own]):+.2f})")
        lines.append(f"| {path.stem.split('-')[1]} | {len(seeds)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _above(value: float | None, limit: float | None) -> bool:
    return value is not None and limit is not None and value > limit


def _interval(count: int, n: int) -> str:
    low = beta.ppf(0.025, count, n - count + 1) if count else 0.0
    high = beta.ppf(0.975, count + 1, n - count) if count < n else 1.0
    return f"[{low:.0%}, {high:.0%}]"


def main() -> None:
    """Add rows for as many minutes, or tell what they come to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, help="the folder of rows")
    asked = parser.parse_args()
    if asked.table is not None:
        print(table(asked.table))
        return
    if asked.out is None:
        parser.error("say --out, or --table")
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
