"""Whether logged log densities can be those of the logged actions: any other density over them has mean 1."""

from collections.abc import Callable

import numpy as np
from scipy.spatial import cKDTree

from poela.behavior.gaussian import GaussianBehavior, GaussianModel, least_squares
from poela.core.log_cache import cached
from poela.core.readable import plain
from poela.data.folds import fold_numbers
from poela.data.trajectories import Trajectories
from poela.stats.diagnostics import mean_weight, pareto_k

FOLDS = 5
FEWEST_UNITS = 50  # with fewer, a mean ratio says little
MOST_COUNTED = 20.0  # larger ratios count as this much: the mean is then at most 1, whatever the tails
LIMIT = 1.4  # by what factor a mean ratio may differ
ERRORS = 4.0  # and by how many standard errors it must
HEAVY = 0.7  # Pareto k from which a mean below 1 may be a tail that was not seen
Fit = Callable[[Trajectories], GaussianModel]


def density_problem(logs: Trajectories) -> str:
    """What is wrong with the log densities, in one sentence; empty where nothing can be said against them.

    The densities of a Gaussian model, cross-fitted, over those that actions were drawn from have mean 1. A mean above 1
    is proof, once large ratios are cut off. One below may be the model's fault: it is held against the logs only where
    a network finds the same, by what it expects near logged actions, and the ratios have no heavy tail.

    >>> rng = np.random.default_rng(0)
    >>> doses, rows = rng.normal(size=(400, 1)), np.zeros((400, 1))
    >>> right = -0.5 * (doses[:, 0] ** 2 + np.log(2 * np.pi))
    >>> logs = Trajectories(rows, doses, np.zeros(400), np.arange(401), log_densities=right)
    >>> density_problem(logs), density_problem(logs.with_log_densities(right - 3))[:53]
    ('', 'the logged log densities cannot be those of these 400')
    """
    if logs.log_densities is None or logs.estimated:
        return ""
    if logs.n_units < FEWEST_UNITS or logs.n_steps < 10 * (logs.n_features + 1):
        return ""
    return cached(logs, "density problem", None, lambda: _problem(logs))


def _problem(logs: Trajectories) -> str:
    mean = 1.0
    for fit in (least_squares, GaussianBehavior().fit_quietly):
        mean, wrong = _mean_ratio(logs, fit)
        if not wrong:
            return ""
        if mean > 1:
            break
    return (
        f"the logged log densities cannot be those of these {logs.n_steps:,} actions (a Gaussian model's densities "
        f"over theirs have mean {plain(mean)}, where 1 is due): check that column, which must hold the natural "
        "logarithm of the density that each logged action had"
    )


def _mean_ratio(logs: Trajectories, fit: Fit) -> tuple[float, bool]:
    """The mean ratio, and whether it is too far from 1 to be chance, or the fault of the model."""
    fold_of = fold_numbers(logs.units, FOLDS, 0)
    models = [fit(logs.take(fold_of != fold)) for fold in range(FOLDS)]
    fold_of_step, unit_of_step = fold_of[logs.episode_of_step], np.asarray(logs.units)[logs.episode_of_step]
    log_ratios = -logs.log_propensities
    for fold, model in enumerate(models):
        here = fold_of_step == fold
        log_ratios[here] += model.log_density(logs.contexts[here], logs.actions[here])
    mean, _ = mean_weight(log_ratios)
    cut, above = mean_weight(np.minimum(log_ratios, np.log(MOST_COUNTED)), unit_of_step)
    if cut > LIMIT:
        return mean, above > ERRORS
    if mean > 1 / LIMIT or pareto_k(log_ratios) > HEAVY:
        return mean, False
    due = np.mean([_share_near(model, logs) for model in models])
    with np.errstate(divide="ignore"):
        share, below = mean_weight(log_ratios - np.log(due), unit_of_step)
    return mean, share < 1 / LIMIT and below < -ERRORS


def _share_near(model: GaussianModel, logs: Trajectories) -> float:
    """How much of a model lies near logged actions, as near as these lie to each other: gaps in them are no fault."""
    logged = model.standardised(logs.actions)
    drawn = model.standardised(model.sample(logs.contexts, np.random.default_rng(0)))
    tree = cKDTree(logged)
    apart = np.quantile(tree.query(logged, k=2)[0][:, 1], 0.99)
    return float((tree.query(drawn)[0] <= 2 * apart).mean())
