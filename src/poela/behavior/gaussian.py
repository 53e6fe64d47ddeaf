"""The logging policy of real-valued actions as a Gaussian network: mean and spread depend on the context."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from poela.behavior.model import HeldOut, held_out_split
from poela.behavior.normal import NormalBehavior, NormalModel, spread_of
from poela.core.arrays import FloatArray
from poela.core.errors import InputError, TrainingError
from poela.core.progress import progress
from poela.core.storage import Stored
from poela.core.typed import Count, NonNegative, Positive, from_plain, refuse_problems
from poela.core.validation import expect_array, expect_contents, expect_names, finite_scores, refuse
from poela.data.action_space import real_actions
from poela.data.trajectories import Trajectories
from poela.networks.gaussian import LOG_STD, gaussian_of, gaussian_outputs, log_density_of
from poela.networks.modules import Device, Hidden, Network, NetworkShape, device_of
from poela.networks.outputs import outputs_at
from poela.networks.training import train_steps

LOOK_EVERY = 25
NO_JUDGE_STEPS = 1000
LEAST_RATIO = 0.5  # below it, or above its inverse, a mean ratio is not about 1


@dataclass(frozen=True, repr=False)
class GaussianBehavior(NormalBehavior):
    """Independent normal columns whose mean and spread a network reads off the context; fitted by likelihood.

    Training stops when episodes that are held out grow no likelier. Unless these are likelier than under a linear form,
    by more than two standard errors, that is taken: on small logs a network costs more than it tells.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 1))
    >>> logs = Trajectories(x, 2 * x + rng.normal(size=(500, 1)), np.zeros(500), np.arange(501))
    >>> mean, std = GaussianBehavior().fit(logs).moments([[0.0], [1.0]])
    >>> bool(abs(mean[1, 0] - mean[0, 0] - 2) < 0.4), bool(abs(std[0, 0] - 1) < 0.2)
    (True, True)
    """

    hidden: Hidden = (32, 32)  # units of each hidden layer
    learning_rate: Positive = 1e-3  # step size of Adam
    steps: Count | None = None  # None: as many as the held-out likelihood asks for
    max_steps: Count = 3000  # of training, at most
    patience: Count = 10  # looks without a gain before training stops
    held_out: HeldOut = 0.1  # share of episodes that say when to stop
    weight_decay: NonNegative = 1e-4  # of Adam
    batch_rows: Count = 1024  # decisions in a step of training
    device: Device = "auto"  # "cpu", "cuda" or "auto": a GPU where there is one
    linear: bool = True  # whether a linear form is tried beside the network

    def __post_init__(self) -> None:
        refuse_problems(self)

    def fit(self, train: Trajectories, seed: int = 0) -> "GaussianModel":
        """The fitted model."""
        return self.fit_quietly(train, seed)

    def fit_quietly(self, train: Trajectories, seed: int = 0) -> "GaussianModel":
        """The fitted model; the seed sets weights, batches and the held-out episodes."""
        logs = real_actions(train, "a Gaussian model of the logging policy")
        learn, judge = held_out_split(logs, self.held_out if self.steps is None else 0.0, seed)
        model = self._trained(logs, learn, judge, seed)
        if not self.linear or not self.hidden or judge is None:
            return model
        straight = replace(self, hidden=())._trained(logs, learn, judge, seed)
        likelier = np.subtract(*(one.log_density(judge.contexts, judge.actions) for one in (model, straight)))
        return model if likelier.mean() > 2 * likelier.std() / math.sqrt(len(likelier)) else straight

    def _trained(
        self,
        logs: Trajectories,
        learn: Trajectories,
        judge: Trajectories | None,
        seed: int,
    ) -> "GaussianModel":
        """A model on the scale of the logs, as it was when the held-out actions were likeliest."""
        model = untrained(logs, self.hidden, seed) if self.hidden else least_squares(learn)
        last = self.steps or (NO_JUDGE_STEPS if judge is None else self.max_steps)
        network = model.network.to(device_of(self.device))
        assert isinstance(network, Network)
        best, best_likelihood, stale = model.with_network(network), _likelihood(model, judge), 0
        try:
            with progress("GaussianBehavior", last) as advance:
                for done in train_steps(
                    network,
                    _likelihood_loss(model, network, learn, self.batch_rows, seed, device_of(self.device)),
                    name="GaussianBehavior",
                    steps=last,
                    learning_rate=self.learning_rate,
                    weight_decay=self.weight_decay,
                ):
                    advance()
                    if judge is None or (done % LOOK_EVERY and done < last):
                        continue
                    candidate, stale = model.with_network(network), stale + 1
                    likelihood = _likelihood(candidate, judge)
                    if likelihood > best_likelihood:
                        best, best_likelihood, stale = candidate, likelihood, 0
                    if stale == self.patience:
                        break
        except TrainingError as error:
            error.last_good = best
            raise
        return best if judge is not None else model.with_network(network)


@dataclass(frozen=True, eq=False)
class GaussianModel(NormalModel):
    """A Gaussian network in the units of the logged actions: a policy of real-valued actions like any other."""

    network: Network
    centre: FloatArray  # [m], of the logged actions
    spread: FloatArray  # [m]
    feature_names: tuple[str, ...]
    action_names: tuple[str | int, ...]

    def moments(self, contexts: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation [N, m]."""
        mean, log_std = gaussian_outputs(torch.tensor(finite_scores(outputs_at(self.network, self.checked(contexts)))))
        return self.centre + self.spread * mean.numpy(), self.spread * np.exp(log_std.numpy())

    def standardised(self, actions: FloatArray) -> FloatArray:
        """Actions on the network's own scale."""
        return (actions - self.centre) / self.spread

    def with_network(self, network: Network) -> "GaussianModel":
        """The same around a copy of another network."""
        return GaussianModel(network.on_cpu(), self.centre, self.spread, self.feature_names, self.action_names)

    def stored(self) -> Stored:
        """As plain settings and arrays, for files."""
        settings = {
            "feature_names": list(self.feature_names),
            "action_names": list(self.action_names),
            "network": asdict(self.network.shape),
        }
        scale = {"action_centre": self.centre, "action_spread": self.spread}
        return Stored("gaussian_behavior", settings, {**self.network.weights(), **scale})

    @classmethod
    def from_stored(cls, stored: Stored, load_part: Callable[[Stored], Any] | None = None) -> "GaussianModel":
        """The inverse of `stored`."""
        shape = from_plain(NetworkShape, stored.settings.get("network"), "network")
        scale = ("action_centre", "action_spread")
        expect_contents(stored, ("feature_names", "action_names", "network"), (*shape.weight_shapes(), *scale))
        features, actions = expect_names(stored)
        if (shape.kind, shape.n_inputs, shape.n_outputs) != ("mlp", len(features), 2 * len(actions)):
            refuse("network", shape.n_outputs, f"an mlp of {len(features)} inputs and {2 * len(actions)} outputs")
        centre = expect_array(stored, scale[0], np.float64, (len(actions),))
        spread = expect_array(stored, scale[1], np.float64, (len(actions),), low=float(np.finfo(np.float32).tiny))
        return cls(shape.from_stored(stored), centre, spread, features, actions)


def untrained(logs: Trajectories, hidden: Hidden, seed: int) -> GaussianModel:
    """A fresh network on the scale of these logs."""
    network = NetworkShape("mlp", logs.n_features, 2 * logs.n_components, hidden).build(seed)
    network.standardise_by(logs.contexts)
    spread = spread_of(logs.actions)
    return GaussianModel(network, logs.actions.mean(axis=0), spread, logs.feature_names, logs.action_names)


def least_squares(logs: Trajectories) -> GaussianModel:
    """A linear mean by least squares with the spread of what it leaves: the likeliest of its kind, in closed form.

    >>> x = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> logs = Trajectories(x, 2 * x + [[0.5], [-0.5], [-0.5], [0.5]], np.zeros(4), np.arange(5))
    >>> [part.round(3).tolist() for part in least_squares(logs).moments([[5.0]])]
    [[[10.0]], [[0.5]]]
    """
    model = untrained(logs, (), 0)
    inputs = model.network.standardised(torch.tensor(logs.contexts)).double().numpy()
    inputs = np.concatenate([inputs, np.ones((len(inputs), 1))], axis=1)
    wanted = model.standardised(logs.actions)
    found = np.linalg.lstsq(inputs, wanted, rcond=None)[0]  # [d + 1, m]
    left = np.sqrt(np.square(wanted - inputs @ found).mean(axis=0))
    weights = model.network.weights()
    weights["layers.0.weight"][:] = np.concatenate([found[:-1].T, np.zeros_like(found[:-1].T)])
    weights["layers.0.bias"][:] = np.concatenate([found[-1], np.log(np.maximum(left, np.exp(LOG_STD[0])))])
    model.network.load_weights(weights)
    return model


def refuse_plain_densities(logs: Trajectories) -> None:
    """Refuse logged densities that stand where their logarithms are due.

    Any density over the one that actions were drawn from has mean 1. Here that is a linear Gaussian over the logged
    one, as given and taken as plain: p·exp(−p) is nowhere above 0.37, so that the two cannot be confused.
    """
    given = logs.log_densities
    if given is None or logs.estimated or not (given > 0).all():
        return
    own = least_squares(logs).log_density(logs.contexts, logs.actions)
    with np.errstate(over="ignore"):
        as_given, as_plain = np.exp(own - given).mean(), np.exp(own - np.log(given)).mean()
    if as_given < LEAST_RATIO and LEAST_RATIO < as_plain < 1 / LEAST_RATIO:
        raise InputError(
            f"the log densities of all {logs.n_steps:,} actions are positive and would be right as plain densities "
            f"(a Gaussian over them has mean {as_plain:.2f}, over their exponentials {as_given:.2f}, where 1 is due): "
            "log their logarithms"
        )


def _likelihood(model: GaussianModel, judge: Trajectories | None) -> float:
    return -math.inf if judge is None else float(model.log_density(judge.contexts, judge.actions).mean())


def _likelihood_loss(
    model: GaussianModel, network: Network, logs: Trajectories, rows: int, seed: int, device: torch.device
) -> Callable[[int], Tensor]:
    contexts = torch.tensor(logs.contexts, device=device)
    actions = torch.tensor(model.standardised(logs.actions), dtype=torch.float32, device=device)
    rng = np.random.default_rng([seed, 1])

    def loss(step: int) -> Tensor:
        if rows >= len(contexts):
            return -log_density_of(*gaussian_of(network, contexts), actions).mean()
        drawn = torch.as_tensor(rng.integers(len(contexts), size=rows), device=device)
        return -log_density_of(*gaussian_of(network, contexts[drawn]), actions[drawn]).mean()

    return loss
