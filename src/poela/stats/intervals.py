"""Every interval by its name, and the one that `evaluate` uses by default."""

from collections.abc import Mapping, Sequence
from typing import Any

from poela.core.errors import InputError
from poela.core.registry import Registry
from poela.stats.bootstrap import bca, percentile, refit, studentised
from poela.stats.bounds import Interval, IntervalMethod, Sample
from poela.stats.concentration import empirical_bernstein, hoeffding
from poela.stats.empirical_likelihood import empirical_likelihood, empirical_likelihood_moment
from poela.stats.normal import normal, student
from poela.stats.recombined import recombined

_OWN: Mapping[str, IntervalMethod] = {
    "recombined": IntervalMethod(recombined),
    "bca": IntervalMethod(bca),
    "percentile": IntervalMethod(percentile),
    "studentised": IntervalMethod(studentised),
    "normal": IntervalMethod(normal),
    "student": IntervalMethod(student),
    "el": IntervalMethod(empirical_likelihood),
    "el_moment": IntervalMethod(empirical_likelihood_moment, frozenset({"self-normalised"})),
    "hoeffding": IntervalMethod(hoeffding, frozenset({"bounds", "whole episodes"})),
    "empirical_bernstein": IntervalMethod(empirical_bernstein, frozenset({"bounds", "whole episodes"})),
    "refit": IntervalMethod(refit, frozenset({"behavior"})),
}


def _made(ends: Any) -> IntervalMethod:
    """A function of one's own, of a sample and levels, which needs nothing more."""
    return ends if isinstance(ends, IntervalMethod) else IntervalMethod(ends)


INTERVALS: Registry[IntervalMethod] = Registry("poela.intervals", _OWN, _made)
DEFAULT_INTERVAL = "recombined"


def intervals_of(name: str, sample: Sample, levels: Sequence[float]) -> list[Interval]:
    """The intervals of this name at each level, from one sample.

    >>> import numpy as np
    >>> from poela.stats.contributions import Contributions
    >>> [narrow, wide] = intervals_of("normal", Sample(Contributions.mean(np.array([1.0, 3.0]))), [0.5, 0.9])
    >>> narrow.width < wide.width
    True
    """
    if name not in INTERVALS:
        raise InputError(f"interval {name!r} is unknown: choose one of {', '.join(INTERVALS)}")
    problems = [
        f"level {level} must lie between 0 and 1, for example 0.95" for level in levels if not 0 < level < 1
    ] + INTERVALS[name].problems(sample)
    if problems:
        raise InputError(problems)
    return INTERVALS[name].ends(sample, levels)
