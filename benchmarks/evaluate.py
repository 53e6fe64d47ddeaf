"""Evaluating a network policy beside its own forward pass, and the growth of the cost with the number of steps.

OMP_NUM_THREADS=1 python benchmarks/evaluate.py
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from numpy.typing import ArrayLike

from poela.core.arrays import FloatArray
from poela.core.policy import Memoryless
from poela.data.trajectories import Trajectories
from poela.evaluation.evaluate import evaluate

FEATURES, ACTIONS, LONGEST = 44, 25, 20


class Network(Memoryless):
    """A softmax network of the paper's size for sepsis: two hidden layers of 256 units."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        layers = [torch.nn.Linear(FEATURES, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU()]
        self.network = torch.nn.Sequential(*layers, torch.nn.Linear(256, ACTIONS), torch.nn.Softmax(dim=1))

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """[N, A]."""
        with torch.inference_mode():
            rows = torch.split(torch.from_numpy(np.array(contexts)), 8192)
            return np.asarray(torch.cat([self.network(part) for part in rows]).double().numpy())


class Even(Memoryless):
    """Costs next to nothing, so that what is measured is the evaluation."""

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """[N, A]."""
        return np.broadcast_to([0.4, 0.6], (len(np.asarray(contexts)), 2))


def logs_of(steps: int, features: int, actions: int) -> Trajectories:
    """Ragged episodes of 1 to 20 steps."""
    rng = np.random.default_rng(0)
    ends = np.cumsum(rng.integers(1, LONGEST + 1, size=steps // 5))
    offsets = np.unique(np.r_[0, ends[ends < steps], steps])
    propensities = np.full((steps, actions), 1 / actions)
    contexts = rng.normal(size=(steps, features)).astype(np.float32)
    return Trajectories(contexts, rng.integers(actions, size=steps), rng.normal(size=steps), offsets, propensities)


def best_of(repeats: int, *jobs: Callable[[], object]) -> list[float]:
    """The shortest run of each job, in seconds; the jobs take turns, so that none has the quieter machine."""
    seconds = np.empty((repeats, len(jobs)))
    for turn, number in np.ndindex(seconds.shape):
        started = time.perf_counter()
        jobs[number]()
        seconds[turn, number] = time.perf_counter() - started
    return [float(best) for best in seconds.min(axis=0)]


def main() -> None:
    """Print the ratio to the forward pass, then seconds per million steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=117_000)
    parser.add_argument("--most", type=int, default=10_000_000, help="steps of the largest log")
    parser.add_argument("--turns", type=int, default=10, help="runs of each, of which the shortest counts")
    settings = parser.parse_args()
    policy, logs = Network(), logs_of(settings.steps, FEATURES, ACTIONS)
    forward, *others = best_of(
        settings.turns,
        partial(policy.probabilities, logs.contexts),
        partial(evaluate, policy, logs, interval=None),
        partial(evaluate, policy, logs, estimator="cwpdis", interval=None),
        partial(evaluate, policy, logs),
    )
    print(f"{logs.n_steps} steps, {logs.n_episodes} episodes, {FEATURES} features, {ACTIONS} actions")
    print(f"forward pass {forward:.3f} s")
    for name, seconds in zip(("sntis, no interval", "cwpdis, no interval", "all defaults"), others, strict=True):
        print(f"evaluate, {name}: {seconds:.3f} s, {seconds / forward:.2f} forward passes")

    first = None
    for steps in (settings.most // 10, settings.most // 3, settings.most):
        logs = logs_of(steps, features=1, actions=2)
        per_million = best_of(3, partial(evaluate, Even(), logs, interval=None))[0] / steps * 1e6
        first = first or per_million
        print(f"{steps:>10} steps: {per_million:.3f} s per million, {per_million / first:.2f} of the smallest log's")


if __name__ == "__main__":
    main()
