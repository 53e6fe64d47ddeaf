"""Whether logged propensities can be those of the logged actions: no model of the context may tell these better."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from poela.behavior.annotation import FLOOR
from poela.behavior.history import MOST_NUMBERS, held_out_likelihoods, mean_and_error, sample_to_fit, standard_errors
from poela.core.arrays import FloatArray, IntArray
from poela.core.readable import plain
from poela.data.folds import fold_numbers
from poela.data.trajectories import Trajectories
from poela.studies.findings_of_audit import Finding, named
from poela.studies.telling_columns import Column, ranks

ERRORS = 4.0  # standard errors by which a model must be better
LEAST_GAIN = 0.01  # nats per step
CHANCE = 2e-4  # that anything at all is held against right propensities by the balance of columns
LEAST_CORRELATION = 0.05  # of a column with what actions have beyond their propensities: less moves weights little
MOST_ACTIONS, MOST_CATEGORIES, MOST_NAMED = 10, 30, 3
FEWEST_UNITS = 50
LATE = (
    "if it was recorded after the decision, leave it out of the context; if not, correct the propensities: they are "
    "not those at the moment of decision"
)
WRONG = (
    "leave out of the context what was recorded after the decision; if nothing was, correct the propensities: they are "
    "not those at the moment of decision"
)


def known_propensities(logs: Trajectories) -> FloatArray | None:
    """The logged probability of every action [N, A], where it follows from what was logged."""
    if logs.propensities is None or logs.estimated:
        return None
    if logs.propensities.ndim == 2:
        return logs.propensities
    if logs.n_actions != 2:
        return None
    of_second = np.where(logs.actions == 1, logs.propensities, 1 - logs.propensities)
    return np.column_stack([1 - of_second, of_second])


def doubted_propensities(logs: Trajectories, columns: Sequence[Column], seed: int) -> list[Finding]:
    """What speaks against the logged propensities; `columns` are those that nothing else was found against."""
    if logs.propensities is None or logs.estimated or logs.n_units < FEWEST_UNITS:
        return []
    known = known_propensities(logs)
    imbalance = Imbalance((), False) if known is None else imbalance_of(logs, known, columns)
    better = _better_model(logs, seed)
    if known is not None and (imbalance.overall or better) and _fits_exchanged(logs, known):
        sentence = "the logged propensities would fit the logged actions better if their columns were exchanged"
        advice = "say which column is for which action (--propensity treat=p_2,wait=p_1)"
        return [Finding("propensities", (), sentence, advice, voids_weights=True)]
    if imbalance.columns:
        sentence = f"{named(imbalance.columns)} predicts the logged action better than its propensity does"
        return [Finding("propensities", imbalance.columns, sentence, LATE, voids_weights=True)]
    if imbalance.overall:
        sentence = "the logged propensities do not match how often actions were taken"
        return [Finding("propensities", (), sentence, WRONG, voids_weights=True)]
    if better and known is None and (named_by_weights := _imbalance(logs, _weighed(logs), columns).columns):
        sentence = f"{named(named_by_weights)} predicts the logged action better than its propensity does"
        return [Finding("propensities", named_by_weights, sentence, LATE, voids_weights=True)]
    if better:
        sentence = (
            "the context predicts the logged actions better than the logged propensities do (held-out likelihood "
            f"{plain(float(f'{better:.2g}'))} nats per step higher)"
        )
        return [Finding("propensities", (), sentence, WRONG, voids_weights=True)]
    return []


def _better_model(logs: Trajectories, seed: int) -> float:
    """By how much the held-out likelihood of a model of the context exceeds that of propensities; 0: not surely."""
    # Each action has trees of its own; so many rows for each must remain.
    width = min((logs.n_features + 2) * max(logs.n_actions, 5) / 2, MOST_NUMBERS / (50 * logs.n_actions))
    sample = sample_to_fit(logs, width, seed)
    if sample is None:
        return 0.0
    quarters = fold_numbers(sample, 4, seed)
    model = held_out_likelihoods(sample, quarters, np.ones(sample.n_episodes, np.bool_), seed)
    gain, error = mean_and_error(model - np.log(np.maximum(sample.logged_propensities, FLOOR)), sample)
    return gain if gain > max(standard_errors(sample.n_units, ERRORS) * error, LEAST_GAIN) else 0.0


@dataclass(frozen=True)
class Imbalance:
    """The columns that go with what was done beyond its propensities, and whether actions do so without any column."""

    columns: tuple[str, ...]
    overall: bool


def imbalance_of(logs: Trajectories, known: FloatArray, columns: Sequence[Column]) -> Imbalance:
    """Where right propensities leave nothing to tell: sums of (taken − probability) × column have mean 0.

    >>> rng = np.random.default_rng(0)
    >>> x, coin = rng.normal(size=2000), rng.random(2000)
    >>> rows = Trajectories(x[:, None], coin < 0.5, x, np.arange(2001), propensities=np.full((2000, 2), 0.5))
    >>> late = Column("late", x + (coin < 0.5), np.zeros(2000, bool))
    >>> imbalance_of(rows, rows.propensities, [Column("x", x, late.empty), late])
    Imbalance(columns=('late',), overall=False)
    """
    order = _usual_actions(logs)
    return _imbalance(logs, (logs.actions[:, None] == order) - known[:, order], columns)


def _usual_actions(logs: Trajectories) -> IntArray:
    return np.asarray(np.argsort(-np.bincount(logs.actions, minlength=logs.n_actions))[:MOST_ACTIONS])


def _weighed(logs: Trajectories) -> FloatArray:
    """Each action's inverse weight less 1, of mean 0 whatever the context: where only the taken action's is known."""
    taken = logs.actions[:, None] == _usual_actions(logs)
    return np.asarray(taken / logs.logged_propensities[:, None] - 1)


def _imbalance(logs: Trajectories, residuals: FloatArray, columns: Sequence[Column]) -> Imbalance:
    from scipy.stats import norm

    unit_of_step = logs.units[logs.episode_of_step]
    limit = standard_errors(logs.n_units, float(norm.isf(CHANCE / 2 / (residuals.shape[1] * (3 * len(columns) + 1)))))
    overall = _correlation(residuals, np.ones((logs.n_steps, 1)), unit_of_step, limit) > LEAST_CORRELATION
    found = {c.name: _correlation(residuals, _moments(c), unit_of_step, limit) for c in columns}
    telling = sorted((name for name in found if found[name] > LEAST_CORRELATION), key=lambda name: -found[name])
    return Imbalance(tuple(telling[:MOST_NAMED]), overall)


def _moments(column: Column) -> FloatArray:
    """A column as few numbers of mean 0: its rank and the square of it, each category, and where it is empty."""
    if column.is_text:
        features = (column.levels[:, None] == np.arange(min(column.levels.max() + 1, MOST_CATEGORIES))).astype(float)
    else:
        rank = ranks(column.values) - 0.5
        features = np.column_stack([rank, np.square(rank), column.empty])
    return np.asarray(features - features.mean(axis=0))


def _correlation(residuals: FloatArray, features: FloatArray, units: IntArray, limit: float) -> float:
    """The largest correlation of a residual with a feature that lies beyond so many standard errors; 0: none does."""
    largest, count = 0.0, int(units.max()) + 1
    for residual in residuals.T:
        for feature in features.T:
            products = residual * feature
            of_unit = np.bincount(units, products, count)
            error = np.sqrt(np.square(of_unit - of_unit.mean()).sum())
            scale = np.sqrt(np.square(residual).sum() * np.square(feature).sum())
            if scale > 0 and abs(of_unit.sum()) > limit * error and np.count_nonzero(products) >= FEWEST_UNITS:
                largest = max(largest, abs(float(products.sum())) / scale)
    return largest


def _fits_exchanged(logs: Trajectories, known: FloatArray) -> bool:
    """Whether another assignment of columns to actions makes the logged actions likelier, by more than chance."""
    from scipy.optimize import linear_sum_assignment

    likelihoods = np.log(np.maximum(known, FLOOR))
    scores = np.zeros((logs.n_actions, logs.n_actions))
    np.add.at(scores, logs.actions, likelihoods)
    best = linear_sum_assignment(scores, maximize=True)[1]
    gain = (
        np.take_along_axis(likelihoods, best[logs.actions][:, None], 1)[:, 0]
        - likelihoods[np.arange(logs.n_steps), logs.actions]
    )
    mean, error = mean_and_error(gain, logs)
    return bool(mean > max(ERRORS * error, LEAST_GAIN))
