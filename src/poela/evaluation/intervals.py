"""Every interval by its name, and the one that `evaluate` uses by default."""

from collections.abc import Mapping

from poela.evaluation.bootstrap import bca, percentile
from poela.evaluation.bounds import IntervalMethod

INTERVALS: Mapping[str, IntervalMethod] = {
    "bca": bca,
    "percentile": percentile,
}

DEFAULT_INTERVAL = "bca"
