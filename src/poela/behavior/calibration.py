"""How far estimated probabilities can be believed: likelihood, Brier score, reliability, and one temperature."""

from dataclasses import dataclass

import numpy as np

from poela.core.arrays import BoolArray, FloatArray, IntArray, readonly

BINS = 10
MOST_TEMPERATURE = 20.0


@dataclass(frozen=True, eq=False)
class Reliability:
    """A reliability curve: in each bin of predicted probability, the mean prediction and how often it came true.

    Only bins that hold predictions are listed.
    """

    predicted: FloatArray
    observed: FloatArray
    counts: IntArray

    @property
    def error(self) -> float:
        """The gap between prediction and observation, averaged over predictions."""
        return float(np.average(np.abs(self.predicted - self.observed), weights=self.counts))


@dataclass(frozen=True, eq=False)
class Calibration:
    """How well probabilities of actions fit the actions taken (by episodes the model never saw, to be honest)."""

    log_likelihood: float  # mean log probability of the logged action, per step; −inf where one had probability 0
    brier: float  # mean squared distance of the row from the logged action's indicator: 0 best, 2 worst
    top_action: Reliability  # of the likeliest action alone
    every_action: Reliability  # of every action's probability: what importance weights depend on

    @property
    def expected_calibration_error(self) -> float:
        """Of the likeliest action, in equal-width bins (Guo et al. 2017)."""
        return self.top_action.error

    def __str__(self) -> str:
        return (
            f"log likelihood {self.log_likelihood:.3f} per step, Brier score {self.brier:.3f}, "
            f"expected calibration error {self.expected_calibration_error:.3f}"
        )


def calibration(probabilities: FloatArray, actions: IntArray, bins: int = BINS) -> Calibration:
    """Compare probabilities [N, A] with the actions [N] that were taken.

    >>> print(calibration(np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([0, 1])))
    log likelihood -0.693 per step, Brier score 0.500, expected calibration error 0.000
    """
    rows = np.asarray(probabilities, np.float64)
    steps = np.arange(len(rows))
    taken = np.zeros(rows.shape, np.bool_)
    taken[steps, actions] = True
    top = rows.argmax(axis=1)
    with np.errstate(divide="ignore"):
        log_likelihood = float(np.log(rows[taken]).mean())
    return Calibration(
        log_likelihood=log_likelihood,
        brier=float(((rows - taken) ** 2).sum(axis=1).mean()),
        top_action=reliability(rows[steps, top], top == actions, bins),
        every_action=reliability(rows.ravel(), taken.ravel(), bins),
    )


def reliability(predicted: FloatArray, happened: BoolArray, bins: int = BINS) -> Reliability:
    """The reliability curve over equal-width bins of [0, 1].

    >>> curve = reliability(np.array([0.1, 0.3, 0.3]), np.array([False, True, False]), bins=2)
    >>> curve.observed.round(3).tolist(), curve.counts.tolist()
    ([0.333], [3])
    """
    place = bin_of(predicted, bins)
    counts = np.bincount(place, minlength=bins)
    filled = counts > 0
    totals = counts[filled]
    return Reliability(
        predicted=readonly(np.bincount(place, predicted, bins)[filled] / totals, np.float64),
        observed=readonly(np.bincount(place, happened, bins)[filled] / totals, np.float64),
        counts=readonly(totals, np.int64),
    )


def bin_of(predicted: FloatArray, bins: int = BINS) -> IntArray:
    """The bin of each prediction; one on the edge of two belongs to the lower, as in scikit-learn's calibration_curve.

    >>> bin_of(np.array([0.05, 0.1, 0.11])).tolist()
    [0, 0, 1]
    """
    return np.asarray(np.searchsorted(np.linspace(0, 1, bins + 1)[1:-1], predicted), np.int64)


def tempered(probabilities: FloatArray, temperature: float) -> FloatArray:
    """Rows to the power 1 / temperature, made to sum to 1; a zero stays zero.

    >>> tempered(np.array([[0.8, 0.2, 0.0]]), 0.5).round(3)
    array([[0.941, 0.059, 0.   ]])
    """
    with np.errstate(divide="ignore"):
        logs = np.log(probabilities) / temperature
    powers = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def best_temperature(probabilities: FloatArray, actions: IntArray) -> float:
    """The temperature (between 1/20 and 20) under which the taken actions are likeliest (Guo et al. 2017).

    No temperature helps a logged action of probability 0, so such steps are left out.

    >>> best_temperature(np.array([[0.9, 0.1]] * 4), np.array([0, 0, 0, 1])).__round__(3)
    2.0
    """
    from scipy.optimize import minimize_scalar

    logged = probabilities[np.arange(len(actions)), actions]
    rows, logged = probabilities[logged > 0], logged[logged > 0]
    if not len(rows) or (rows.max(axis=1) == 1).all():
        return 1.0
    with np.errstate(divide="ignore"):
        logs = np.log(rows)
    log_logged = np.log(logged)

    def loss(log_temperature: float) -> float:
        inverse = np.exp(-log_temperature)
        return float((np.logaddexp.reduce(logs * inverse, axis=1) - log_logged * inverse).mean())

    limit = np.log(MOST_TEMPERATURE)
    minimum = minimize_scalar(loss, bounds=(-limit, limit), method="bounded", options={"xatol": 1e-6})
    return float(np.exp(minimum.x))
