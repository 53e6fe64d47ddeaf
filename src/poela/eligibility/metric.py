"""Squared Euclidean distances on the scale of a rule's metric, and back."""

import numpy as np

from poela.core.arrays import FloatArray


def on_metric_scale(squared: FloatArray, metric: str, n_features: int) -> FloatArray:
    """Squared Euclidean distances as the metric expresses them.

    >>> on_metric_scale(np.array([8.0]), "mean_squared", 2), on_metric_scale(np.array([9.0]), "euclidean", 2)
    (array([4.]), array([3.]))
    """
    return np.sqrt(squared) if metric == "euclidean" else squared / max(n_features, 1)


def squared_from(distance: float, metric: str, n_features: int) -> float:
    """The squared Euclidean distance that is this one on the metric's scale, but for rounding.

    >>> squared_from(4.0, "mean_squared", 2), squared_from(3.0, "euclidean", 2)
    (8.0, 9.0)
    """
    return distance * max(n_features, 1) if metric == "mean_squared" else distance * distance


def largest_squared(distance: float, metric: str, n_features: int) -> float:
    """The largest squared Euclidean distance that is within this one on the metric's scale, to the last bit.

    >>> largest_squared(3.0, "euclidean", 2) >= 9.0
    True
    """
    squared = squared_from(distance, metric, n_features)

    def within(one: float) -> bool:
        return bool(on_metric_scale(np.array(one), metric, n_features) <= distance)

    while np.isfinite(squared) and not within(squared):
        squared = float(np.nextafter(squared, 0.0))
    while np.isfinite(squared) and within(float(np.nextafter(squared, np.inf))):
        squared = float(np.nextafter(squared, np.inf))
    return squared
