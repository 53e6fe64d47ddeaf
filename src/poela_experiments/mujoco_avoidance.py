"""A counter-example: step weights that are normalised by their sum reward a policy for avoiding what was logged.

The objective is the mean of the returns that follow logged steps, each weighted by the ratio of its step alone. It
rises when steps before low returns lose weight, whatever is done there instead: the log does not say what that is
worth.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from poela.behavior.gaussian import GaussianBehavior, GaussianModel
from poela.core.arrays import FloatArray
from poela.data.trajectories import Trajectories
from poela.learners.advantages import batches, returns_to_go
from poela.networks.gaussian import gaussian_of, log_density_of
from poela.networks.training import train_steps

TRUNCATION = 10.0  # of a step's ratio


def avoidance(
    logs: Trajectories, seed: int, steps: int, every: int, learning_rate: float, rows: int
) -> Iterator[tuple[dict[str, Any], GaussianModel]]:
    """From the clone on: the number of steps, the objective on all logged steps, and the policy."""
    model = GaussianBehavior(device="cpu").fit(logs, seed)
    following = returns_to_go(logs, 1.0)
    yield {"steps": 0, "objective": objective(model, logs, following)}, model
    network = model.network
    contexts = torch.tensor(logs.contexts)
    draw = batches(logs.n_steps, rows, seed, contexts.device)
    actions = torch.tensor(model.standardised(logs.actions), dtype=torch.float32)
    logged = torch.tensor(logs.log_propensities + np.log(model.spread).sum(), dtype=torch.float32)
    values = torch.tensor(following, dtype=torch.float32)

    def loss(_: int) -> Tensor:
        drawn = draw()
        log_ratios = log_density_of(*gaussian_of(network, contexts[drawn]), actions[drawn]) - logged[drawn]
        weights = torch.exp(log_ratios.clamp(max=float(np.log(TRUNCATION))))
        return -(weights * values[drawn]).sum() / weights.sum()

    for done in train_steps(network, loss, name="step weights", steps=steps, learning_rate=learning_rate):
        if done % every == 0:
            policy = model.with_network(network)
            yield {"steps": done, "objective": objective(policy, logs, following)}, policy


def objective(policy: GaussianModel, logs: Trajectories, following: FloatArray) -> float:
    """The weighted mean of what follows, in the log of a policy.

    >>> x = np.zeros((2, 1))
    >>> logs = Trajectories(x, [[0.0], [1.0]], [1, 3], [0, 1, 2], log_densities=[0.0, 0.0])
    >>> class Certain:
    ...     def log_density(self, contexts, actions):
    ...         return np.log(np.where(actions[:, 0] > 0.5, 3.0, 1.0))
    >>> round(objective(Certain(), logs, returns_to_go(logs, 1.0)), 12)
    2.5
    """
    log_ratios = policy.log_density(logs.contexts, logs.actions) - logs.log_propensities
    weights = np.exp(np.minimum(log_ratios, np.log(TRUNCATION)))
    return float(weights @ following / weights.sum())
