"""Which logged contexts lie where the log is thin: PQL's filter, by a variational autoencoder or by neighbours."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from poela.core.arrays import BoolArray, Float32Array, FloatArray
from poela.core.progress import progress
from poela.networks.modules import dense, seeded
from poela.networks.stack import linears, stacked_outputs, stacked_parameters
from poela.networks.training import train_steps

Density = Literal["vae", "nearest"]
NEIGHBOURS = 5
BATCH = 100
LEARNING_RATE = 3e-4


def low_density(
    contexts: Float32Array, density: Density, percentile: float, steps: int, seeds: Sequence[int]
) -> list[BoolArray]:
    """For each seed the contexts [N] whose score is below the given percentile of all scores.

    >>> crowd = np.concatenate([np.zeros((99, 2)), [[50.0, 50.0]]]).astype(np.float32)
    >>> (low,) = low_density(crowd, "nearest", percentile=2.0, steps=0, seeds=[0])
    >>> np.flatnonzero(low)
    array([99])
    """
    scaled = _standardised(contexts)
    scores = _vae_scores(scaled, steps, seeds) if density == "vae" else [_neighbour_scores(scaled)] * len(seeds)
    return [np.asarray(own < np.percentile(own, percentile)) for own in scores]


def _standardised(contexts: Float32Array) -> Float32Array:
    spread = contexts.std(axis=0, dtype=np.float64)
    spread[spread <= 1e-12] = 1.0
    return np.asarray((contexts - contexts.mean(axis=0, dtype=np.float64)) / spread, np.float32)


def _neighbour_scores(contexts: Float32Array) -> FloatArray:
    """Minus the distance to the k-th nearest other context."""
    from poela.neighbours.search import k_nearest

    k = min(NEIGHBOURS + 1, len(contexts))
    return -np.asarray(k_nearest(contexts, contexts, k)[1])[:, -1]


class _VAEs(nn.Module):
    """Gaussian autoencoders of contexts, one for each seed; their evidence bounds score how usual a context is."""

    largest: Tensor

    def __init__(self, largest: Tensor, seeds: Sequence[int], width: int = 64) -> None:
        super().__init__()
        features, latent = len(largest), 2 * len(largest)
        encoders, decoders = [], []
        for seed in seeds:
            with seeded(seed):
                encoders.append(linears(dense(features, (width, width), 2 * latent)))
                decoders.append(linears(dense(latent, (width, width), features)))
        self.encoders = nn.ModuleList(stacked_parameters(encoders))
        self.decoders = nn.ModuleList(stacked_parameters(decoders))
        self.register_buffer("largest", largest)

    def bound(self, contexts: Tensor, noise: Tensor) -> Tensor:
        """The evidence lower bounds [K, N], up to a constant; decoders stay within the range of each feature."""
        encoders, decoders = (list(zip(*own, strict=True)) for own in (self.encoders, self.decoders))
        mean, log_scale = stacked_outputs(encoders, contexts).chunk(2, dim=2)
        log_scale = log_scale.clamp(-4, 4)
        decoded = torch.tanh(stacked_outputs(decoders, mean + noise * log_scale.exp())) * self.largest
        divergence = 0.5 * (mean.square() + (2 * log_scale).exp() - 1 - 2 * log_scale).sum(dim=2)
        bound: Tensor = -0.5 * (decoded - contexts).square().sum(dim=2) - divergence
        return bound


def _vae_scores(contexts: Float32Array, steps: int, seeds: Sequence[int]) -> list[FloatArray]:
    # On the CPU: batches this small would keep a GPU waiting. Side by side: each alone is mostly overhead.
    data, latent = torch.tensor(contexts), 2 * contexts.shape[1]
    model = _VAEs(data.abs().amax(dim=0).clamp(min=1e-6), seeds)
    generators = [np.random.default_rng([seed, 3]) for seed in seeds]

    def loss(step: int) -> Tensor:
        # Each seed draws its rows, then its noise, so that it draws the same in any company.
        drawn = [
            (rng.integers(len(contexts), size=BATCH), rng.standard_normal((BATCH, latent), dtype=np.float32))
            for rng in generators
        ]
        rows, noise = (torch.as_tensor(np.stack(own)) for own in zip(*drawn, strict=True))
        return -model.bound(data[rows], noise).mean(dim=1)

    with progress("PQL density", steps) as advance:
        names = ["PQL density"] * len(seeds)
        for _ in train_steps(model, loss, name=names, steps=steps, learning_rate=LEARNING_RATE):
            advance()
    with torch.no_grad():
        bounds = model.bound(data, torch.zeros(len(contexts), latent))
    return list(bounds.double().numpy())
