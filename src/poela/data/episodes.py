"""What logs of any kind of actions share: ragged episodes stored flat, their returns, parts and clusters."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poela.core.arrays import Float32Array, FloatArray, IntArray, freeze
from poela.core.errors import InputError
from poela.core.ragged import episode_of_step, episode_sums, lengths_of, rows_of_episodes, step_numbers
from poela.data.array_inputs import array_of, numbers, plain_names, whole
from poela.data.checks import EMPTY
from poela.data.clusters import numbered
from poela.data.folds import random_parts
from poela.data.schema import TableSchema
from poela.data.words import counted

ActionName = str | int


class LoggedEpisodes(ABC):
    """Contexts and rewards of ragged episodes, flat, in step order; `Trajectories` and its kin add the actions.

    `clusters` names the independent unit of each episode, such as the patient of several stays; whatever splits or
    resamples episodes keeps those of one cluster together. `estimated` says that what is known of the logging policy
    comes from a model. `schema` says how the columns of the table that was read became features, `notes` what was done
    on the way.
    """

    by_step: ClassVar[tuple[str, ...]]  # the arrays with a row for each step

    contexts: Float32Array  # [N, d]
    actions: NDArray[Any]
    rewards: FloatArray  # [N]
    offsets: IntArray  # [n + 1]
    feature_names: tuple[str, ...]
    action_names: tuple[ActionName, ...]
    episode_ids: NDArray[Any] | None  # [n]
    clusters: IntArray | None  # [n], numbered from 0 in order of first appearance; None: each episode is its own
    estimated: bool
    schema: TableSchema | None  # None: these were arrays
    notes: tuple[str, ...]

    def _keep(self, **fields: object) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _keep_shared(
        self,
        contexts: ArrayLike,
        rewards: ArrayLike,
        offsets: ArrayLike,
        feature_names: Sequence[str] | None,
        episode_ids: ArrayLike | None,
        clusters: ArrayLike | None,
    ) -> None:
        """The fields that all logs have, as read-only arrays and plain names."""
        rows = numbers("contexts", contexts, np.float32)
        ends = numbers("offsets", offsets, np.int64)
        width = rows.shape[1] if rows.ndim == 2 else 0
        features = () if feature_names is None else tuple(map(str, plain_names(feature_names)))
        n = max(ends.size - 1, 0)
        ids = np.arange(n) if episode_ids is None else array_of("episode_ids", episode_ids)
        self._keep(
            contexts=rows,
            rewards=numbers("rewards", rewards, np.float64),
            offsets=ends,
            feature_names=features or tuple(f"x{column}" for column in range(width)),
            episode_ids=freeze(ids.copy()),
            clusters=None if clusters is None else numbered(clusters),
        )

    @property
    def knows_logging_policy(self) -> bool:
        """Whether the logs carry what weights take, logged or estimated."""
        return self.chances is not None

    @property
    @abstractmethod
    def chances(self) -> FloatArray | None:
        """What is known of the logging policy, as the logs carry it: propensities, or log densities."""

    @abstractmethod
    def with_chances(self, chances: ArrayLike | None, estimated: bool = False) -> Self:
        """The same logs with other chances; `estimated` says whether these come from a model."""

    @property
    @abstractmethod
    def log_propensities(self) -> FloatArray:
        """The log of the probability, or of the density, [N] that the logging policy gave to the logged action."""

    @property
    @abstractmethod
    def all_propensities(self) -> FloatArray | None:
        """The probability of every action [N, A]; None where it is not known, or where actions cannot be counted."""

    @property
    @abstractmethod
    def actions_in_words(self) -> str:
        """Of what kind and how many the actions are."""

    @property
    @abstractmethod
    def propensities_in_words(self) -> str:
        """What is known of the logging policy."""

    def __repr__(self) -> str:
        clusters = "" if self.clusters is None else f" in {counted(self.n_units, 'cluster')}"
        return (
            f"{type(self).__name__}({self.n_episodes} episodes{clusters}, {self.n_steps} steps, "
            f"{self.n_features} features, {self.actions_in_words}, {self.propensities_in_words})"
        )

    def _repr_html_(self) -> str:
        from poela.data.notebook import html_of

        return html_of(self)

    def __len__(self) -> int:
        return self.n_episodes

    @property
    def n_episodes(self) -> int:
        """How many episodes."""
        return len(self.offsets) - 1

    @property
    def n_steps(self) -> int:
        """How many steps in all episodes together."""
        return len(self.actions)

    @property
    def n_features(self) -> int:
        """The width of a context."""
        return int(self.contexts.shape[1])

    @property
    def lengths(self) -> IntArray:
        """Steps of each episode."""
        return lengths_of(self.offsets)

    @property
    def step_numbers(self) -> IntArray:
        """Each step's number within its episode, from 0."""
        return step_numbers(self.offsets)

    @property
    def episode_of_step(self) -> IntArray:
        """The episode (by position) that each step belongs to."""
        return episode_of_step(self.offsets)

    @property
    def units(self) -> IntArray:
        """The independent unit of each episode, numbered from 0: its cluster or, where none are named, itself."""
        return np.arange(self.n_episodes) if self.clusters is None else self.clusters

    @property
    def n_units(self) -> int:
        """How many independent units there are."""
        return self.n_episodes if self.clusters is None else int(self.clusters.max()) + 1

    @property
    def initial_contexts(self) -> Float32Array:
        """The first context of each episode."""
        return self.contexts[self.offsets[:-1]]

    def returns(self, discount: float = 1.0) -> FloatArray:
        """The (discounted) sum of each episode's rewards."""
        if discount == 1.0:
            return episode_sums(self.rewards, self.offsets)
        return episode_sums(self.rewards * discount**self.step_numbers, self.offsets)

    def take(self, episodes: ArrayLike) -> Self:
        """The given episodes (positions or a boolean mask), in that order."""
        chosen = np.asarray(episodes)
        if chosen.dtype == np.bool_ and chosen.shape != (self.n_episodes,):
            raise InputError(f"a mask of episodes must have shape ({self.n_episodes},), not {chosen.shape}")
        chosen = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else whole(chosen).astype(np.int64)
        rows, offsets = rows_of_episodes(chosen, self.offsets)
        if not len(rows):
            raise InputError(EMPTY)
        columns = {name: getattr(self, name) for name in self.by_step}
        arrays: dict[str, NDArray[Any] | None] = {
            **{name: None if column is None else column[rows] for name, column in columns.items()},
            "offsets": offsets,
            "episode_ids": None if self.episode_ids is None else self.episode_ids[chosen],
            "clusters": None if self.clusters is None else numbered(self.clusters[chosen]),
        }
        taken = copy(self)  # without the checks: rows that were sound are sound
        for name, array in arrays.items():
            object.__setattr__(taken, name, None if array is None else freeze(array))
        return taken

    def split(self, shares: Sequence[float], seed: int) -> tuple[Self, ...]:
        """Disjoint random parts of whole episodes, in the given shares (which sum to at most 1).

        Clusters stay whole: the shares of episodes are met as nearly as that allows.
        """
        total = sum(shares)
        if not shares or min(shares) <= 0 or total > 1 + 1e-9:
            raise InputError(f"shares {tuple(shares)} must be positive and sum to at most 1")
        bounds = np.round(np.cumsum([0.0, *shares]) * self.n_episodes).astype(int)
        if (np.diff(bounds) == 0).any():
            raise InputError(
                f"{self.n_episodes} episodes are too few for the shares {tuple(shares)}: a part would be empty"
            )
        if self.n_units < len(shares):
            raise InputError(
                f"{counted(self.n_units, 'cluster')} cannot be split into {len(shares)} parts, since episodes of a "
                "cluster stay together: add more clusters, or name smaller ones"
            )
        # Each part keeps the order of the log, so that only membership is random.
        return tuple(self.take(part) for part in random_parts(self.units, bounds.tolist(), seed))
