"""An estimator: importance sampling in which no episode counts more than twice."""

import numpy as np

from poela.evaluation.estimators import Estimator
from poela.evaluation.evidence import Evidence
from poela.stats.contributions import Contributions


def clipped(evidence: Evidence) -> Contributions:
    return Contributions.mean(np.minimum(np.exp(evidence.weights.episodes), 2.0) * evidence.returns)


CLIPPED = Estimator(clipped, "episode")
