"""Behavior as a network that imitates the logged actions: of the current context, or of the whole history."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from poela.behavior.model import (
    SETTINGS,
    Behavior,
    BehaviorModel,
    HeldOut,
    LoadPart,
    Schema,
    held_out_split,
    mean_log_likelihood,
)
from poela.core.arrays import Float32Array, FloatArray, IntArray, first_bad
from poela.core.errors import InputError, TrainingError
from poela.core.policy import Actor, LoggedSteps
from poela.core.progress import progress
from poela.core.ragged import rows_of_episodes
from poela.core.storage import Stored
from poela.core.typed import Count, NonNegative, Positive, from_plain
from poela.core.validation import expect_contents, expect_setting, finite_scores
from poela.data.trajectories import Trajectories
from poela.networks.modules import GRU, Device, Hidden, Network, NetworkKind, NetworkShape, device_of
from poela.networks.outputs import outputs_along, outputs_at
from poela.networks.packing import Packing
from poela.networks.training import train_steps

# A feature that tells the step (a month, an hour): where there is one, shuffled steps can be found out.

FEWEST_STEPS = 20  # fewer could agree by chance


def clock_of(train: Trajectories) -> int | None:
    """The first feature that rises by one and the same amount at every step of every episode, if there is one.

    >>> months = np.arange(30) % 10
    >>> clock_of(Trajectories(np.stack([months % 3, months], axis=1), [0] * 30, [0] * 30, [0, 10, 20, 30]))
    1
    """
    later = train.step_numbers > 0
    if later.sum() < FEWEST_STEPS:
        return None
    rises = np.diff(train.contexts.astype(np.float64), axis=0)[later[1:]]
    steady = (rises.min(axis=0) > 0) & np.isclose(rises.min(axis=0), rises.max(axis=0), rtol=1e-3)
    return int(steady.argmax()) if steady.any() else None


def refuse_shuffled(times: Float32Array, offsets: IntArray, name: str) -> None:
    """Refuse episodes in which the clock does not rise.

    >>> refuse_shuffled(np.array([0, 2, 1], np.float32), np.array([0, 3]), "month")
    Traceback (most recent call last):
    poela.core.errors.InputError: the steps seem shuffled: 'month' rises at every step in training, but falls or stands
    still at 1 steps here, first at step 2 of the flat log: sort the steps of each episode
    """
    falls = np.concatenate([[False], np.diff(times) <= 0])
    falls[offsets[:-1]] = False
    if falls.any():
        count, first = first_bad(falls)
        raise InputError(
            f"the steps seem shuffled: {name!r} rises at every step in training, but falls or stands still at "
            f"{count} steps here, first at step {first} of the flat log: sort the steps of each episode"
        )


PUBLISHED_STEPS = 500
CHECK_EVERY = 50  # steps between checks of the held-out likelihood


@dataclass(frozen=True)
class CloneBehavior(Behavior):
    """An MLP on standardised contexts, trained by Adam on the likelihood of the logged actions.

    Training stops when the likelihood of held-out episodes has not risen for `patience` looks, and keeps the best
    network. The published runs instead take a fixed number of steps: `CloneBehavior(steps=500, hidden=(32, 32, 32))`
    on the tumor task, 256 units on sepsis. Logs of one episode, where nothing can be held out, get 500 steps too.

    >>> contexts = np.random.default_rng(0).normal(size=(400, 2))
    >>> logs = Trajectories(contexts, contexts[:, 0] > 0, np.zeros(400), np.arange(0, 401, 4))
    >>> CloneBehavior(learning_rate=0.01, steps=100).fit(logs).probabilities([[-1.0, 0.0], [1.0, 0.0]]).round(1)
    array([[1., 0.],
           [0., 1.]])
    """

    hidden: Hidden = (64, 64, 64)  # units of each hidden layer
    learning_rate: Positive = 3e-4  # step size of Adam
    steps: Count | None = None  # None: as many as the held-out likelihood asks for
    max_steps: Count = 5000  # of training, at most
    patience: Count = 10  # looks without a gain before training stops
    held_out: HeldOut = 0.1  # the share of episodes that tells when to stop
    weight_decay: NonNegative = 0.0  # of Adam
    batch_episodes: Count = 100  # episodes in a step of training
    device: Device = "auto"  # "cpu", "cuda" or "auto": a GPU where there is one

    network: ClassVar[NetworkKind] = "mlp"

    def __post_init__(self) -> None:
        super().__post_init__()
        NetworkShape(self.network, 1, 2, self.hidden)  # which refuses what it cannot be made of

    def fit_quietly(self, train: Trajectories, seed: int) -> "CloneModel":
        """The fitted model; the seed sets weights, batches and the held-out episodes."""
        schema = Schema.of(train)
        network = NetworkShape(self.network, train.n_features, train.n_actions, self.hidden).build(seed)
        network.standardise_by(train.contexts)
        if len(schema.seen) > 1:
            network = self._trained(network, train, schema, seed)
        return self._model(schema, network, train)

    def _model(self, schema: Schema, network: Network, train: Trajectories) -> "CloneModel":
        return CloneModel(self, schema, network)

    def _trained(self, network: Network, train: Trajectories, schema: Schema, seed: int) -> Network:
        """The network after training; a breakdown leaves the best network so far with the error."""
        learn, judge = held_out_split(train, self.held_out if self.steps is None else 0.0, seed)
        last = self.steps or (PUBLISHED_STEPS if judge is None else self.max_steps)
        network.to(device_of(self.device))
        best, best_likelihood, stale = network.on_cpu(), -math.inf, 0
        try:
            with progress(type(self).__name__, last) as advance:
                for done in self._steps(network, _Batches(learn, schema, network, self.batch_episodes, seed), last):
                    advance()
                    if judge is None or (done % CHECK_EVERY and done < last):
                        continue
                    candidate = network.on_cpu()
                    likelihood = _held_out_likelihood(candidate, schema, judge)
                    stale += 1
                    if likelihood > best_likelihood:
                        best, best_likelihood, stale = candidate, likelihood, 0
                    if stale == self.patience:
                        break
        except TrainingError as error:
            error.last_good = self._model(schema, best, train)
            raise
        return best if judge is not None else network.on_cpu()

    def _steps(self, network: Network, batches: "_Batches", last: int) -> Iterator[int]:
        return train_steps(
            network,
            lambda step: batches.loss(network),
            name=type(self).__name__,
            steps=last,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
        )


@dataclass(frozen=True)
class RecurrentCloneBehavior(CloneBehavior):
    """A GRU over contexts and previous actions, otherwise trained as `CloneBehavior`: behavior of the whole history.

    Three layers of 100 units, as published (there with 500 steps). Episodes stay ragged; nothing is padded.

    >>> logs = Trajectories(np.zeros((40, 1)), [0, 1] * 20, np.zeros(40), np.arange(0, 41, 4))
    >>> model = RecurrentCloneBehavior(hidden=(8,), learning_rate=0.03, steps=100).fit(logs)
    >>> model.along(logs.take([0])).round(1)
    array([[1., 0.],
           [0., 1.],
           [1., 0.],
           [0., 1.]])
    """

    hidden: Hidden = (100, 100, 100)  # units of each hidden layer

    network: ClassVar[NetworkKind] = "gru"

    def _model(self, schema: Schema, network: Network, train: Trajectories) -> "RecurrentCloneModel":
        return RecurrentCloneModel(self, schema, network, clock_of(train))


@dataclass(frozen=True, eq=False)
class CloneModel(BehaviorModel):
    """A fitted network; actions never seen in training are barred from its softmax."""

    settings: CloneBehavior
    schema: Schema
    network: Network

    def seen_probabilities(self, contexts: Float32Array) -> FloatArray:
        """The softmax of the logits of the actions seen."""
        return _softmax(finite_scores(outputs_at(self.network, contexts)[:, list(self.schema.seen)]))

    def stored(self) -> Stored:
        """As plain settings and arrays, for files."""
        return Stored("clone_behavior", self._stored_settings(), self.network.weights())

    def _stored_settings(self) -> dict[str, Any]:
        settings = {**asdict(self.settings), "hidden": list(self.settings.hidden)}
        return {"settings": settings, **self.schema.to_settings()}

    @classmethod
    def from_stored(cls, stored: Stored, load_part: LoadPart | None = None) -> "CloneModel":
        """The inverse of `stored`."""
        return cls(*_restored(stored, CloneBehavior))


@dataclass(frozen=True, eq=False)
class RecurrentCloneModel(CloneModel):
    """A fitted recurrent network: it follows whole episodes, not loose contexts."""

    settings: RecurrentCloneBehavior
    clock: int | None  # a feature that told the step in training: shuffled steps show in it

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """Refused: loose contexts have no history."""
        raise InputError(
            "a recurrent behavior model needs whole episodes in step order: "
            "use along(trajectories), annotate(trajectories) or actor(n), not loose contexts"
        )

    def along(self, trajectories: LoggedSteps) -> FloatArray:
        """[N, A] along logged episodes, each step's from the contexts up to it and the actions before it."""
        self.schema.check_logs(trajectories)
        contexts = self.schema.checked_contexts(trajectories.contexts)
        if self.clock is not None:
            refuse_shuffled(contexts[:, self.clock], trajectories.offsets, self.schema.feature_names[self.clock])
        logits = outputs_along(self.network, contexts, trajectories.actions, trajectories.offsets)
        return self.schema.kept(contexts, self.from_logits(logits))

    def from_logits(self, logits: FloatArray) -> FloatArray:
        """Probabilities of all actions [N, A]."""
        return self.schema.spread(_softmax(finite_scores(logits[:, list(self.schema.seen)])))

    def actor(self, n: int) -> Actor:
        """Acts in n episodes at once, remembering each."""
        return _RecurrentActor(self, n)

    def stored(self) -> Stored:
        """As plain settings and arrays, for files."""
        settings = {"clock": self.clock, **self._stored_settings()}
        return Stored("recurrent_behavior", settings, self.network.weights())

    @classmethod
    def from_stored(cls, stored: Stored, load_part: LoadPart | None = None) -> "RecurrentCloneModel":
        """The inverse of `stored`."""
        settings, schema, network = _restored(stored, RecurrentCloneBehavior, "clock")
        last = len(schema.feature_names) - 1
        return cls(settings, schema, network, expect_setting(stored, "clock", int | None, low=0, high=last))


class _RecurrentActor:
    def __init__(self, model: RecurrentCloneModel, n: int) -> None:
        assert isinstance(model.network, GRU)
        self._model, self._network = model, model.network
        self._previous = torch.zeros(n, model.schema.n_actions)
        self._memory: Tensor | None = None  # after the steps that were recorded
        self._next_memory: Tensor | None = None

    @torch.no_grad()
    def probabilities(self, contexts: Float32Array) -> FloatArray:
        schema = self._model.schema
        rows = schema.checked_contexts(contexts)
        logits, self._next_memory = self._network.step(torch.tensor(rows), self._previous, self._memory)
        return schema.kept(rows, self._model.from_logits(logits.double().numpy()))

    def record(self, actions: IntArray) -> None:
        self._memory = self._next_memory
        self._previous = torch.nn.functional.one_hot(torch.tensor(actions), self._previous.shape[1]).float()


class _Batches:
    """Random batches of whole episodes on the network's device."""

    def __init__(self, learn: Trajectories, schema: Schema, network: Network, episodes: int, seed: int) -> None:
        device = next(network.parameters()).device
        self._offsets, self._size = learn.offsets, min(episodes, learn.n_episodes)
        self._rng = np.random.default_rng([seed, 1])
        self._contexts = torch.tensor(learn.contexts, device=device)
        self._actions = torch.tensor(learn.actions, device=device)
        barred = torch.full((schema.n_actions,), -math.inf)
        barred[list(schema.seen)] = 0.0
        self._barred = barred.to(device)

    def loss(self, network: Network) -> Tensor:
        """The mean negative log likelihood of the next batch."""
        episodes = self._rng.choice(len(self._offsets) - 1, self._size, replace=False)
        flat, offsets = rows_of_episodes(episodes, self._offsets)
        packing = Packing.of(offsets, self._contexts.device) if network.remembers else None
        rows = torch.as_tensor(flat, device=self._contexts.device)
        actions = self._actions[rows]
        logits = network.along(self._contexts[rows], actions, packing)
        return torch.nn.functional.cross_entropy(logits + self._barred, actions)


def _held_out_likelihood(network: Network, schema: Schema, judge: Trajectories) -> float:
    logits = outputs_along(network, judge.contexts, judge.actions, judge.offsets)
    return mean_log_likelihood(_softmax(logits[:, list(schema.seen)]), schema.codes(judge.actions))


def _softmax(logits: FloatArray) -> FloatArray:
    from scipy.special import softmax

    return np.asarray(softmax(logits, axis=1))


def _restored(stored: Stored, behavior: type[CloneBehavior], *more: str) -> tuple[Any, Schema, Network]:
    settings = from_plain(behavior, stored.settings.get("settings"), "settings")
    schema = Schema.from_stored(stored)
    shape = NetworkShape(settings.network, len(schema.feature_names), schema.n_actions, settings.hidden)
    expect_contents(stored, settings=("settings", *SETTINGS, *more), arrays=shape.weight_shapes())
    return settings, schema, shape.from_stored(stored)
