"""Every interval by its name, and the one that `evaluate` uses by default."""

from collections.abc import Mapping

from poela.evaluation.bootstrap import bca, percentile, studentised
from poela.evaluation.bounds import IntervalMethod
from poela.evaluation.concentration import empirical_bernstein, hoeffding
from poela.evaluation.empirical_likelihood import empirical_likelihood, empirical_likelihood_moment
from poela.evaluation.normal import normal, student

INTERVALS: Mapping[str, IntervalMethod] = {
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

DEFAULT_INTERVAL = "bca"
