"""Estimators by their names: pure functions from `Evidence` to episode `Contributions`.

Those that weight whole episodes are here; those that weight step by step are in `estimators_by_step`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from poela.core.arrays import FloatArray
from poela.core.registry import Registry
from poela.evaluation.estimators_by_step import cwpdis, dr, fit_variance, guarded, pdis, wdr
from poela.evaluation.estimators_magic import magic
from poela.evaluation.evidence import Evidence
from poela.stats.contributions import Contributions


def importance_sampling(evidence: Evidence) -> Contributions:
    """IS: the mean of weighted returns. Unbiased.

    >>> from poela.data.trajectories import Trajectories
    >>> from poela.stats.weights import LogWeights
    >>> logs = Trajectories([[0.0], [0.0]], [0, 1], [1.0, 2.0], [0, 1, 2])
    >>> importance_sampling(Evidence(LogWeights(np.log([0.5, 1.5]), logs.offsets), logs)).value
    1.75
    """
    return Contributions.weighted(evidence.weights.episodes, evidence.returns)


def truncated_is(evidence: Evidence) -> Contributions:
    """Truncated IS: no weight counts above the truncation.

    >>> from poela.data.trajectories import Trajectories
    >>> from poela.stats.weights import LogWeights
    >>> logs = Trajectories([[0.0], [0.0]], [0, 1], [1.0, 2.0], [0, 1, 2])
    >>> truncated_is(Evidence(LogWeights(np.log([0.5, 1.5]), logs.offsets), logs, truncation=1.0)).value
    1.25
    """
    return Contributions.weighted(evidence.weights.truncated(evidence.truncation), evidence.returns)


def snis(evidence: Evidence) -> Contributions:
    """Self-normalised IS: the mean return under weights that are made to sum to 1.

    >>> from poela.data.trajectories import Trajectories
    >>> from poela.stats.weights import LogWeights
    >>> logs = Trajectories([[0.0], [0.0]], [0, 1], [1.0, 2.0], [0, 1, 2])
    >>> snis(Evidence(LogWeights([5000.0, 5000.0], logs.offsets), logs)).value
    1.5
    """
    return Contributions.self_normalised(evidence.weights.episodes, evidence.returns)


def sntis(evidence: Evidence) -> Contributions:
    """The paper's SNTIS: self-normalised IS with weights min(∏W, M).

    >>> from poela.data.trajectories import Trajectories
    >>> from poela.stats.weights import LogWeights
    >>> logs = Trajectories([[0.0], [0.0]], [0, 1], [1.0, 2.0], [0, 1, 2])
    >>> round(sntis(Evidence(LogWeights(np.log([1000.0, 4000.0]), logs.offsets), logs)).value, 9)
    1.5
    """
    return Contributions.self_normalised(evidence.weights.truncated(evidence.truncation), evidence.returns)


def model_average(evidence: Evidence) -> Contributions:
    """The value model's average over initial contexts: no weights, and all the bias of the model.

    Its error contains the variance of the fit, where the model knows it.

    >>> from poela.data.trajectories import Trajectories
    >>> from poela.evaluation.evidence import ModelValues
    >>> from poela.stats.weights import LogWeights
    >>> logs = Trajectories([[0.0], [0.0]], [0, 1], [1.0, 2.0], [0, 1, 2])
    >>> given = ModelValues(taken=np.array([1.0, 2.0]), expected=np.array([1.5, 2.5]))
    >>> model_average(Evidence(LogWeights([0.0, 0.0], logs.offsets), logs, values=given)).value
    2.0
    """
    initial = evidence.model.expected[evidence.logs.offsets[:-1]]
    lean = np.ones(int(evidence.logs.lengths.max()))
    return Contributions(initial[:, None], np.ones((len(initial), 1)), fit_variance(evidence, lean))


def behavior_mean(evidence: Evidence) -> Contributions:
    """The mean return of the logs: the value of the policy that made them.

    >>> from poela.data.trajectories import Trajectories
    >>> from poela.stats.weights import LogWeights
    >>> logs = Trajectories([[0.0], [0.0]], [0, 1], [1.0, 2.0], [0, 1, 2])
    >>> behavior_mean(Evidence(LogWeights([0.0, 0.0], logs.offsets), logs)).value
    1.5
    """
    return Contributions.of_logging(evidence.returns, evidence.logs.seen_weights)


@dataclass(frozen=True)
class Estimator:
    """An estimator, which weights it uses, and whether it uses a Q model (fitted here, or given by the caller)."""

    function: Callable[[Evidence], Contributions]
    weights: Literal["episode", "truncated", "running", "none"]
    model: Literal["none", "fitted", "given"] = "none"
    leans: bool = False  # on the model, beyond what weights can correct

    @property
    def whole_episodes(self) -> bool:
        """Whether each episode has one weight."""
        return self.weights in ("episode", "truncated")

    @property
    def normalised(self) -> bool:
        """Whether it is the mean return under weights of whole episodes that are made to sum to 1."""
        return self.function in (snis, sntis)

    @property
    def uses_policy(self) -> bool:
        """Whether the target policy matters at all."""
        return self.weights != "none" or self.model != "none"

    def truncation(self, evidence: Evidence) -> float:
        """From where on weights are cut off."""
        return evidence.truncation if self.weights == "truncated" else np.inf

    def used(self, evidence: Evidence) -> FloatArray:
        """The log weights [n] of whole episodes, truncated where the estimator does so."""
        return evidence.weights.truncated(self.truncation(evidence))


_OWN: Mapping[str, Estimator] = {
    "is": Estimator(importance_sampling, "episode"),
    "truncated_is": Estimator(truncated_is, "truncated"),
    "snis": Estimator(snis, "episode"),
    "sntis": Estimator(sntis, "truncated"),
    "pdis": Estimator(pdis, "running"),
    "cwpdis": Estimator(cwpdis, "running"),
    "dr": Estimator(dr, "running", "fitted"),
    "wdr": Estimator(wdr, "running", "fitted"),
    "guarded": Estimator(guarded, "running", "fitted", leans=True),
    "magic": Estimator(magic, "running", "fitted", leans=True),
    "fqe": Estimator(model_average, "none", "fitted", leans=True),
    "direct": Estimator(model_average, "none", "given", leans=True),
    "behavior": Estimator(behavior_mean, "none"),
}


def _made(function: Estimator | Callable[[Evidence], Contributions]) -> Estimator:
    """A function of one's own: of running weights, since nothing is known of how it uses them."""
    return function if isinstance(function, Estimator) else Estimator(function, "running")


ESTIMATORS: Registry[Estimator] = Registry("poela.estimators", _OWN, _made)
