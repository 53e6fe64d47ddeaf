"""Which actions may be taken, worked out for some contexts."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray, first_bad
from poela.core.errors import InputError
from poela.data.decision_rows import has_columns, loose_contexts
from poela.data.limits import LimitsInContexts, within
from poela.data.schema import TableSchema
from poela.data.words import counted

if TYPE_CHECKING:
    from poela.eligibility.fitted import FittedEligibility

# Squared Euclidean distances on the scale of a rule's metric, and back.


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


# Contexts that a rule is asked about, checked.


def refuse_closed(limits: LimitsInContexts | None, contexts: Float32Array) -> None:
    """Refuse contexts at which every action is forbidden: no distribution over actions can be given."""
    if limits is None:
        return
    closed: BoolArray = np.asarray(~limits.allowed(contexts).any(axis=1))
    if closed.any():
        count, first = first_bad(closed)
        raise InputError(
            f"no action is allowed in {counted(count, 'row')}, first at row {first}: decide() defers such cases; leave "
            "them out here"
        )


def checked_contexts(
    rule: "FittedEligibility", contexts: ArrayLike, steps: ArrayLike | None
) -> tuple[Float32Array, IntArray | None]:
    """Contexts as a matrix and, where the rule asks for them, step numbers; or one clear sentence."""
    if has_columns(contexts):
        contexts = loose_contexts(contexts, rule.schema or TableSchema.plain(rule.feature_names))
    checked = np.asarray(contexts, np.float32)
    if checked.ndim != 2 or checked.shape[1] != len(rule.feature_names):
        names = ", ".join(rule.feature_names[:5]) + (", …" if len(rule.feature_names) > 5 else "")
        raise InputError(
            f"contexts must have shape (rows, {len(rule.feature_names)}) with the features {names}, not {checked.shape}"
        )
    bad = ~np.isfinite(checked)
    if bad.any():
        count, first = first_bad(bad)
        raise InputError(f"{count} contexts hold NaN or infinity, first at row {first}: fill them in")
    if rule.settings.neighbours == "pooled":
        return checked, None
    if steps is None:
        raise InputError("this rule compares contexts of the same step: give the step numbers (steps=...)")
    numbers = np.asarray(steps)
    if numbers.shape != (len(checked),) or not np.issubdtype(numbers.dtype, np.integer):
        raise InputError(f"steps must be {len(checked)} whole numbers, one for each context")
    return checked, numbers.astype(np.int64)


# Where nothing is eligible: which action is the nearest to being so.


def nearness_where_stranded(
    rule: "FittedEligibility",
    contexts: Float32Array,
    distances: FloatArray | None,
    probabilities: FloatArray | None,
    probable: BoolArray,
    here: IntArray,
) -> FloatArray:
    """What the fallback "nearest" makes smallest: the distance (of probable actions, where such were logged).

    Without distances it is the probability, negated. `here` are the places of m stranded contexts; the distances of
    these and the result are [m, A].
    """
    if distances is None or rule.logged is None:
        return np.zeros((len(here), rule.n_actions)) if probabilities is None else -probabilities[here]
    nearness = np.where(probable[here], distances, np.inf)
    nearness = np.where(np.isfinite(nearness).any(axis=1, keepdims=True), nearness, distances)
    unknown = np.isinf(nearness).all(axis=1)
    if unknown.any():
        # A step number that was never logged: the nearest over all steps.
        pooled = rule.logged.pooled().squared_distances(contexts[here[unknown]], None)
        nearness[unknown] = rule.on_metric_scale(pooled)
    return nearness


@dataclass(frozen=True, eq=False)
class Eligible:
    """What may be done at each of N contexts."""

    mask: BoolArray  # [N, A], at least one action in each row
    stranded: BoolArray  # [N], nothing passed the rule: the fallback acted
    penalty: FloatArray | None = None  # [N, A], what scores lose where support is missing and has a price
    behavior: FloatArray | None = None  # [N, A], to be followed on stranded rows (fallback "behavior"); 0 on others

    def within(self, allowed: BoolArray) -> "Eligible":
        """The same where only some actions are allowed [N, A]; where none is, everything stands, and is deferred.

        >>> eligible = Eligible(np.array([[True, True], [False, True]]), np.array([False, True]))
        >>> eligible.within(np.array([[False, True], [True, False]])).mask
        array([[False,  True],
               [ True, False]])
        """
        mask = self.mask & allowed
        mask = np.where(mask.any(axis=1, keepdims=True), mask, allowed)
        mask = np.where(mask.any(axis=1, keepdims=True), mask, True)
        followed = None if self.behavior is None else np.where(self.stranded[:, None], within(self.behavior, mask), 0.0)
        return replace(self, mask=mask, behavior=followed)

    @property
    def free(self) -> BoolArray:
        """What costs nothing [N, A]: for those who take the best action alone, and weigh nothing against a price.

        >>> everything, none = np.ones((2, 2), bool), np.zeros(2, bool)
        >>> Eligible(everything, none, np.array([[0.0, 1.5], [2.0, 1.0]])).free
        array([[ True, False],
               [ True,  True]])
        """
        if self.penalty is None:
            return self.mask
        unpriced = self.mask & (self.penalty == 0)
        return np.asarray(np.where(unpriced.any(axis=1, keepdims=True), unpriced, self.mask))

    @property
    def n_stranded(self) -> int:
        """How many contexts the fallback acted on."""
        return int(self.stranded.sum())
