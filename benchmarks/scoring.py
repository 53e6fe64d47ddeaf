"""Scoring the checkpoints of a path with a model of values: beside scikit-learn, and how it grows with the log.

Each size runs in a process of its own, so that its peak memory is its own.

OMP_NUM_THREADS=1 python benchmarks/scoring.py [--json FILE]
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from evaluate import logs_of
from numpy.typing import ArrayLike

from poela.core.arrays import FloatArray, IntArray
from poela.core.policy import Memoryless
from poela.evaluation.scoring import Evaluator, Scoring
from poela.evaluation.value_model import ValueModel
from poela.regression.ridge import PENALTIES
from poela.regression.step_values import n_quadratic, quadratic_features

POLICIES, FOLDS = 16, 5
SHAPES = {"8 features, 2 actions": (8, 2), "44 features, 25 actions": (44, 25)}
SIZES = {"8 features, 2 actions": (30_000, 120_000, 480_000), "44 features, 25 actions": (30_000, 120_000)}
ALTERNATIVE = "one scikit-learn Ridge for each fold, step, action and policy"
FLOOR = "the bare matrix products of regressions and values"
ALTERNATIVE_UP_TO = 60_000  # steps times actions: it takes minutes beyond


@dataclass(frozen=True)
class Leaning(Memoryless):
    """A softmax of one feature; costs next to nothing, so that what is measured is the scoring."""

    number: int
    actions: int

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """[N, A]."""
        rows = np.asarray(contexts, np.float64)
        slopes = np.random.default_rng(self.number).normal(size=self.actions)
        scores = np.exp(rows[:, [self.number % rows.shape[1]]] * slopes)
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))


def cpu_seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """How long it kept the processor busy, and what came out."""
    started = time.process_time()
    result = work()
    return time.process_time() - started, result


def measure(case: str, steps: int) -> dict[str, Any]:
    """One size."""
    features, actions = SHAPES[case]
    logs = logs_of(steps, features, actions)
    policies = [Leaning(number, actions) for number in range(POLICIES)]

    def ours() -> tuple[Evaluator, list[FloatArray]]:
        evaluator = Evaluator(logs, Scoring(estimator="guarded", history=0))
        found = []
        for evidence in evaluator.evidence(policies):
            evaluator.value(evidence, "guarded")
            found.append(evidence.model.expected)
        return evaluator, found

    seconds, (evaluator, found) = cpu_seconds(ours)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    other = None
    if steps * actions <= ALTERNATIVE_UP_TO:
        chances = np.stack([policy.probabilities(logs.contexts) for policy in policies])
        other, plain = cpu_seconds(lambda: one_by_one(evaluator._model, chances))
        np.testing.assert_allclose(np.transpose(found), plain, rtol=1e-6, atol=1e-6)
    return {
        "case": case,
        "size": steps,
        "ours": seconds,
        "alternative": other,
        "alternative_name": ALTERNATIVE,
        "floor": floor(steps, n_quadratic(features), actions),
        "floor_name": FLOOR,
        "peak_mb": peak,
    }


def one_by_one(model: ValueModel, chances: FloatArray) -> FloatArray:
    """The expected values [N, P] of policies with these chances [P, N, A], with the penalties that the model took."""
    from sklearn.linear_model import Ridge

    logs, found = model._logs, np.empty((model._logs.n_steps, len(chances)))

    def regression(x: FloatArray, y: FloatArray, penalty: int) -> FloatArray:
        return np.asarray(Ridge(alpha=PENALTIES[penalty], fit_intercept=False, solver="cholesky").fit(x, y).coef_)

    for fold, column in np.ndindex(len(model._folds), len(chances)):
        induction, valued = model._folds[fold].induction, model._folds[fold].valued
        following = np.zeros(logs.n_steps)
        for step in reversed(range(induction.horizon)):
            rows, chosen = induction.pool(step), induction._chosen[step]
            going_on = ~induction._last[rows]
            targets = logs.rewards[rows] + np.where(going_on, following[np.minimum(rows + 1, logs.n_steps - 1)], 0.0)
            contexts = logs.contexts[rows]
            center, scale = contexts.mean(axis=0, dtype=np.float64), contexts.std(axis=0, dtype=np.float64)
            x = quadratic_features(contexts, center, scale)
            shared = regression(x, targets - targets.mean(), int(chosen[-1][0]))
            left = targets - targets.mean() - x @ shared
            coefficients = np.tile(shared, (logs.n_actions, 1))
            for action in np.unique(logs.actions[rows]):
                own: IntArray = np.flatnonzero(logs.actions[rows] == action)
                width = x.shape[1] if len(own) >= 1.5 * (x.shape[1] - 1) else 1 + logs.n_features
                coefficients[action, :width] += regression(x[own, :width], left[own], int(chosen[int(action)][0]))
            coefficients[:, 0] += targets.mean()
            bounds = induction._bounds(rows)
            assert bounds is not None
            for asked, values in ((rows, following), (valued.get(step, rows[:0]), found[:, column])):
                q = np.clip(quadratic_features(logs.contexts[asked], center, scale) @ coefficients.T, *bounds)
                values[asked] = (chances[column, asked] * q).sum(axis=1)
    return found


def floor(steps: int, width: int, actions: int) -> float:
    """Seconds of the products: Gram matrices, then features with targets and coefficients, of all folds."""
    rng, together = np.random.default_rng(0), 2048
    features, targets = rng.normal(size=(together, width)), rng.normal(size=(together, POLICIES))
    coefficients = rng.normal(size=(actions, width, POLICIES))
    fitted = steps * (FOLDS - 1) // together

    def products() -> None:
        for _ in range(fitted):
            features.T @ features
            features.T @ targets
            features @ coefficients
        for _ in range(steps // together):
            features @ coefficients

    return cpu_seconds(products)[0]


def exponent(rows: Sequence[dict[str, Any]]) -> float:
    """How the seconds grow with the size."""
    return float(np.polyfit(np.log([row["size"] for row in rows]), np.log([row["ours"] for row in rows]), 1)[0])


def main() -> None:
    """Print one line for each size, then growth and memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="a file for the numbers")
    parser.add_argument("--only", nargs=2, metavar=("CASE", "STEPS"), help="one size, printed as JSON")
    settings = parser.parse_args()
    if settings.only:
        print(json.dumps(measure(settings.only[0], int(settings.only[1]))))
        return
    rows: list[dict[str, Any]] = []
    for case, sizes in SIZES.items():
        for steps in sizes:
            command = [sys.executable, __file__, "--only", case, str(steps)]
            row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            other = (
                ""
                if row["alternative"] is None
                else f", {row['alternative'] / row['ours']:.0f} × as long {ALTERNATIVE}"
            )
            times = f"{row['ours']:.2f} s, floor {row['floor']:.2f} s"
            print(
                f"{case}, {steps:>7} steps, {POLICIES} policies: {times}, peak {row['peak_mb']:.0f} MB{other}",
                flush=True,
            )
            rows.append(row)
    grown = [row for row in rows if row["case"] == next(iter(SIZES))]
    more = (grown[-1]["peak_mb"] - grown[0]["peak_mb"]) / (grown[-1]["size"] - grown[0]["size"]) * 1e6
    print(f"time grows as the number of steps to the power of {exponent(grown):.2f}; {more:.0f} MB per million steps")
    if settings.json:
        settings.json.write_text(json.dumps({"benchmark": "scoring", "rows": rows, "exponent": exponent(grown)}))


if __name__ == "__main__":
    main()
