"""Which logged contexts lie where the log is thin: PQL's filter, by a variational autoencoder or by neighbours."""

from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from poela.core.arrays import BoolArray, Float32Array, FloatArray
from poela.core.progress import progress
from poela.networks.modules import dense, seeded
from poela.networks.training import train_steps

Density = Literal["vae", "nearest"]
NEIGHBOURS = 5
BATCH = 100
LEARNING_RATE = 3e-4


def low_density(contexts: Float32Array, density: Density, percentile: float, steps: int, seed: int) -> BoolArray:
    """Contexts [N] whose score is below the given percentile of all scores.

    >>> crowd = np.concatenate([np.zeros((99, 2)), [[50.0, 50.0]]]).astype(np.float32)
    >>> np.flatnonzero(low_density(crowd, "nearest", percentile=2.0, steps=0, seed=0))
    array([99])
    """
    scaled = _standardised(contexts)
    scores = _vae_scores(scaled, steps, seed) if density == "vae" else _neighbour_scores(scaled)
    return np.asarray(scores < np.percentile(scores, percentile))


def _standardised(contexts: Float32Array) -> Float32Array:
    spread = contexts.std(axis=0, dtype=np.float64)
    spread[spread <= 1e-12] = 1.0
    return np.asarray((contexts - contexts.mean(axis=0, dtype=np.float64)) / spread, np.float32)


def _neighbour_scores(contexts: Float32Array) -> FloatArray:
    """Minus the distance to the k-th nearest other context."""
    from poela.core.neighbours import k_nearest

    k = min(NEIGHBOURS + 1, len(contexts))
    return -np.asarray(k_nearest(contexts, contexts, k)[1])[:, -1]


class _VAE(nn.Module):
    """A Gaussian autoencoder of contexts; its evidence bound scores how usual a context is."""

    largest: Tensor

    def __init__(self, largest: Tensor, width: int = 64) -> None:
        super().__init__()
        features, latent = len(largest), 2 * len(largest)
        self.encoder = dense(features, (width, width), 2 * latent)
        self.decoder = dense(latent, (width, width), features)
        self.register_buffer("largest", largest)

    def bound(self, contexts: Tensor, noise: Tensor) -> Tensor:
        """The evidence lower bound [N], up to a constant; the decoder stays within the range of each feature."""
        mean, log_scale = self.encoder(contexts).chunk(2, dim=1)
        log_scale = log_scale.clamp(-4, 4)
        decoded = torch.tanh(self.decoder(mean + noise * log_scale.exp())) * self.largest
        divergence = 0.5 * (mean.square() + (2 * log_scale).exp() - 1 - 2 * log_scale).sum(dim=1)
        bound: Tensor = -0.5 * (decoded - contexts).square().sum(dim=1) - divergence
        return bound


def _vae_scores(contexts: Float32Array, steps: int, seed: int) -> FloatArray:
    # On the CPU: batches this small would keep a GPU waiting.
    data = torch.tensor(contexts)
    with seeded(seed):
        model = _VAE(data.abs().amax(dim=0).clamp(min=1e-6))
    rng = np.random.default_rng([seed, 3])
    latent = 2 * contexts.shape[1]

    def noise(rows: int) -> Tensor:
        return torch.as_tensor(rng.standard_normal((rows, latent), dtype=np.float32))

    def loss(step: int) -> Tensor:
        rows = torch.as_tensor(rng.integers(len(contexts), size=BATCH))
        return -model.bound(data[rows], noise(BATCH)).mean()

    with progress("PQL density", steps) as advance:
        for _ in train_steps(model, loss, name="PQL density", steps=steps, learning_rate=LEARNING_RATE):
            advance()
    with torch.no_grad():
        zeros = torch.zeros(len(contexts), latent)
        return model.bound(data, zeros).double().numpy()
