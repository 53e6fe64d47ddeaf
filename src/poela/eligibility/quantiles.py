"""Radii and reaches that the logs teach, so that nobody need know the scale of the data: `radius="q50"`.

The distances are those from training contexts to the nearest context with each action in *other* episodes, and other
clusters of them. At the radius q50, half of all pairs of context and action have a precedent, within the radius, there.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from poela.core.arrays import FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.log_cache import cached
from poela.core.typed import Check
from poela.data.folds import fold_numbers
from poela.data.trajectories import Trajectories
from poela.neighbours.scales import FeatureScale

if TYPE_CHECKING:
    from poela.eligibility.rules import Eligibility

FOLDS = 5
ROOM = 1.5  # new cases may be so much farther from their nearest than logged ones are, as Euclidean distances
MOST_CONTEXTS = 5000  # asked in each fold; quantiles of more are no different


def quantile_of(radius: float | str) -> float | None:
    """The share that a radius such as "q50" asks for; None where it is none.

    >>> quantile_of("q50"), quantile_of(0.1)
    (0.5, None)
    """
    if not isinstance(radius, str) or not re.fullmatch(r"q[0-9]{1,3}(\.[0-9]{1,9})?", radius):
        return None
    share = float(radius[1:]) / 100
    return share if share <= 1 else None


def _radius_problem(radius: Any) -> str | None:
    number = isinstance(radius, int | float | np.integer | np.floating) and not isinstance(radius, bool)
    if (number and (0 <= radius < 1e308 or radius == np.inf)) or quantile_of(radius) is not None:
        return None
    return "it must be a number, at least 0, or a quantile from 'q0' to 'q100'"


def _reach_problem(reach: Any) -> str | None:
    if reach == "auto" or (quantile_of(reach) is None and _radius_problem(reach) is None and reach < np.inf):
        return None
    return "it must be a number, at least 0, or 'auto'"


RadiusSetting = Annotated[float | str, Check(_radius_problem)]
ReachSetting = Annotated[float | str, Check(_reach_problem)]


def with_numeric_radius(rule: "Eligibility", train: Trajectories) -> "Eligibility":
    """The rule with a quantile replaced by the distance that it is on these training logs.

    >>> logs = Trajectories([[0.0], [2.0], [3.0]], [0, 1, 0], [0, 0, 0], [0, 2, 3])
    >>> from poela.eligibility.rules import Eligibility
    >>> with_numeric_radius(Eligibility(radius="q100"), logs).radius
    9.0
    """
    share = None if rule.radius is None else quantile_of(rule.radius)
    if share is None:
        return rule
    if train.n_units < 2:  # nothing can be said about distances to others: only equal contexts count
        return replace(rule, radius=0.0)
    return replace(rule, radius=float(np.quantile(action_distances(train, rule), share)))


def with_numeric_reach(rule: "Eligibility", train: Trajectories) -> "Eligibility":
    """The rule with the reach "auto" replaced by the distance that it is on these training logs.

    >>> logs = Trajectories([[0.0], [2.0], [3.0]], [0, 1, 0], [0, 0, 0], [0, 1, 2, 3])
    >>> from poela.eligibility.rules import Eligibility
    >>> with_numeric_reach(Eligibility(reach="auto", metric="euclidean"), logs).reach
    3.0
    """
    if rule.reach != "auto":
        return rule
    if train.n_units < 2:
        return replace(rule, reach=0.0)
    nearest = _to_others(train, rule).min(axis=1)
    farthest = _finite(nearest, "so a reach cannot be 'auto'").max()
    return replace(rule, reach=float(farthest * (ROOM if rule.metric == "euclidean" else ROOM**2)))


def distances_to_others(
    train: Trajectories, ask: Callable[[Trajectories, Trajectories, IntArray], FloatArray]
) -> FloatArray:
    """What `ask` says of rows of held-out episodes beside all others, fold by fold; clusters stay together."""
    rng = np.random.default_rng(0)
    folds = min(FOLDS, train.n_units)
    fold_of, found = fold_numbers(train, folds, rng), []
    for fold in range(folds):
        held_out = train.take(fold_of == fold)
        rows = np.sort(rng.permutation(held_out.n_steps)[: MOST_CONTEXTS // folds])
        found.append(ask(train.take(fold_of != fold), held_out, rows))
    return np.concatenate(found)


def action_distances(train: Trajectories, rule: "Eligibility") -> FloatArray:
    """Distances from training contexts to the nearest context with each logged action in other episodes, sorted."""
    return np.sort(_finite(_to_others(train, rule).ravel(), "so a radius cannot be a quantile"))


def _to_others(train: Trajectories, rule: "Eligibility") -> FloatArray:
    """The distances [N, A] themselves, for some training contexts; worked out once for each log."""
    measure = rule.measure if rule.search == "sample" else replace(rule.measure, search="exact")

    # Robust scales are those of the whole log: to the others, its one odd value would lie far beyond the ends.
    whole = FeatureScale.of(measure, train.contexts) if rule.scale == "robust" else None

    def asked(others: Trajectories, held_out: Trajectories, rows: IntArray) -> FloatArray:
        fitted = (measure if whole is None else replace(measure, scale=None)).fit(others)
        if whole is not None and fitted.logged is not None:
            fitted = replace(fitted, logged=replace(fitted.logged, scale=whole))
        return fitted.distances(held_out.contexts[rows], held_out.step_numbers[rows])

    return cached(train, ("distances to others", measure), None, lambda: distances_to_others(train, asked))


def _finite(distances: FloatArray, so: str) -> FloatArray:
    """Those to what there is: an action may never occur in the other folds."""
    finite = distances[np.isfinite(distances)]
    if not len(finite):
        raise InputError(f"no action occurs in two episodes, {so}: give it as a number")
    return finite
