"""The shape of the weights' tail: a generalised Pareto fit, as in Pareto-smoothed importance sampling."""

import numpy as np

from poela.core.arrays import FloatArray

SMALLEST_TAIL = 5
# Log weights that differ by less are equal but for the rounding of their sums; taken as a tail, it would look heavy.
TIE = 1e-9
# Below this, reciprocals overflow; a tail that spans so many orders is hopeless at any precision.
SMALLEST_EXCESS = 1e-290


def pareto_k(log_weights: FloatArray) -> float:
    """The tail shape k̂ of the weights (Vehtari et al. 2024): about 1/k̂ moments exist; above 0.7 distrust the mean.

    The tail is the min(n/5, 3√n) largest weights. −inf where they are all equal; NaN where fewer than five stand out.

    >>> pareto_k(np.zeros(100))
    -inf
    """
    n = len(log_weights)
    size = int(np.ceil(min(0.2 * n, 3 * np.sqrt(n))))
    if size < SMALLEST_TAIL or log_weights.max() == -np.inf:
        return float("nan")
    largest = np.sort(np.partition(log_weights, n - size - 1)[n - size - 1 :])
    above = largest > largest[0] + TIE
    if not above.any():
        return float("-inf")
    if above.sum() < SMALLEST_TAIL:
        return float("nan")
    relative = np.exp(largest - largest[-1])
    shape, _ = fit_generalised_pareto(np.maximum(relative[above] - relative[0], SMALLEST_EXCESS))
    # A weak prior worth ten observations at 0.5 steadies short tails (Vehtari et al. 2024, appendix).
    return float((above.sum() * shape + 10 * 0.5) / (above.sum() + 10))


def fit_generalised_pareto(excess: FloatArray) -> tuple[float, float]:
    """Shape k and scale σ of P(X > x) = (1 + k·x/σ)^(−1/k), by the near-Bayesian fit of Zhang & Stephens (2009).

    >>> quantiles = (np.arange(1000) + 0.5) / 1000
    >>> shape, scale = fit_generalised_pareto(((1 - quantiles) ** -0.4 - 1) / 0.4 * 2.0)  # k = 0.4, σ = 2
    >>> round(shape, 1), round(scale, 1)
    (0.4, 2.0)
    """
    x = np.sort(excess)
    n = len(x)
    grid = 30 + int(np.sqrt(n))
    quartile = x[max(int(n / 4 + 0.5) - 1, 0)]
    # Candidates θ = −k/σ around 1/max, spread by the first quartile (their equation for the prior grid).
    theta = 1 / x[-1] + (1 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))) / (3 * quartile)
    shapes = -np.log1p(-theta[:, None] * x).mean(axis=1)  # their k has the other sign
    # At θ = 0 the tail is exponential, and θ / k the reciprocal of its mean.
    slopes = np.divide(theta, shapes, out=np.full(grid, 1 / x.mean()), where=shapes != 0)
    log_likelihood = n * (np.log(slopes) + shapes - 1)
    posterior = np.exp(log_likelihood - log_likelihood.max())
    mean_theta = float((theta * posterior).sum() / posterior.sum())
    shape = float(np.log1p(-mean_theta * x).mean())
    return shape, -shape / mean_theta
