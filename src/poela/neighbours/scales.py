"""What distances see of features: each one multiplied, or first turned into robust scores."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poela.core.arrays import BoolArray, Float32Array, FloatArray, readonly
from poela.core.errors import InputError
from poela.core.storage import Stored
from poela.core.validation import LARGEST, expect_array, refuse

MOST_KNOTS = 33
MOST_FACTOR = 1e20  # of robust scores, in a file
MOST_SCORE = 100.0  # of a knot in a file; normal scores of a billion rows end at 6
STEEPEST = 1e50  # of a line between knots: float32 values on it, squared, are finite in float64
INDICATOR = float(np.sqrt(0.5))  # so that two indicators of a category that differ count 1 together
NEW_VALUE = 1e-6  # how far from a constant, relative to it, a value counts as another one


class Scaling(Protocol):
    """What a rule says about how features are measured."""

    @property
    def scale(self) -> str | Sequence[float] | Callable[..., Any] | None:
        """The name of a scale, or divisors, one for each feature; a function has a class of its own."""

    @property
    def metric(self) -> str:
        """The name of the distance."""

    @property
    def weights(self) -> Sequence[float] | None:
        """How much each feature counts."""


@dataclass(frozen=True, eq=False)
class FeatureScale:
    """Features as distances see them: `factors` times the features or, with knots, times their scores.

    Scores are linear between knots. Beyond the ends they go on as steeply as from the median to the end.

    >>> FeatureScale(np.array([2.0]))(np.array([[3.0]], np.float32))
    array([[6.]])
    >>> robust = FeatureScale(np.ones(1), knots=np.array([[0.0, 1.0, 9.0]]), scores=np.array([[-1.0, 0.0, 1.0]]))
    >>> robust(np.array([[0.5], [5.0], [17.0], [-1.0]], np.float32)).ravel()
    array([-0.5,  0.5,  2. , -2. ])
    """

    factors: FloatArray  # [d]
    knots: FloatArray | None = None  # [d, K], ascending; the last one of a feature with fewer is repeated
    scores: FloatArray | None = None  # [d, K]

    @classmethod
    def of(cls, rule: Scaling, contexts: Float32Array) -> "FeatureScale":
        """The scale that a rule asks for, fitted on training contexts."""
        n_features = contexts.shape[1]
        factors, curve = np.ones(n_features), None
        if rule.scale == "standard":
            spread = contexts.std(axis=0, dtype=np.float64)
            factors /= np.where(spread > 0, spread, 1.0)  # a constant feature says nothing in the training data
        elif rule.scale == "robust":
            curve = _curve(contexts)
            spread = cls(factors, *curve)(contexts).var(axis=0).sum()
            if rule.metric == "mean_squared" and spread > 0:
                # Means are taken over what varies: a feature that hardly ever does makes nobody nearer.
                factors *= np.sqrt(n_features / spread)
        elif rule.scale is not None:
            assert not callable(rule.scale)
            factors /= np.array(rule.scale, np.float64)
        if rule.weights is not None:
            factors *= np.sqrt(np.array(rule.weights, np.float64))
        return cls(readonly(factors, np.float64), *(curve or ()))

    def __call__(self, contexts: ArrayLike) -> FloatArray:
        """Contexts [N, d] as the distance sees them, in float64."""
        values = np.asarray(contexts, np.float32).astype(np.float64)
        if self.knots is None:
            return np.asarray(values * self.factors)
        starts, scores, slopes = self.lines
        result = np.empty(values.shape)
        for feature, knots in enumerate(self.knots):
            line = np.searchsorted(knots, values[:, feature], side="right")
            way = (values[:, feature] - starts[line, feature]) * slopes[line, feature]
            result[:, feature] = (scores[line, feature] + way) * self.factors[feature]
        return result

    @cached_property
    def lines(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The line below the first knot, those from each knot to the next, and beyond: starts, scores there, slopes.

        Each [K + 1, d]; the line of a value is the number of knots that are not above it.
        """
        assert self.knots is not None
        assert self.scores is not None
        x, y = self.knots.T, self.scores.T
        last, features = len(x) - 1, np.arange(x.shape[1])
        slopes = np.zeros((len(x) + 1, x.shape[1]))
        slopes[1:-1] = _slopes(x[:-1], y[:-1], x[1:], y[1:])
        middle = np.abs(y).argmin(axis=0)
        # Not beside the end itself: a chord to the next different knot.
        below = np.minimum(middle, np.maximum((x < x[-1]).sum(axis=0) - 1, 0))
        above = np.maximum(middle, np.minimum(1, last))
        slopes[0] = _slopes(x[0], y[0], x[above, features], y[above, features])
        slopes[-1] = _slopes(x[below, features], y[below, features], x[-1], y[-1])
        return np.vstack([x[:1], x]), np.vstack([y[:1], y]), slopes

    @property
    def key(self) -> tuple[bytes, ...]:
        """What tells two scales apart."""
        return tuple(array.tobytes() for array in self.arrays.values())

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """What a file holds, by name."""
        robust = {"knots": self.knots, "scores": self.scores}
        return {"factors": self.factors, **{name: array for name, array in robust.items() if array is not None}}

    @classmethod
    def from_stored(cls, stored: Stored, n_features: int) -> "FeatureScale":
        """From a file: numbers by which distances neither vanish nor overflow."""
        factors = expect_array(stored, "factors", np.float64, (n_features,), low=0)
        least = float(factors[factors > 0].min(initial=LARGEST))
        if least < max(1.0, factors.max(initial=0.0)) / LARGEST:
            limit = f"{1 / LARGEST:g}, and {1 / LARGEST:g} of the largest, or more"
            refuse("the smallest positive of factors", least, limit)
        if "knots" not in stored.arrays:
            return cls(factors)
        knots = expect_array(stored, "knots", np.float64, (n_features, None))
        scores = expect_array(stored, "scores", np.float64, knots.shape, low=-MOST_SCORE, high=MOST_SCORE)
        if not 2 <= knots.shape[1] <= MOST_KNOTS or factors.max(initial=0.0) > MOST_FACTOR:
            raise InputError(f"a robust scale has 2 to {MOST_KNOTS} knots, and factors up to {MOST_FACTOR:g}")
        rises = np.diff(knots, axis=1), np.diff(scores, axis=1)
        if any((rise < 0).any() for rise in rises) or ((rises[0] == 0) & (rises[1] > 0)).any():
            raise InputError("knots and their scores must rise together")
        scale = cls(factors, knots, scores)
        if scale.lines[2].max(initial=0.0) > STEEPEST:
            raise InputError("knots lie too near each other")
        return scale


def names_of_scale(rule: Scaling) -> tuple[str, ...]:
    """The arrays by which a file holds the scale of a rule.

    >>> from poela.eligibility.rules import Eligibility
    >>> names_of_scale(Eligibility(scale="standard"))
    ('factors',)
    """
    return ("factors", "knots", "scores") if rule.scale == "robust" else ("factors",)


@dataclass(frozen=True, eq=False)
class FeatureRange:
    """The least and the largest value of each feature in the training log.

    >>> logged = np.array([[0.0, 5.0], [1.0, 5.0]], np.float32)
    >>> FeatureRange.of(logged)(np.array([[0.5, 5.0], [0.5, 6.0]], np.float32))
    array([ True, False])
    """

    low: Float32Array  # [d]
    high: Float32Array  # [d]

    @classmethod
    def of(cls, contexts: Float32Array) -> "FeatureRange":
        """Of training contexts."""
        return cls(readonly(contexts.min(axis=0), np.float32), readonly(contexts.max(axis=0), np.float32))

    def __call__(self, contexts: Float32Array) -> BoolArray:
        """Whether every feature of contexts [N, d] lies within."""
        return np.asarray(((contexts >= self.low) & (contexts <= self.high)).all(axis=1))

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """What a file holds, by name."""
        return {"low": self.low, "high": self.high}

    @classmethod
    def from_stored(cls, stored: Stored, n_features: int) -> "FeatureRange":
        """From a file."""
        low, high = (expect_array(stored, name, np.float32, (n_features,)) for name in ("low", "high"))
        if (low > high).any():
            raise InputError("low must not be above high")
        return cls(low, high)


def _curve(contexts: Float32Array) -> tuple[FloatArray, FloatArray]:
    """Knots and scores [d, K] of a robust scale."""
    curves = [_curve_of(column) for column in contexts.T.astype(np.float64)]
    width = max((len(knots) for knots, _ in curves), default=2)
    padded = [[np.pad(line, (0, width - len(line)), mode="edge") for line in curve] for curve in curves]
    stacked = np.array(padded, np.float64).reshape(len(curves), 2, width)
    return readonly(stacked[:, 0], np.float64), readonly(stacked[:, 1], np.float64)


def _curve_of(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Knots and scores of one feature: normal scores of ranks, but parts that are bounded where it has two values.

    >>> _curve_of(np.array([1.0, 3.0, 3.0, 7.0]))[1].round(2)
    array([-1.15,  0.  ,  1.15])
    >>> _curve_of(np.array([0.0, 0.0, 1.0]))[1].round(2)
    array([0.  , 0.71])
    """
    from scipy.special import ndtri

    distinct, counts = np.unique(values + 0.0, return_counts=True)
    if len(distinct) == 1:
        # Another value is news: it counts like another category, and more the farther it is.
        gap = max(NEW_VALUE * abs(distinct[0]), 1e-30)
        unit = max(abs(distinct[0]), 1.0)
        steps = np.array([-unit - gap, -gap, 0.0, gap, unit + gap])
        return distinct[0] + steps, np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    if len(distinct) == 2:
        return distinct, np.array([0.0, INDICATOR])
    scores = ndtri((counts.cumsum() - counts / 2) / len(values))
    wanted = np.linspace(scores[0], scores[-1], MOST_KNOTS)
    after = np.clip(np.searchsorted(scores, wanted), 1, len(scores) - 1)
    nearest = np.where(wanted - scores[after - 1] <= scores[after] - wanted, after - 1, after)
    kept = np.unique(nearest) if len(distinct) > MOST_KNOTS else np.arange(len(distinct))
    return distinct[kept], scores[kept]


def _slopes(x: FloatArray, y: FloatArray, to_x: FloatArray, to_y: FloatArray) -> FloatArray:
    """Of lines between points; 0 where these are one."""
    return np.divide(to_y - y, to_x - x, out=np.zeros(np.shape(x)), where=to_x > x)
