"""The diagnostics of an estimate from the logs and the policy behind it."""

import numpy as np

from poela.behavior.calibration import reliability
from poela.core.arrays import FloatArray
from poela.data.trajectories import Trajectories
from poela.evaluation.estimators import Estimator
from poela.evaluation.evidence import Evidence
from poela.evaluation.recombination import Pool
from poela.stats.bounds import Bounds
from poela.stats.diagnostics import Diagnostics, diagnose


def diagnosed(
    evidence: Evidence, chosen: Estimator, pool: Pool | None, returns: FloatArray, bounds: Bounds | None
) -> Diagnostics:
    """What the weights of a policy say about an estimator's number; nothing where neither has any."""
    logs = evidence.logs
    if not logs.knows_logging_policy and chosen.model != "none":
        return undiagnosed(logs)
    return diagnose(
        evidence.weights,
        used=chosen.used(evidence),
        truncation=chosen.truncation(evidence),
        stranded_steps=evidence.stranded_steps,
        outside=evidence.outside,
        calibration_error=calibration_error(logs),
        clusters=logs.clusters,
        pool=pool,
        returns=returns,
        bounds=bounds,
    )


def undiagnosed(logs: Trajectories) -> Diagnostics:
    """Where the logs carry no propensities, nothing is known of the weights.

    >>> from poela.data.trajectories import Trajectories
    >>> undiagnosed(Trajectories([[0.0]], [0], [1.0], [0, 1])).ess
    nan
    """
    unknown = float("nan")
    return Diagnostics(
        n_episodes=logs.n_episodes,
        n_steps=logs.n_steps,
        ess=unknown,
        ess_by_step=np.full(int(logs.lengths.max()), unknown),
        largest_share=unknown,
        pareto_k=unknown,
        mean_weight=unknown,
        mean_weight_z=unknown,
        zero_weight_share=unknown,
        ineligible_steps=0,
        truncated_share=unknown,
    )


def calibration_error(logs: Trajectories) -> float | None:
    """Expected calibration error of the logged propensities (of the likeliest action, in ten bins; Guo et al. 2017).

    None where only the logged action's propensity is known: then there is nothing to compare it with.

    >>> from poela.data.trajectories import Trajectories
    >>> contexts, half = np.zeros((4, 1)), np.full((4, 2), 0.5)
    >>> calibration_error(Trajectories(contexts, [0, 1, 0, 1], np.zeros(4), [0, 4], propensities=half))
    0.0
    """
    known = logs.all_propensities
    if known is None:
        return None
    likeliest = known.argmax(axis=1)
    highest = known[np.arange(logs.n_steps), likeliest]
    return reliability(highest, likeliest == logs.actions).error
