"""How often the curve of gain against spend is right: the process "map" of the package maq, with known truth.

Sverdrup, Wu, Athey and Wager (JCGS 2025) simulate it so: ten uniform features, three arms at random, regions in two of
the features that say which arm is best, noise with variance 4, and costs of the two arms that differ from case to case
(x1 and 2·x2). A study walks by value for money at ten spends; the truth of each policy is its mean over fresh cases.

    python benchmarks/spend.py --logs 100 --jobs 16 --minutes 25
    python benchmarks/spend.py --table docs/results/limits/spend

The ten policies of a log are nearly one, and miss together, so logs are counted. A run goes on where there are rows.
"""

import argparse
import warnings
from typing import Any

import numpy as np
from scipy.stats import beta
from stored_rows import Row, add_flags, carry_out, rows_in, seeds

import poela
from poela.core.arrays import FloatArray
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


def row_of(kind: str, n: int, seed: int) -> Row:
    """What a study of n cases says of each of its policies, beside what is true."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng((seed, n))
    logs = logged(n, rng)
    settings: Any = {"candidates": [WALK], "backend": "inline", "no_audit": True}
    study = poela.learn(logs, cost="cost", seed=seed, **settings)
    assert study.result is not None
    number = spend_number(study.result.guards)
    x = rng.random((FRESH, 10))
    means, costs = means_and_costs(x)
    now, found = float(means.mean()), list[Row]()
    for point in study.points:
        acts = [study.fold_policy(point, fold).probabilities(x) for fold in range(study.n_folds)]
        chances = np.mean(acts, axis=0)
        metrics = point.metrics
        found.append(
            {
                "number": point.number,
                "true_spend": float((chances * costs).sum(axis=1).mean()),
                "true_gain": float((chances * means).sum(axis=1).mean()) - now,
                "spend": metrics.get(f"guard_{number}"),
                "spend_at_most": metrics.get(f"guard_{number}_bound"),
                **{name: metrics.get(name) for name in ("gain", "gain_low", "shown")},
            }
        )
    return {"policies": found}


COLUMNS = (
    "cases",
    "logs",
    "above the truth",
    "spend above its bound",
    "alone",
    "shown at the 5th spend",
    "at the last",
)
HEADER = f"""| {" | ".join(COLUMNS)} |
|---|---|---|---|---|---|---|"""


def table(rows: list[Row]) -> str:
    """What rows come to: in how many logs any of the policies misses."""
    lines = [HEADER]
    for n in sorted({row["task"][1] for row in rows}):
        logs = [row["policies"] for row in rows if row["task"][1] == n]
        every = [policy for log in logs for policy in log]
        too_high = sum(any(_above(one["shown"], one["true_gain"]) for one in log) for log in logs)
        too_dear = sum(any(_above(one["true_spend"], one["spend_at_most"]) for one in log) for log in logs)
        alone = [_above(one["gain_low"], one["true_gain"]) for one in every]
        cells = [f"{count} {_interval(count, len(logs))}" for count in (too_high, too_dear)]
        cells.append(f"{sum(alone)} of {len(every)}")
        for place in (4, 9):
            own = [one for one in every if one["number"] == place]
            shown = [one["shown"] for one in own if one["shown"] is not None]
            true = np.mean([one["true_gain"] for one in own])
            cells.append(f"{np.mean(shown):+.2f} ({true:+.2f})" if shown else f"- ({true:+.2f})")
        lines.append(f"| {n} | {len(logs)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _above(value: float | None, limit: float | None) -> bool:
    return value is not None and limit is not None and value > limit


def _interval(count: int, n: int) -> str:
    """Clopper and Pearson's."""
    low = beta.ppf(0.025, count, n - count + 1) if count else 0.0
    high = beta.ppf(0.975, count + 1, n - count) if count < n else 1.0
    return f"[{low:.0%}, {high:.0%}]"


def main() -> None:
    """Add rows for as many minutes, or tell what they come to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, nargs="+", default=[1000, 5000])
    add_flags(parser, "docs/results/limits/spend")
    asked = parser.parse_args()
    if asked.table is None:
        tasks = [
            (f"spend-{n}", n, seed) for seed in seeds(asked.first or 0, asked.logs, asked.shard) for n in asked.episodes
        ]
        for _ in carry_out(tasks, row_of, asked.out, asked.shard, asked.jobs, asked.minutes):
            pass
    print(table(rows_in(asked.table or asked.out)))


if __name__ == "__main__":
    main()
