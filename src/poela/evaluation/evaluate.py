"""`evaluate`: from a policy and logged episodes to an `Estimate`."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from poela.behavior.gaussian import refuse_plain_densities
from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.core.options import with_fields
from poela.core.policy import AnyPolicy
from poela.data.trajectories import Trajectories
from poela.evaluation.estimate import Estimate
from poela.evaluation.estimators import ESTIMATORS
from poela.evaluation.outside import logged_support
from poela.evaluation.refit import FitsBehavior
from poela.evaluation.scoring import Evaluator, Scoring
from poela.evaluation.value_model import QValues

SAME = 1e-6  # of a log weight
ITSELF = (
    "This policy itself made these logs, so it is compared with itself here: poela watch compares it with what was "
    "before."
)


@with_fields(
    Scoring,
    estimator="str | Callable[[Evidence], Contributions]",
    interval="str | Callable[[Sample, Sequence[float]], Sequence[Interval]] | None",
)
def evaluate(
    policy: AnyPolicy | None,
    logs: Trajectories,
    *,
    scoring: Scoring | None = None,
    q: str | QValues | None = None,
    clusters: ArrayLike | None = None,
    behavior: FitsBehavior | None = None,
    wrong: str = "",
    reference: FloatArray | None = None,
    **settings: Any,
) -> Estimate:
    """The value of any policy on logs that carry propensities, or log densities where actions are real numbers.

    A policy is an object with `probabilities(contexts)` or, of real-valued actions, with `log_density(contexts,
    actions)` and `sample(contexts, rng)`.

    `settings` are those of `Scoring`, by name: estimator, interval (None: no interval), level, discount, truncation,
    smoothing, bounds, thresholds, resamples, seed, …; or pass a whole `scoring`, such as a study's.
    `q` is the model behind the doubly robust family and fitted-Q evaluation: an object with `q(trajectories)`, or
    "ridge" or "boosted": fitted here, on other folds than the episodes they value.
    `clusters` names the independent unit of each episode, such as the patient of a stay, where the logs do not carry
    it. `behavior` are the settings of a behavior model, for the interval "refit". `wrong` says what is wrong with the
    logs, such as `poela.audit(logs).problem`: the verdict is then "do not trust", and says why.
    `reference` are the log weights [n] of what is done now, where several policies made the logs.

    >>> import numpy as np
    >>> from poela import Trajectories
    >>> class Always:
    ...     def probabilities(self, contexts):
    ...         return np.tile([1.0, 0.0], (len(contexts), 1))
    >>> actions = np.arange(40) % 2
    >>> logs = Trajectories(np.zeros((40, 1)), actions, 1.0 - actions, np.arange(41), propensities=np.full(40, 0.5))
    >>> estimate = evaluate(Always(), logs)
    >>> estimate.value, round(estimate.low, 2), estimate.high, estimate.gain.value, estimate.ess
    (1.0, 0.85, 1.0, 0.5, 20.0)
    """
    if isinstance(q, str):
        settings["regressor"] = q
    scoring = replace(scoring, **settings) if scoring is not None else Scoring(**settings)
    if clusters is not None:
        logs = replace(logs, clusters=clusters)  # type: ignore[arg-type]
    _refuse(policy, logs, scoring, q)
    refuse_plain_densities(logs)
    weighted = ESTIMATORS[scoring.estimator].weights != "none"
    support = logged_support(logs) if weighted and logs.knows_logging_policy else None
    given = None if isinstance(q, str) else q
    evaluator = Evaluator(logs, scoring, q=given, behavior=behavior, wrong=wrong, support=support)
    [evidence] = evaluator.evidence([policy])
    estimate = evaluator.estimate(evidence if reference is None else replace(evidence, reference=reference))
    itself = weighted and not logs.estimated and float(np.abs(evidence.weights.log_ratios).max()) < SAME
    return replace(estimate, advice=ITSELF) if itself else estimate


def _refuse(policy: Any, logs: Trajectories, scoring: Scoring, q: Any) -> None:
    chosen = ESTIMATORS[scoring.estimator]
    problems: list[str] = []
    if chosen.weights != "none" and not logs.knows_logging_policy:
        try:
            _ = logs.log_propensities
        except InputError as error:
            problems += error.problems
    if chosen.model == "given" and (q is None or isinstance(q, str)):
        problems.append(
            f"estimator {scoring.estimator!r} averages a model that you give: pass q with a method q(trajectories)"
        )
    problems += [
        *_differences("feature", getattr(policy, "feature_names", None), logs.feature_names),
        *_differences("action", getattr(policy, "action_names", None), logs.action_names),
    ]
    if problems:
        raise InputError(problems)


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
