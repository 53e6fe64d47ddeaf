"""Every interval by its name, and the one that `evaluate` uses by default."""

from collections.abc import Mapping

from poela.core.arrays import IntArray
from poela.core.errors import InputError
from poela.evaluation.bootstrap import bca, percentile, studentised
from poela.evaluation.bounds import DEFAULT_RESAMPLES, Bounds, Interval, IntervalMethod, Pool, Sample, in_clusters
from poela.evaluation.concentration import empirical_bernstein, hoeffding
from poela.evaluation.contributions import Contributions
from poela.evaluation.empirical_likelihood import empirical_likelihood, empirical_likelihood_moment
from poela.evaluation.normal import normal, student
from poela.evaluation.recombination import recombined

INTERVALS: Mapping[str, IntervalMethod] = {
    "recombined": recombined,
    "bca": bca,
    "percentile": percentile,
    "studentised": studentised,
    "normal": normal,
    "student": student,
    "el": empirical_likelihood,
    "el_moment": empirical_likelihood_moment,
    "hoeffding": hoeffding,
    "empirical_bernstein": empirical_bernstein,
}

DEFAULT_INTERVAL = "recombined"


def interval_of(
    name: str,
    contributions: Contributions,
    level: float = 0.95,
    *,
    seed: int = 0,
    resamples: int = DEFAULT_RESAMPLES,
    clusters: IntArray | None = None,
    bounds: Bounds | None = None,
    pool: Pool | None = None,
) -> Interval:
    """The interval of this name; `clusters` names the independent unit of each episode, such as its patient.

    `pool` holds recombined episodes, for the interval `recombined`.

    >>> import numpy as np
    >>> interval_of("normal", Contributions.mean(np.array([1.0, 1.0])))
    Interval(low=1.0, high=1.0, method='normal', undefined_resamples=0)
    """
    if name not in INTERVALS:
        raise InputError(f"interval {name!r} is unknown: choose one of {', '.join(INTERVALS)}")
    if clusters is not None:
        # The pool holds single episodes; it says nothing about how clusters vary.
        contributions, pool = in_clusters(contributions, clusters), None
    return INTERVALS[name](Sample(contributions, level, seed, resamples, bounds, pool))
