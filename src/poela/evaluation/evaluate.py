"""`evaluate`: from a policy and logged episodes to an `Estimate`."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import FloatArray, IntArray
from poela.core.errors import InputError
from poela.data.trajectories import Trajectories
from poela.evaluation.bounds import DEFAULT_RESAMPLES, Bounds, Interval, carriers
from poela.evaluation.contributions import Contributions
from poela.evaluation.contributions import standard_error as standard_error
from poela.evaluation.diagnostics import Diagnostics, calibration_error, diagnose, undiagnosed
from poela.evaluation.estimate import Estimate
from poela.evaluation.estimators import ESTIMATORS, Estimator
from poela.evaluation.evidence import DEFAULT_TRUNCATION, Evidence, ModelValues
from poela.evaluation.intervals import DEFAULT_INTERVAL, INTERVALS, interval_of
from poela.evaluation.recombination import recombined_pool
from poela.evaluation.value_model import FOLDS, ValueModel
from poela.evaluation.values import QValues, given_values
from poela.evaluation.verdict import TrustThresholds, verdict_on
from poela.evaluation.weights import LogWeights, probabilities_along, weights_of
from poela.learners.step_regression import Regressor


def evaluate(
    policy: Any,
    logs: Trajectories,
    *,
    estimator: str = "sntis",
    interval: str | None = DEFAULT_INTERVAL,
    level: float = 0.95,
    discount: float = 1.0,
    truncation: float = DEFAULT_TRUNCATION,
    smoothing: float = 0.0,
    q: Regressor | QValues = "ridge",
    folds: int = FOLDS,
    history: int | None = None,
    clusters: ArrayLike | None = None,
    bounds: Bounds | None = None,
    thresholds: TrustThresholds | None = None,
    resamples: int = DEFAULT_RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """The value of any policy (an object with `probabilities(contexts)`) on logs that carry propensities.

    `estimator` and `interval` are names from `ESTIMATORS` and `INTERVALS`; `interval=None` skips the interval.
    `q` is the model behind the doubly robust family and fitted-Q evaluation: an object with `q(trajectories)`, or
    "ridge" or "boosted": fitted here, on other `folds` than the episodes they value, with `history` earlier steps
    (by default one, or none where contexts have more than 8 features).
    `smoothing` mixes that share of the logging policy into the policy (the paper: 0.01 for greedy policies, whose
    weights would else be zero wherever the log once did otherwise): it is the mixture that is evaluated.
    `clusters` names the independent unit of each episode, such as the patient of a stay. `thresholds` are those of the
    verdict, `bounds` what is known of returns and weights beforehand, for the intervals that need it.

    >>> class Always:
    ...     def probabilities(self, contexts):
    ...         return np.tile([1.0, 0.0], (len(contexts), 1))
    >>> actions = np.arange(40) % 2
    >>> logs = Trajectories(np.zeros((40, 1)), actions, 1.0 - actions, np.arange(41), propensities=np.full(40, 0.5))
    >>> estimate = evaluate(Always(), logs)
    >>> estimate.value, round(estimate.low, 2), round(estimate.high, 2), estimate.ess
    (1.0, 0.94, 1.06, 20.0)
    """
    chosen = _checked(policy, logs, estimator, interval, discount, truncation, q)
    units = _units(clusters, logs)
    weights, values = LogWeights(np.zeros(logs.n_steps), logs.offsets), None
    if chosen.uses_policy:
        probabilities = smoothed(probabilities_along(policy, logs), logs, smoothing)
        if logs.propensities is not None:
            weights = weights_of(probabilities, logs)
        if chosen.model != "none":
            fit = {"discount": discount, "folds": folds, "history": history, "seed": seed, "clusters": units}
            values = _model_values(q, probabilities, logs, fit)
    evidence = Evidence(weights, logs, discount, truncation, values)
    contributions = chosen.function(evidence)
    diagnostics = _diagnostics(policy, evidence, chosen)
    found = None
    if interval is not None and np.isfinite(contributions.value) and carriers(contributions) > 1:
        options: dict[str, Any] = {"seed": seed, "resamples": resamples, "clusters": units, "bounds": bounds}
        if interval == "recombined" and chosen.weights in ("episode", "truncated") and units is None:
            options["pool"] = recombined_pool(evidence, chosen.function, seed)
        found = interval_of(interval, contributions, level, **options)
    verdict = verdict_on(diagnostics, thresholds, model_only=chosen.weights == "none" != chosen.model)
    return Estimate(
        value=contributions.value,
        low=None if found is None else found.low,
        high=None if found is None else found.high,
        level=None if found is None else level,
        estimator=estimator,
        interval=None if found is None else found.method,
        n_episodes=logs.n_episodes,
        ess=diagnostics.ess,
        standard_error=standard_error(contributions),
        diagnostics=diagnostics,
        verdict=verdict.word,
        reasons=verdict.reasons,
        warnings=_warnings(contributions, diagnostics, found, resamples) + verdict.reasons * (verdict.word != "trust"),
    )


def smoothed(probabilities: FloatArray, logs: Trajectories, smoothing: float) -> FloatArray:
    """(1 − s)·π + s·μ along the logs [N, A].

    >>> logs = Trajectories([[0.0]], [1], [0.0], [0, 1], propensities=[[0.5, 0.5]])
    >>> smoothed(np.array([[1.0, 0.0]]), logs, smoothing=0.01)
    array([[0.995, 0.005]])
    """
    if smoothing == 0:
        return probabilities
    if not 0 < smoothing < 1:
        raise InputError(f"smoothing {smoothing} must lie in [0, 1)")
    if logs.propensities is None or logs.propensities.ndim == 1:
        raise InputError("smoothing mixes in the logging policy: it needs logs with the propensities of every action")
    return np.asarray((1 - smoothing) * probabilities + smoothing * logs.propensities)


def _units(clusters: ArrayLike | None, logs: Trajectories) -> IntArray | None:
    """The independent unit of each episode, numbered; None where each episode is one."""
    if clusters is None:
        return None
    names = np.asarray(clusters)
    if names.shape != (logs.n_episodes,):
        raise InputError(f"clusters must name one unit for each of the {logs.n_episodes} episodes, not {names.shape}")
    return np.asarray(np.unique(names, return_inverse=True)[1], np.int64)


def _model_values(q: Any, probabilities: FloatArray, logs: Trajectories, fit: Mapping[str, Any]) -> ModelValues:
    if not isinstance(q, str):
        return given_values(q, probabilities, logs)
    regressor: Any = q
    (values,) = ValueModel(logs, regressor=regressor, **fit).values(probabilities[None])
    return values


def _diagnostics(policy: Any, evidence: Evidence, chosen: Estimator) -> Diagnostics:
    logs, truncation = evidence.logs, evidence.truncation if chosen.weights == "truncated" else np.inf
    if logs.propensities is None and chosen.model != "none":
        return undiagnosed(logs)
    stranded = getattr(policy, "stranded", None)
    return diagnose(
        evidence.weights,
        used=evidence.weights.truncated(truncation),
        truncation=truncation,
        stranded_steps=int(np.asarray(stranded(logs)).sum()) if callable(stranded) else None,
        calibration_error=calibration_error(logs),
    )


def _warnings(
    contributions: Contributions, diagnostics: Diagnostics, interval: Interval | None, resamples: int
) -> tuple[str, ...]:
    """What went wrong in computing; whether to believe the result is the verdict's part."""
    found = []
    if diagnostics.ess == 0:
        found.append("every weight is zero: the policy takes none of the logged actions, so nothing can be estimated")
    elif np.isnan(contributions.value):
        found.append("at some step every weight is zero: this estimator has nothing to weight from there on")
    elif np.isinf(contributions.value):
        found.append("weights exceed floating point: use a self-normalised or truncated estimator")
    elif carriers(contributions) == 1:
        found.append("a single episode has weight: its return is the estimate, and nothing tells how far off that is")
    if interval is not None and interval.undefined_resamples:
        found.append(
            f"{interval.undefined_resamples} of {resamples} resamples drew only zero weights and were left out"
        )
    return tuple(found)


def _checked(
    policy: Any, logs: Trajectories, estimator: str, interval: str | None, discount: float, truncation: float, q: Any
) -> Estimator:
    problems = []
    chosen = ESTIMATORS.get(estimator)
    if chosen is None:
        problems.append(f"estimator {estimator!r} is unknown: choose one of {', '.join(ESTIMATORS)}")
    if interval is not None and interval not in INTERVALS:
        problems.append(f"interval {interval!r} is unknown: choose one of {', '.join(INTERVALS)}, or None")
    if not 0 < discount <= 1:
        problems.append(f"discount {discount} must lie in (0, 1]")
    if not truncation > 0:
        problems.append(f"truncation {truncation} must be positive")
    if chosen is not None and chosen.weights != "none" and logs.propensities is None:
        problems.append(
            "these logs carry no propensities: name their column, or estimate them with a behavior model (annotate)"
        )
    if chosen is not None and chosen.model == "given" and isinstance(q, str):
        problems.append(f"estimator {estimator!r} averages a model that you give: pass q with a method q(trajectories)")
    problems += [
        *_differences("feature", getattr(policy, "feature_names", None), logs.feature_names),
        *_differences("action", getattr(policy, "action_names", None), logs.action_names),
    ]
    if problems or chosen is None:
        raise InputError(problems)
    return chosen


def _differences(kind: str, known: Any, logged: tuple[Any, ...]) -> list[str]:
    """One sentence where the policy was made for other features or actions, or for another order of them."""
    if known is None or tuple(known) == logged:
        return []
    missing = [name for name in known if name not in logged]
    extra = [name for name in logged if name not in known]
    if not missing and not extra:
        first = next(name for name, expected in zip(logged, known, strict=True) if name != expected)
        return [f"the logs hold the policy's {kind}s in another order, first {kind} {first!r}: put them in its order"]
    return [
        f"the logs' {kind}s are not the policy's: {_counted(missing, 'missing')}, {_counted(extra, 'unknown')}; "
        "read the logs with the columns that the policy was made for"
    ]


def _counted(names: list[Any], what: str) -> str:
    return f"{len(names)} {what}" + (f" (first {names[0]!r})" if names else "")
