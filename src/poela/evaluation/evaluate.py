"""`evaluate`: from a policy and logged episodes to an `Estimate`."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from poela.core.errors import InputError
from poela.data.trajectories import Trajectories
from poela.evaluation.bounds import DEFAULT_RESAMPLES, Bounds
from poela.evaluation.contributions import Contributions
from poela.evaluation.diagnostics import Diagnostics, calibration_error, diagnose
from poela.evaluation.estimate import Estimate
from poela.evaluation.estimators import ESTIMATORS, Estimator
from poela.evaluation.evidence import DEFAULT_TRUNCATION, Evidence
from poela.evaluation.intervals import DEFAULT_INTERVAL, INTERVALS
from poela.evaluation.weights import LogWeights, probabilities_along, weights_of


def evaluate(
    policy: Any,
    logs: Trajectories,
    *,
    estimator: str = "sntis",
    interval: str | None = DEFAULT_INTERVAL,
    level: float = 0.95,
    discount: float = 1.0,
    truncation: float = DEFAULT_TRUNCATION,
    resamples: int = DEFAULT_RESAMPLES,
    seed: int = 0,
    clusters: ArrayLike | None = None,
    bounds: Bounds | None = None,
) -> Estimate:
    """The value of any policy (an object with `probabilities(contexts)`) on logs that carry propensities.

    `estimator` and `interval` are names from `ESTIMATORS` and `INTERVALS`; `interval=None` skips the interval.
    `clusters` names the independent unit of each episode, such as the patient of a stay.

    >>> class Always:
    ...     def probabilities(self, contexts):
    ...         return np.tile([1.0, 0.0], (len(contexts), 1))
    >>> actions = np.arange(40) % 2
    >>> logs = Trajectories(np.zeros((40, 1)), actions, 1.0 - actions, np.arange(41), propensities=np.full(40, 0.5))
    >>> estimate = evaluate(Always(), logs)
    >>> estimate.value, estimate.low, estimate.high, estimate.ess
    (1.0, 1.0, 1.0, 20.0)
    """
    chosen = _checked(policy, logs, estimator, interval, discount, truncation)
    probabilities = probabilities_along(policy, logs)
    weights = weights_of(probabilities, logs)
    contributions = chosen.function(Evidence(weights, logs, discount, truncation))
    diagnostics = _diagnostics(policy, logs, weights, chosen, truncation)
    found = None
    if interval is not None and diagnostics.ess > 0:
        units = None if clusters is None else np.asarray(clusters)
        method = INTERVALS[interval]
        found = method(contributions, level, seed=seed, resamples=resamples, clusters=units, bounds=bounds)
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
    )


def standard_error(contributions: Contributions) -> float:
    """The normal approximation of the paper (Owen 2013, equation 9.9), for any estimator; NaN without weight.

    For SNTIS it is sqrt(Σ w²(r − v)²) / Σ w; for a plain mean, the population standard deviation over √n.

    >>> standard_error(Contributions.mean(np.array([1.0, 3.0])))
    0.7071067811865...
    """
    if not np.isfinite(contributions.value):
        return float("nan")
    return float(np.sqrt(np.square(contributions.influence).sum()) / contributions.n_episodes)


def _checked(
    policy: Any, logs: Trajectories, estimator: str, interval: str | None, discount: float, m: float
) -> Estimator:
    problems = []
    if estimator not in ESTIMATORS:
        problems.append(f"estimator {estimator!r} is unknown: choose one of {', '.join(ESTIMATORS)}")
    if interval is not None and interval not in INTERVALS:
        problems.append(f"interval {interval!r} is unknown: choose one of {', '.join(INTERVALS)}, or None")
    if not 0 < discount <= 1:
        problems.append(f"discount {discount} must lie in (0, 1]")
    if not m > 0:
        problems.append(f"truncation {m} must be positive")
    if logs.propensities is None:
        problems.append(
            "these logs carry no propensities: name their column, or estimate them with a behavior model (annotate)"
        )
    problems += [
        *_differences("feature", getattr(policy, "feature_names", None), logs.feature_names),
        *_differences("action", getattr(policy, "action_names", None), logs.action_names),
    ]
    if problems:
        raise InputError(problems)
    return ESTIMATORS[estimator]


def _differences(kind: str, known: Any, logged: tuple[Any, ...]) -> list[str]:
    """One sentence where the policy was made for other features or actions, or for another order of them."""
    if known is None or tuple(known) == logged:
        return []
    known = tuple(known)
    missing = [name for name in known if name not in logged]
    extra = [name for name in logged if name not in known]
    if not missing and not extra:
        first = next(position for position, (a, b) in enumerate(zip(known, logged, strict=True)) if a != b)
        return [f"the logs hold the policy's {kind}s in another order, first at {kind} {first}: reorder them"]
    return [
        f"the logs' {kind}s are not the policy's: {len(missing)} missing{_first(missing)}, "
        f"{len(extra)} unknown{_first(extra)}"
    ]


def _first(names: list[Any]) -> str:
    return f" (first {names[0]!r})" if names else ""


def _diagnostics(
    policy: Any, logs: Trajectories, weights: LogWeights, estimator: Estimator, truncation: float
) -> Diagnostics:
    stranded = getattr(policy, "stranded", None)
    return diagnose(
        weights,
        used=weights.truncated(truncation) if estimator.weights == "truncated" else None,
        truncation=truncation if estimator.weights == "truncated" else np.inf,
        stranded_steps=int(np.asarray(stranded(logs)).sum()) if callable(stranded) else None,
        calibration_error=calibration_error(logs),
    )
