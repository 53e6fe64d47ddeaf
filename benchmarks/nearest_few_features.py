"""The nearest logged context where features are few, beside SciPy's k-d tree.

python benchmarks/bench.py nearest_few_features
"""

import numpy as np
from measuring import Speed, Work

from poela.core.arrays import FloatArray
from poela.neighbours.search import Neighbours

FEATURES = 4


def points(size: int) -> tuple[FloatArray, FloatArray]:
    """Logged contexts and as many to ask about."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(size, FEATURES)), rng.normal(size=(size, FEATURES))


def by_poela(size: int) -> Work:
    """Exact, with ties in the order of the log."""
    logged, asked = points(size)
    return lambda: Neighbours(logged).nearest(asked)


def by_scipy(size: int) -> Work:
    """As its users write it."""
    from scipy.spatial import cKDTree

    logged, asked = points(size)
    return lambda: cKDTree(logged).query(asked)


SPEED = Speed(
    case=f"Contexts with {FEATURES} features, all asked about as many",
    ours=by_poela,
    alternative=by_scipy,
    alternative_name="SciPy, cKDTree",
    sizes=(30_000, 100_000, 300_000),
    large=(100_000, 300_000, 1_000_000),
)
