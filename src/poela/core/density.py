"""What a policy of real-valued actions is: a log density of any action, and draws; and the Gaussian ones of both."""

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import FloatArray
from poela.core.errors import InputError

SMALLEST_UNIFORM = 2.0**-54
HALF_LOG_TWO_PI = float(np.log(2 * np.pi) / 2)


@runtime_checkable
class DensityPolicy(Protocol):
    """A policy whose actions are real numbers, m to each decision."""

    def log_density(self, contexts: ArrayLike, actions: ArrayLike) -> FloatArray:
        """The log density [N] of actions [N, m] at contexts [N, d]; −inf where the policy never acts so."""

    def sample(self, contexts: ArrayLike, rng: np.random.Generator) -> FloatArray:
        """An action [N, m] for each context."""


def as_density_policy(candidate: object) -> DensityPolicy:
    """Any object with a log density and draws; else one sentence.

    >>> as_density_policy(1.0)
    Traceback (most recent call last):
    poela.core.errors.InputError: float is no policy of real-valued actions: it has no methods log_density(contexts, ...
    """
    if isinstance(candidate, DensityPolicy):
        return candidate
    raise InputError(
        f"{type(candidate).__name__} is no policy of real-valued actions: it has no methods "
        "log_density(contexts, actions) and sample(contexts, rng)"
    )


def gaussian_log_density(actions: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """The log density [N] of independent normal columns.

    >>> gaussian_log_density(np.zeros((1, 2)), np.zeros((1, 2)), np.ones((1, 2))).round(4)
    array([-1.8379])
    """
    scaled = (actions - mean) / std
    return np.asarray((-0.5 * np.square(scaled) - np.log(std) - HALF_LOG_TWO_PI).sum(axis=-1))


def standard_normal(shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
    """Standard normal numbers by one uniform number each, so that equal seeds give common random numbers."""
    from scipy.special import ndtri

    return np.asarray(ndtri(np.maximum(rng.random(shape), SMALLEST_UNIFORM)))
