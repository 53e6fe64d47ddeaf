"""Mean and spread of training features, for models that need them on one scale."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poela.core.arrays import Float32Array, FloatArray, readonly
from poela.core.storage import Stored
from poela.core.validation import LARGEST, expect_array


@dataclass(frozen=True, eq=False)
class Scaling:
    """Features minus their training mean, over their training spread; constant features are left at spread 1.

    >>> scaling = Scaling.of(np.array([[1.0, 7.0], [3.0, 7.0]], np.float32))
    >>> scaling.apply(np.array([[3.0, 8.0]], np.float32))
    array([[1., 1.]])
    """

    mean: FloatArray
    spread: FloatArray

    @classmethod
    def of(cls, contexts: Float32Array) -> "Scaling":
        """The scaling that these training contexts give."""
        mean, spread = contexts.mean(axis=0, dtype=np.float64), contexts.std(axis=0, dtype=np.float64)
        # Rounding leaves a constant feature a spread near 1e-8 of its size, which must not be divided by.
        constant = spread <= 1e-7 * np.maximum(np.abs(mean), 1e-30)
        return cls(readonly(mean, np.float64), readonly(np.where(constant, 1.0, spread), np.float64))

    def apply(self, contexts: Float32Array) -> FloatArray:
        """The contexts on the common scale, in float64."""
        return np.asarray((contexts - self.mean) / self.spread)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays, for files."""
        return {"mean": self.mean, "spread": self.spread}

    @classmethod
    def from_stored(cls, stored: Stored, n_features: int) -> "Scaling":
        """The inverse of `to_arrays`."""
        mean = expect_array(stored, "mean", np.float64, (n_features,))
        return cls(mean, expect_array(stored, "spread", np.float64, (n_features,), low=1 / LARGEST))
