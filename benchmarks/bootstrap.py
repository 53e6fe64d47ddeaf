"""BCa over episodes with 10,000 resamples, beside scipy.stats.bootstrap and beside drawing the resamples alone.

python benchmarks/bench.py bootstrap
"""

import numpy as np
from measuring import Speed, Work
from numpy.typing import ArrayLike
from scipy import stats

from poela.core.arrays import FloatArray
from poela.core.policy import Memoryless
from poela.data.trajectories import Trajectories
from poela.evaluation.estimators import sntis
from poela.evaluation.evidence import Evidence
from poela.evaluation.weights import log_weights
from poela.stats.bootstrap import bca
from poela.stats.bounds import Sample

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


def by_poela(n: int) -> Work:
    """The interval of the estimate."""
    sample = Sample(sntis(evidence(n)), resamples=RESAMPLES)
    return lambda: bca(sample, [0.95])


def ratio(weights: FloatArray, weighted: FloatArray, axis: int = -1) -> FloatArray:
    """The statistic, as SciPy's users would write it for speed."""
    return np.asarray(weighted.sum(axis) / weights.sum(axis))


def by_scipy(n: int) -> Work:
    """SciPy on the same statistic."""
    parts = sntis(evidence(n))
    sample = parts.denominators[:, 0].copy(), parts.numerators[:, 0].copy()
    options = {"paired": True, "vectorized": True, "n_resamples": RESAMPLES, "batch": 100}
    return lambda: stats.bootstrap(sample, ratio, **options)


def bare_draws(n: int) -> Work:
    """The episodes of all resamples, drawn and not used."""
    rng = np.random.default_rng(0)

    def work() -> None:
        for _ in range(RESAMPLES):
            rng.integers(n, size=n, dtype=np.uint32)

    return work


SPEED = Speed(
    case=f"Episodes, {RESAMPLES:,} resamples",
    ours=by_poela,
    alternative=by_scipy,
    alternative_name="scipy.stats.bootstrap, vectorised",
    floor=bare_draws,
    floor_name="drawing the episodes of all resamples",
    sizes=(750, 1_500, 3_000),
    large=(3_000, 10_000, 30_000),
)
