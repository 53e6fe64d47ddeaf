"""BCa over episodes beside scipy.stats.bootstrap and beside Python loops over resamples, in one run.

    OMP_NUM_THREADS=1 python benchmarks/bootstrap.py [--large]

`--large` adds n = 100,000, where SciPy takes many minutes: it is timed on a part of its work and scaled up.
"""

import argparse
import importlib
import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from poela.core.arrays import FloatArray
from poela.core.policy import Memoryless
from poela.data.trajectories import Trajectories
from poela.evaluation.bootstrap import bca
from poela.evaluation.bounds import Sample
from poela.evaluation.contributions import Contributions
from poela.evaluation.estimators import sntis
from poela.evaluation.evaluate import evaluate
from poela.evaluation.evidence import Evidence
from poela.evaluation.recombination import Recombined
from poela.evaluation.recombined import recombined
from poela.evaluation.weights import log_weights

RESAMPLES = 10_000
STEPS = 8


class Even(Memoryless):
    """Costs next to nothing, so that what is measured is the evaluation."""

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """[N, 2]."""
        return np.full((len(np.asarray(contexts)), 2), 0.5)


def evidence(n: int) -> Evidence:
    """A log of n episodes of eight steps, with weights that are far from even."""
    rng = np.random.default_rng(0)
    steps = n * STEPS
    propensities = rng.uniform(0.3, 0.7, steps)
    offsets = np.arange(0, steps + 1, STEPS)
    logs = Trajectories(rng.random((steps, 3)), rng.integers(2, size=steps), rng.random(steps), offsets, propensities)
    return Evidence(log_weights(Even(), logs), logs)


def seconds(run: Callable[[], object], repeats: int = 3) -> float:
    """Processor time, which busy neighbours disturb less than the clock; the best of a few runs."""
    times = []
    for _ in range(repeats):
        started = time.process_time()
        run()
        times.append(time.process_time() - started)
    return min(times)


def ratio(weights: FloatArray, weighted: FloatArray, axis: int = -1) -> FloatArray:
    """The statistic, as SciPy's users would write it for speed."""
    return np.asarray(weighted.sum(axis) / weights.sum(axis))


def scipy_bca(weights: FloatArray, weighted: FloatArray, batch: int) -> object:
    """SciPy on the same statistic."""
    return stats.bootstrap((weights, weighted), ratio, paired=True, vectorized=True, n_resamples=RESAMPLES, batch=batch)


def array_loop(weights: FloatArray, weighted: FloatArray, resamples: int) -> list[float]:
    """A loop over resamples with arrays inside it."""
    rng = np.random.default_rng(0)
    values = []
    for _ in range(resamples):
        drawn = rng.integers(len(weights), size=len(weights))
        values.append(weighted[drawn].sum() / weights[drawn].sum())
    return values


def evaluating_loop(logs: Trajectories, resamples: int) -> list[float]:
    """A loop that resamples the log and evaluates it anew, as the paper describes its bootstrap."""
    rng = np.random.default_rng(0)
    drawn = (rng.integers(logs.n_episodes, size=logs.n_episodes) for _ in range(resamples))
    return [evaluate(Even(), logs.take(episodes), interval=None).value for episodes in drawn]


def plain_loop(weights: list[float], returns: list[float], resamples: int) -> list[float]:
    """A loop over resamples and episodes in plain Python."""
    rng = np.random.default_rng(0)
    values = []
    for _ in range(resamples):
        above = below = 0.0
        for episode in rng.integers(len(weights), size=len(weights)).tolist():
            above += weights[episode] * returns[episode]
            below += weights[episode]
        values.append(above / below)
    return values


def scipy_in_parts(weights: FloatArray, weighted: FloatArray) -> float:
    """SciPy's time where waiting for it is too long: a few batches of its jackknife and of its resamples, scaled up."""
    n, batch = len(weights), 20
    left_out = importlib.import_module("scipy.stats._resampling")._jackknife_resample
    batches = itertools.islice(left_out(np.arange(n), batch, xp=np), 10)
    jackknife = seconds(lambda: [ratio(weights[rows], weighted[rows]) for rows in batches], 1) * n / (10 * batch)
    options: Any = {"paired": True, "vectorized": True, "method": "percentile", "n_resamples": 200, "batch": batch}
    return jackknife + seconds(lambda: stats.bootstrap((weights, weighted), ratio, **options), 1) * RESAMPLES / 200


def pool_of(log: Evidence) -> Contributions:
    """What recombined episodes contribute."""
    return Recombined(log.logs, seed=0).pool(log).contributions(sntis, log.truncation)


def report(n: int) -> None:
    """One size."""
    log = evidence(n)
    contributions = sntis(log)
    weights, weighted = contributions.denominators[:, 0].copy(), contributions.numerators[:, 0].copy()
    sample = Sample(contributions, resamples=RESAMPLES)
    ours = seconds(lambda: bca(sample, [0.95]), 3 if n < 10_000 else 1)
    print(f"n = {n}, {RESAMPLES} resamples")
    print(f"  bca                          {ours:8.3f} s")
    pool_time = seconds(lambda: pool_of(log), 1)
    pooled = Sample(contributions, resamples=RESAMPLES, returns=log.returns, pool=pool_of(log))
    print(f"  recombined (the default)     {pool_time + seconds(lambda: recombined(pooled, [0.95]), 1):8.3f} s")
    if n < 10_000:
        rest = {
            "scipy.stats.bootstrap, batch 100": seconds(lambda: scipy_bca(weights, weighted, 100), 2),
            "loop, arrays inside": seconds(lambda: array_loop(weights, weighted, 1000), 1) * RESAMPLES / 1000,
            "loop, the resampled log evaluated": seconds(lambda: evaluating_loop(log.logs, 50), 1) * RESAMPLES / 50,
            "loop, plain Python": seconds(lambda: plain_loop(weights.tolist(), log.returns.tolist(), 20), 1)
            * RESAMPLES
            / 20,
        }
    else:
        rest = {"scipy.stats.bootstrap, scaled up": scipy_in_parts(weights, weighted)}
    for name, took in rest.items():
        print(f"  {name:38s} {took:8.3f} s  = {took / ours:6.1f} × bca")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true")
    report(2995)
    if parser.parse_args().large:
        report(100_000)


if __name__ == "__main__":
    main()
