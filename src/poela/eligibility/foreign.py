"""Rules and distances that come from elsewhere: a function or an object that says what may be done, or who is alike."""

from collections.abc import Callable
from copy import deepcopy
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import BoolArray, Float32Array, FloatArray
from poela.core.errors import InputError
from poela.core.live import stored_live
from poela.core.references import description
from poela.core.storage import Stored
from poela.data.trajectories import Trajectories


class OwnRule:
    """Somebody's rule, fitted on training logs, with what it answers checked; it lives in this process."""

    def __init__(self, rule: Any, n_actions: int, evidence: bytes = b"") -> None:
        self._mask: Callable[[Float32Array], Any] = rule.mask if hasattr(rule, "mask") else rule
        self._words, self.n_actions = description(rule), n_actions
        self.evidence = evidence  # what tells it from others

    @classmethod
    def fitted(cls, rule: Any, train: Trajectories, behavior: Any) -> "OwnRule":
        """Over these logs: of a rule that learns, a copy does."""
        if isinstance(rule, cls):
            return rule
        if callable(getattr(rule, "fit", None)):
            copy = deepcopy(rule)
            learned = copy.fit(train, behavior)
            rule = learned if hasattr(learned, "mask") else copy
        own = cls(rule, train.n_actions)
        return cls(rule, train.n_actions, sha256(own.mask(train.contexts).tobytes()).digest())

    def mask(self, contexts: Float32Array) -> BoolArray:
        """Which actions may be taken [N, A]."""
        answer = np.asarray(self._mask(contexts))
        if answer.shape != (len(contexts), self.n_actions) or answer.dtype != np.bool_:
            raise InputError(
                f"the rule {self} answers with an array of shape {answer.shape} and type {answer.dtype} for "
                f"{len(contexts)} contexts and {self.n_actions} actions: it must return true or false for each action, "
                f"[{len(contexts)}, {self.n_actions}]"
            )
        return answer

    def stored(self) -> Stored:
        """A reference: no file can hold the object itself."""
        return stored_live(self, self.evidence)

    def __repr__(self) -> str:
        return self._words


class OwnScale:
    """Somebody's features in the place of contexts: distances are between these, and so is the search.

    Where distances are means of squares, the mean is over the features that the function gives.
    """

    def __init__(self, function: Callable[[Float32Array], Any], metric: str, contexts: Float32Array) -> None:
        self._function, self._words, self._factor = function, description(function), 1.0
        features = self(contexts)
        self.width = features.shape[1]
        if metric == "mean_squared":
            self._factor = float(np.sqrt(contexts.shape[1] / self.width))
        self.evidence = sha256(self(contexts).tobytes()).digest()

    def __call__(self, contexts: ArrayLike) -> FloatArray:
        """Features [N, k] of contexts [N, d]."""
        rows = np.asarray(contexts, np.float32)
        features = np.asarray(self._function(rows), np.float64)
        right = features.ndim == 2 and len(features) == len(rows) and features.shape[1] > 0
        if not right or not np.isfinite(features).all() or features.shape[1] != getattr(self, "width", len(features.T)):
            raise InputError(
                f"the scale {self} answers with an array of shape {features.shape} for {len(rows)} contexts, or with "
                "NaN or infinity: it must return finite numbers, as many for each context"
            )
        return features * self._factor

    @property
    def key(self) -> tuple[bytes, ...]:
        """What tells two scales apart."""
        return (self.evidence,)

    def stored(self) -> Stored:
        """A reference: no file can hold the function itself."""
        return stored_live(self, self.evidence)

    def __repr__(self) -> str:
        return self._words
