"""The numerical kernel: weights, contributions, paired gain, interval, verdict. Arrays in, numbers out.

It needs NumPy and SciPy, and knows no logs, no policies and no files; docs/guides/kernel.md works an example.
"""

from poela.stats.bounds import Bounds as Bounds
from poela.stats.bounds import Interval as Interval
from poela.stats.bounds import Sample as Sample
from poela.stats.bounds import in_clusters as in_clusters
from poela.stats.contributions import Contributions as Contributions
from poela.stats.contributions import standard_error as standard_error
from poela.stats.diagnostics import Diagnostics as Diagnostics
from poela.stats.diagnostics import diagnose as diagnose
from poela.stats.diagnostics import pareto_k as pareto_k
from poela.stats.gain import Gain as Gain
from poela.stats.gain import gain_over_logging as gain_over_logging
from poela.stats.gain import least_value as least_value
from poela.stats.gain import vanishing_sensitivity as vanishing_sensitivity
from poela.stats.intervals import intervals_of as intervals_of
from poela.stats.verdict import TrustThresholds as TrustThresholds
from poela.stats.verdict import Verdict as Verdict
from poela.stats.verdict import verdict_on as verdict_on
from poela.stats.weights import LogWeights as LogWeights
from poela.stats.weights import effective_sample_size as effective_sample_size
