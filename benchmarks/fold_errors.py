"""Ways to an honest error of policies that the same log teaches and judges, compared on one-step logs.

    python benchmarks/fold_errors.py --actions 2 5 --effects 0 0.25 0.5 --logs 1000

Ridge values on three features, a path of ten temperatures, the paired self-normalised gain, one-sided 95% by max-t over
the path. Five folds: taken as independent; with leave-two-out covariances (`lto`), their positive products alone
(`lto+`, which studies use), the largest of the path at every point of it; with twice the variance. In place of folds,
sequential blocks: learn on the first 40%, judge the next tenth, learn on 50%, and so on. Printed are the share of logs
with a bound above zero (which is false where there is no effect) and the mean of what is shown.
"""

import argparse
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from poela.studies.critical_values import critical_value

FEATURES, FOLDS, LEAST_ESS, FIRST_SEED = 3, 5, 50.0, 21_000
TEMPERATURES = np.geomspace(8.0, 0.25, 10)
WAYS = ("independent", "lto", "lto+", "lto+ of the path", "doubled", "sequential")


class Log:
    """One step, uniform practice; an action is worth `effect` times a feature of its own."""

    def __init__(self, rows: int, actions: int, effect: float, seed: int) -> None:
        rng = np.random.default_rng((FIRST_SEED, seed))
        merit = np.random.default_rng(2).normal(size=(FEATURES, actions)) / np.sqrt(FEATURES)
        x = rng.normal(size=(rows, FEATURES))
        self.x, self.a, self.actions = np.c_[np.ones(rows), x], rng.integers(actions, size=rows), actions
        self.r = rng.normal(size=rows) + effect * (x * merit[:, self.a].T).sum(axis=1)

    def weights(self, teach: Any, judge: Any) -> Any:
        """The weights [temperatures, judged] of the path that some rows teach."""
        x, a, r = self.x[teach], self.a[teach], self.r[teach]
        values = [self._ridge(x[a == action], r[a == action]) for action in range(self.actions)]
        seen, scores = (rows @ np.array(values).T for rows in (x, self.x[judge]))
        spread = (seen - seen.mean(axis=1, keepdims=True)).std()
        tilts = np.exp(np.clip(scores / spread / TEMPERATURES[:, None, None], -30, 30))
        taken = tilts[:, np.arange(len(scores)), self.a[judge]]
        return self.actions * taken / tilts.sum(axis=2)

    @staticmethod
    def _ridge(x: Any, r: Any) -> Any:
        return np.linalg.solve(x.T @ x + np.eye(x.shape[1]), x.T @ r)


def judged(weights: Any, returns: Any, seed: int) -> tuple[Any, Any, Any, Any]:
    """Of points [k, n]: the gain, how far a single bound is below it, scores of the value, the paired error."""
    totals = weights.sum(axis=1, keepdims=True)
    values = weights @ returns / totals[:, 0]
    scores = (returns - values[:, None]) / totals
    influence = len(returns) * weights * scores - (returns - returns.mean())
    error = np.sqrt(np.square(influence).sum(axis=1)) / len(returns)
    able = totals[:, 0] ** 2 / np.square(weights).sum(axis=1) > LEAST_ESS
    quantile = critical_value(influence[able], 0.95, seed) if able.any() else np.inf
    gain = np.where(able, values - returns.mean(), -np.inf)
    return gain, quantile * error, scores, error


def bounds(log: Log, seed: int) -> dict[str, float]:
    """The best bound of the path by each way."""
    rows = np.arange(len(log.r))
    parts = [rows[rows % FOLDS == fold] for fold in range(FOLDS)]
    weights = np.zeros((len(TEMPERATURES), len(rows)))
    for part in parts:
        weights[:, part] = log.weights(np.setdiff1d(rows, part), part)
    gain, reach, scores, error = judged(weights, log.r, seed)
    products = []
    for first, second in combinations(parts, 2):
        teach = np.setdiff1d(rows, np.r_[first, second])
        changes = [
            ((weights[:, own] - log.weights(teach, own)) * scores[:, own]).sum(axis=1) for own in (first, second)
        ]
        products.append(changes[0] * changes[1])
    shared = {
        "independent": 0 * error,
        "lto": 2 * np.sum(products, axis=0),
        "lto+": 2 * np.maximum(products, 0).sum(axis=0),
        "doubled": np.square(error),
    }
    ratios = {way: np.maximum(own / np.square(error), -0.95) for way, own in shared.items()}
    ratios["lto+ of the path"] = np.full(len(gain), ratios["lto+"][gain > -np.inf].max(initial=0.0))
    found = {way: float((gain - reach * np.sqrt(1 + own)).max()) for way, own in ratios.items()}
    return found | {"sequential": sequential(log, seed)}


def sequential(log: Log, seed: int, first: float = 0.4, blocks: int = 6) -> float:
    """Each block is judged by what all rows before it taught: errors of blocks are uncorrelated."""
    cuts = np.linspace(first, 1.0, blocks + 1) * len(log.r)
    starts = np.round(cuts).astype(int)
    weights = [log.weights(np.arange(start), np.arange(start, end)) for start, end in pairwise(starts.tolist())]
    gain, reach, *_ = judged(np.concatenate(weights, axis=1), log.r[starts[0] :], seed)
    return float((gain - reach).max())


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--actions", type=int, nargs="+", default=[2, 5])
    parser.add_argument("--effects", type=float, nargs="+", default=[0.0, 0.25, 0.5])
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--logs", type=int, default=1000)
    asked = parser.parse_args()
    print("| actions | effect | " + " | ".join(WAYS) + " |\n|" + "---|" * (2 + len(WAYS)))
    for actions in asked.actions:
        for effect in asked.effects:
            found = [bounds(Log(asked.rows, actions, effect, seed), seed) for seed in range(asked.logs)]
            shown = {way: np.array([max(own[way], 0.0) for own in found]) for way in WAYS}
            cells = [f"{100 * (own > 0).mean():.1f}%, {own.mean():.4f}" for own in shown.values()]
            print("| " + " | ".join([str(actions), f"{effect:g}", *cells]) + " |", flush=True)


if __name__ == "__main__":
    main()
