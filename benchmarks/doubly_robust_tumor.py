"""How far the estimators are from the truth on tumor logs, as policies move away from the logging policy.

Backward induction on training logs gives Q; the logging policy tilted by it, π ∝ μ·exp(Q/τ), is estimated on other
logs and rolled out. Values are normalised: 0 for uniform random treatment, 100 for the best common schedule.

OMP_NUM_THREADS=1 python benchmarks/doubly_robust_tumor.py
"""

import argparse

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import FloatArray
from poela.core.policy import Memoryless
from poela.evaluation.estimators import ESTIMATORS
from poela.evaluation.evidence import Evidence
from poela.evaluation.rollouts import true_value
from poela.evaluation.value_model import ValueModel
from poela.evaluation.weights import probabilities_along, weights_of
from poela.regression.backward_induction import BackwardInduction, best
from poela.regression.step_values import StepQ
from poela.simulators.episodes import run
from poela.simulators.tumor import TumorBehavior, TumorGrowth, normalised
from poela.stats.weights import effective_sample_size

NAMES = ("sntis", "cwpdis", "dr", "wdr", "magic", "fqe")
MONTH = 2  # the column of the context that holds it


class Tilted(Memoryless):
    """π(a|x) ∝ μ(a|x)·exp(Q(x, a)/τ)."""

    def __init__(self, values: StepQ, temperature: float) -> None:
        self.values, self.temperature = values, temperature

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """[N, A]."""
        rows = np.asarray(contexts, np.float32)
        q = self.values.q_at(rows, np.rint(rows[:, MONTH]).astype(np.int64))
        scores = np.log(TumorBehavior().probabilities(rows)) + q / self.temperature
        tilted = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(tilted / tilted.sum(axis=1, keepdims=True))


def best_values(seed: int, episodes: int) -> StepQ:
    """Q of acting best from each next step on, learned from training logs."""
    logs = run(TumorGrowth(), TumorBehavior(), episodes=episodes, seed=seed)
    ((values, _),) = BackwardInduction(logs).values(best())
    return values


def errors_of(policy: Tilted, seed: int, episodes: int) -> tuple[float, dict[str, float]]:
    """The effective sample size on fresh logs, and each estimate minus the truth."""
    logs = run(TumorGrowth(), TumorBehavior(), episodes=episodes, seed=1000 + seed)
    truth = normalised(true_value(policy, TumorGrowth(), episodes=20_000, seed=seed).value)
    probabilities = probabilities_along(policy, logs)
    weights = weights_of(probabilities, logs)
    (values,) = ValueModel(logs).values(probabilities[None])
    evidence = Evidence(weights, logs, values=values)
    errors = {name: normalised(ESTIMATORS[name].function(evidence).value) - truth for name in NAMES}
    return effective_sample_size(weights.truncated(evidence.truncation)), errors


def main() -> None:
    """Print mean absolute errors by temperature, and over all cases with an effective sample size below 10."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-sets", type=int, default=10)
    parser.add_argument("--episodes", type=int, default=1000)
    settings = parser.parse_args()
    few: list[dict[str, float]] = []
    print(f"{'temperature':>11} {'ESS':>7} " + " ".join(f"{name:>7}" for name in NAMES) + "  mean absolute error")
    q = [best_values(seed, settings.episodes) for seed in range(settings.data_sets)]
    for temperature in (4.0, 2.0, 1.0, 0.5, 0.25):
        found = [errors_of(Tilted(values, temperature), seed, settings.episodes) for seed, values in enumerate(q)]
        few += [errors for size, errors in found if size < 10]
        print(f"{temperature:>11} {np.median([size for size, _ in found]):>7.1f} " + means([e for _, e in found]))
    print(f"{'ESS < 10':>11} {'':>7} {means(few)}  in {len(few)} cases")


def means(errors: list[dict[str, float]]) -> str:
    """Mean absolute errors, in the order of the columns."""
    return " ".join(f"{np.mean([abs(error[name]) for error in errors]):7.2f}" for name in NAMES)


if __name__ == "__main__":
    main()
