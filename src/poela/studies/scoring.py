"""Validation metrics of a checkpoint: what the selection protocols choose by."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from poela.core.arrays import FloatArray
from poela.data.trajectories import Trajectories
from poela.evaluation.estimators import ESTIMATORS
from poela.evaluation.estimators_by_step import by_step
from poela.evaluation.evaluate import smoothed, standard_error
from poela.evaluation.evidence import Evidence, ModelValues
from poela.evaluation.weights import LogWeights, effective_sample_size, probabilities_along, safe_shift, weights_of
from poela.studies.value_model import ValueModel

Metrics = dict[str, float | None]

METRICS = ("sntis", "sntis_error", "ess", "wdr", "wdr_error", "guarded", "guarded_error", "model", "smoothing")
# A step's correction counts half where this many effective episodes stand behind it.
HALF_BELIEF = 10.0
GREEDY = 1e-9  # a policy is greedy where no row leaves more than this to other actions


@dataclass(frozen=True)
class Scoring:
    """How validation metrics are computed, for every candidate alike."""

    discount: float = 1.0
    truncation: float = 1000.0
    smoothing: float = 0.01  # of the logging policy in a greedy one, which importance sampling could not see at all


class Scorer:
    """Scores policies on validation logs; what does not depend on the policy is computed once."""

    def __init__(self, validation: Trajectories, scoring: Scoring) -> None:
        self._logs, self._scoring = validation, scoring
        self._model = ValueModel(validation, scoring.discount)

    def score(self, policy: Any) -> Metrics:
        """All metrics; null where one cannot be computed."""
        return self.score_probabilities(probabilities_along(policy, self._logs))

    def smoothing_of(self, probabilities: FloatArray) -> float:
        """How much of the logging policy is mixed into a policy with these probabilities before it is scored."""
        known = self._logs.propensities is not None and self._logs.propensities.ndim == 2
        return self._scoring.smoothing if known and (probabilities.max(axis=1) > 1 - GREEDY).all() else 0.0

    def score_probabilities(self, probabilities: FloatArray) -> Metrics:
        """The same for a policy whose probabilities [N, A] along the validation logs are known."""
        logs, scoring = self._logs, self._scoring
        smoothing = self.smoothing_of(probabilities)
        probabilities = smoothed(probabilities, logs, smoothing)
        values = ModelValues.under(probabilities, self._model.q(probabilities), logs.actions)
        weights = weights_of(probabilities, logs)
        evidence = Evidence(weights, logs, scoring.discount, scoring.truncation, values)
        sntis, wdr = (ESTIMATORS[name].function(evidence) for name in ("sntis", "wdr"))
        guarded, guarded_error = guarded_value(evidence, self._model.squared_weights(probabilities))
        found = {
            "sntis": sntis.value,
            "sntis_error": standard_error(sntis),
            "ess": effective_sample_size(weights.truncated(scoring.truncation)),
            "wdr": wdr.value,
            "wdr_error": standard_error(wdr),
            "guarded": guarded,
            "guarded_error": guarded_error,
            "model": float(values.expected[logs.offsets[:-1]].mean()),
            "smoothing": smoothing,
        }
        return {name: finite(value) for name, value in found.items()}


def guarded_value(evidence: Evidence, squared_weights: FloatArray) -> tuple[float, float]:
    """Weighted doubly robust, with each step's correction believed as far as effective episodes support it.

    The estimate is the model's value plus Σ_t f_t·c_t: c_t is the self-normalised mean surprise of step t, and
    f_t = ESS_t / (ESS_t + 10). With many effective episodes this is WDR, with none it is the model alone.

    Its standard error takes the surprises of a step to vary as much under the policy as in the logs. The part that is
    corrected rests on ESS_t episodes, the part that is not on 1 / `squared_weights` of them, those behind the fitted
    model (see `ValueModel.squared_weights`). So it holds up where one episode has all the weight (the usual error is
    then near zero), and it is large where the model extrapolates.
    """
    model, logs = evidence.model, evidence.logs
    initial = model.expected[logs.offsets[:-1]]
    surprises = by_step(evidence.discounts * evidence.surprises, logs.offsets)
    running = _running(evidence.weights)
    totals, squares = running.sum(axis=0), np.square(running).sum(axis=0)
    seen = totals > 0
    ess = np.divide(totals**2, squares, out=np.zeros_like(totals), where=seen)
    corrections = np.divide((running * surprises).sum(axis=0), totals, out=np.zeros_like(totals), where=seen)
    belief = ess / (ess + HALF_BELIEF)
    # f²/ESS = f / (ESS + 10): finite where no episode has weight.
    corrected = surprises.var(axis=0) * belief / (ess + HALF_BELIEF)
    still_running = by_step(np.ones(logs.n_steps), logs.offsets).sum(axis=0)
    fitted = np.square(surprises).sum(axis=0) / still_running * squared_weights * (1 - belief) ** 2
    variance = initial.var() / len(initial) + float((corrected + fitted).sum())
    return float(initial.mean() + (belief * corrections).sum()), math.sqrt(variance)


def _running(weights: LogWeights) -> FloatArray:
    """Cumulative weights [n, H], on a scale of each step's own where they would overflow."""
    logs = by_step(weights.running, weights.offsets, keep_last=True)
    return np.asarray(np.exp(logs - safe_shift(logs)))


def finite(number: float) -> float | None:
    """The number, or None where it is NaN or infinite.

    >>> finite(1.5), finite(float("nan"))
    (1.5, None)
    """
    return float(number) if math.isfinite(number) else None
