"""Radii as quantiles, so that nobody need know the scale of the data: `radius="q50"`.

The distances are those from training contexts to the nearest context with each action in *other* episodes. At the
radius q50, half of all pairs of context and action have a precedent, within the radius, in another episode.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import Eligibility
from poela.studies.candidates import Candidate

FOLDS = 5
MOST_CONTEXTS = 5000  # asked in each fold; quantiles of more are no different
RULE_FIELDS = ("metric", "scale", "neighbours")  # what distances depend on, beside the weights


def quantile_of(radius: Any) -> float | None:
    """The share that a radius such as "q50" asks for; None where it is a plain number.

    >>> quantile_of("q50"), quantile_of(0.1)
    (0.5, None)
    """
    if not isinstance(radius, str):
        return None
    try:
        share = float(radius.removeprefix("q")) / 100
    except ValueError:
        share = -1.0
    if not radius.startswith("q") or not 0 <= share <= 1:
        raise InputError(f"radius {radius!r} is neither a number nor a quantile from 'q0' to 'q100'")
    return share


def action_distances(train: Trajectories, rule: Eligibility) -> FloatArray:
    """Distances from training contexts to the nearest context with each logged action in other episodes, sorted."""
    rng = np.random.default_rng(0)
    folds = min(FOLDS, train.n_episodes)
    if folds < 2:
        raise InputError("a radius as a quantile needs at least 2 training episodes: give it as a number")
    fold_of = rng.permutation(np.arange(train.n_episodes) % folds)
    found = []
    for fold in range(folds):
        asked = train.take(fold_of == fold)
        rows = np.sort(rng.permutation(asked.n_steps)[: MOST_CONTEXTS // folds])
        fitted = rule.fit(train.take(fold_of != fold))
        found.append(fitted.distances(asked.contexts[rows], asked.step_numbers[rows]).ravel())
    distances = np.concatenate(found)
    finite = distances[np.isfinite(distances)]  # an action may never occur in the other folds
    if not len(finite):
        raise InputError("no action occurs in two episodes, so a radius cannot be a quantile: give it as a number")
    return np.sort(finite)


def with_numeric_radii(candidates: Sequence[Candidate], train: Trajectories) -> tuple[Candidate, ...]:
    """The candidates with every quantile replaced by the distance that it is on these training logs.

    >>> logs = Trajectories([[0.0], [2.0], [3.0]], [0, 1, 0], [0, 0, 0], [0, 2, 3])
    >>> print(*with_numeric_radii([Candidate("poela", {"radius": "q100"})], logs))
    poela radius=9
    """
    known: dict[Eligibility, FloatArray] = {}

    def number(settings: Mapping[str, Any], weights: Any) -> float:
        share = quantile_of(settings["radius"])
        if share is None:
            return float(settings["radius"])
        rule = Eligibility(
            radius=0.0, weights=weights, **{name: settings[name] for name in RULE_FIELDS if name in settings}
        )
        if rule not in known:
            known[rule] = action_distances(train, rule)
        return float(np.quantile(known[rule], share))

    def resolved(candidate: Candidate) -> Candidate:
        settings = candidate.settings
        if settings.get("radius") is not None:
            return candidate.with_settings(radius=number(settings, settings.get("feature_weights")))
        rule = settings.get("rule")
        if rule and rule.get("radius") is not None:
            return candidate.with_settings(rule={**rule, "radius": number(rule, rule.get("weights"))})
        return candidate

    return tuple(resolved(candidate) for candidate in candidates)
