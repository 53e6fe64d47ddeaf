"""Validation metrics of a checkpoint: what the selection protocols choose by."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from poela.core.arrays import FloatArray
from poela.core.typed import Discount, Positive, Range, refuse_problems
from poela.data.trajectories import Trajectories
from poela.evaluation.estimators import ESTIMATORS
from poela.evaluation.estimators_by_step import by_step
from poela.evaluation.evaluate import smoothed, standard_error
from poela.evaluation.evidence import Evidence, ModelValues
from poela.evaluation.value_model import FOLDS, ValueModel, joined
from poela.evaluation.weights import LogWeights, effective_sample_size, probabilities_along, safe_shift, weights_of

Metrics = dict[str, float | None]

METRICS = ("sntis", "sntis_error", "ess", "wdr", "wdr_error", "guarded", "guarded_error", "model", "smoothing")
# A step's correction counts half where this many effective episodes stand behind it.
HALF_BELIEF = 10.0
MOST_NUMBERS = 2e7  # probabilities that are scored together: 160 MB
GREEDY = 1e-9  # a policy is greedy where no row leaves more than this to other actions


@dataclass(frozen=True)
class Scoring:
    """How validation metrics are computed, for every candidate alike."""

    discount: Discount = 1.0
    truncation: Positive = 1000.0
    smoothing: Annotated[float, Range(least=0, below=1)] = (
        0.01  # of the logging policy in a greedy one, which importance sampling could not see at all
    )
    value_model: bool = True  # False: SNTIS and its ESS alone, where nothing else is asked for and time matters

    def __post_init__(self) -> None:
        refuse_problems(self)


class Scorer:
    """Scores policies on validation logs; what does not depend on the policy is computed once.

    Weights and corrections come from the validation episodes alone. The model of values that they correct is fitted
    on training episodes too, and on those validation episodes whose values are not asked for.
    """

    def __init__(self, validation: Trajectories, scoring: Scoring, train: Trajectories | None = None) -> None:
        self._logs, self._scoring = validation, scoring
        self._fitted_on = joined(train, validation) if train is not None and scoring.value_model else validation
        self._rest = self._fitted_on.n_steps - validation.n_steps
        self._model = None
        if scoring.value_model:
            folds = min(FOLDS, validation.n_episodes)
            self._model = ValueModel(validation, discount=scoring.discount, beside=train, folds=folds)

    def score(self, policies: Sequence[Any]) -> list[Metrics]:
        """All metrics of each policy; null where one cannot be computed."""
        step = max(int(MOST_NUMBERS / (self._fitted_on.n_steps * self._fitted_on.n_actions)), 1)
        found: list[Metrics] = []
        for start in range(0, len(policies), step):
            rows = [probabilities_along(policy, self._fitted_on) for policy in policies[start : start + step]]
            found += self.score_probabilities(np.stack(rows))
        return found

    def score_probabilities(self, probabilities: FloatArray) -> list[Metrics]:
        """The same for policies whose probabilities [P, N, A] along training and validation logs are known."""
        smoothing = [self._smoothing_of(rows[self._rest :]) for rows in probabilities]
        mixed = [smoothed(rows, self._fitted_on, share) for rows, share in zip(probabilities, smoothing, strict=True)]
        found = [self._by_weights(rows[self._rest :]) for rows in mixed]
        if self._model is not None:
            probabilities = np.stack(mixed)
            values = self._model.values(probabilities)
            squared_weights = self._model.squared_weights(probabilities)
            parts = zip(probabilities[:, self._rest :], values, squared_weights, strict=True)
            found = [{**metrics, **self._by_model(*part)} for metrics, part in zip(found, parts, strict=True)]
        return [
            {**dict.fromkeys(METRICS), **{name: finite(value) for name, value in metrics.items()}, "smoothing": share}
            for metrics, share in zip(found, smoothing, strict=True)
        ]

    def _by_weights(self, probabilities: FloatArray) -> dict[str, float]:
        weights = weights_of(probabilities, self._logs)
        evidence = Evidence(weights, self._logs, self._scoring.discount, self._scoring.truncation)
        sntis = ESTIMATORS["sntis"].function(evidence)
        ess = effective_sample_size(weights.truncated(self._scoring.truncation))
        return {"sntis": sntis.value, "sntis_error": standard_error(sntis), "ess": ess}

    def _by_model(
        self, probabilities: FloatArray, values: ModelValues, squared_weights: FloatArray
    ) -> dict[str, float]:
        logs, scoring = self._logs, self._scoring
        evidence = Evidence(weights_of(probabilities, logs), logs, scoring.discount, scoring.truncation, values)
        wdr = ESTIMATORS["wdr"].function(evidence)
        guarded, guarded_error = guarded_value(evidence, squared_weights)
        return {
            "wdr": wdr.value,
            "wdr_error": standard_error(wdr),
            "guarded": guarded,
            "guarded_error": guarded_error,
            "model": float(values.expected[logs.offsets[:-1]].mean()),
        }

    def _smoothing_of(self, probabilities: FloatArray) -> float:
        """How much of the logging policy is mixed into a policy with these probabilities before it is scored."""
        known = self._fitted_on.propensities is not None and self._fitted_on.propensities.ndim == 2
        return self._scoring.smoothing if known and (probabilities.max(axis=1) > 1 - GREEDY).all() else 0.0


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
