"""`Trajectories`: ragged episodes stored flat. Construction validates, so nobody downstream has to."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray, freeze, readonly, with_sound
from poela.core.errors import InputError
from poela.core.ragged import episode_of_step, episode_sums, lengths_of, rows_of_episodes, step_numbers
from poela.data.action_space import ActionName, ActionSpace, kind_of
from poela.data.checks import EMPTY, problems_of
from poela.data.clusters import numbered
from poela.data.folds import parts_in_shares
from poela.data.losses import with_middle
from poela.data.mdp_arrays import array_of, numbers, plain_names, whole
from poela.data.schema import TableSchema
from poela.data.words import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from poela.data.mdp_arrays import MDPArrays

BY_STEP = ("contexts", "actions", "rewards", "propensities", "log_densities", "recommended", "outcomes", "staying")


@dataclass(frozen=True, eq=False, repr=False)
class Trajectories:
    """Logged decisions: contexts, actions and rewards of ragged episodes, flat, in step order.

    >>> logs = Trajectories(contexts=[[0.0], [1.0], [0.5]], actions=[0, 1, 1], rewards=[0, 1, 2], offsets=[0, 2, 3])
    >>> logs
    Trajectories(2 episodes, 3 steps, 1 features, 2 actions, no propensities)
    >>> logs.returns()
    array([1., 2.])

    Actions are whole numbers [N], which stand for a finite set, or real numbers [N, m] such as doses. What is known of
    the logging policy are `propensities` of the former, and `log_densities` of the latter: those of the logged actions,
    in their units. What an environment clips is logged as it was before, since the density belongs to that.
    `clusters` names the independent unit of each episode, such as the patient of several stays; whatever splits or
    resamples episodes keeps those of one cluster together. `estimated` says that what is known of the logging policy
    comes from a model. `schema` says how columns of a table became features, `notes` what was done on the way. `lost`
    episodes broke off at their last step, before their outcome was seen; `staying` is what that weighs at each step,
    log Δ/C (see `behavior.staying`). `outcomes` are further ones, such as harms, by name: nothing is learned from them.
    """

    by_step: ClassVar = BY_STEP

    contexts: Float32Array  # [N, d] what was known at each decision
    actions: NDArray[Any]  # [N] whole numbers, or [N, m] real ones
    rewards: FloatArray  # [N] what came of each decision
    offsets: IntArray  # [n + 1]
    propensities: FloatArray | None = None  # [N, A] of every action, or [N] of the logged one
    n_actions: int = 0  # 0: as many as the data show; stays 0 where actions are real numbers
    feature_names: tuple[str, ...] = ()  # of the columns of `contexts`
    action_names: tuple[ActionName, ...] = ()  # of the A actions, or of the m columns
    episode_ids: NDArray[Any] | None = None  # [n] their names in the table
    clusters: IntArray | None = None  # [n], numbered from 0 in order of first appearance; None: each episode is its own
    estimated: bool = False  # whether propensities come from a model
    schema: TableSchema | None = None  # None: these were arrays
    notes: tuple[str, ...] = ()  # what was done to the table while it was read
    log_densities: FloatArray | None = None  # [N] of logged actions that are real numbers
    loggers: IntArray | None = None  # [n], the number of the logging policy of each episode; None: one made all of them
    logged_by: Any = None  # the name or folder of the logging policy, or the policy itself; None: nothing was said
    outcomes: FloatArray | None = None  # [N, J] further outcomes beside the reward
    outcome_names: tuple[str, ...] = ()  # of the J outcomes
    recommended: IntArray | None = None  # [N] what a policy said, where `actions` are what was done after that
    lost: BoolArray | None = None  # [n]; None: every outcome was seen
    staying: FloatArray | None = None  # [N], estimated; None: not yet, or every outcome was seen

    def __init__(
        self,
        contexts: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike,
        offsets: ArrayLike,
        propensities: ArrayLike | None = None,
        n_actions: int | None = None,
        feature_names: Sequence[str] | None = None,
        action_names: Sequence[ActionName] | None = None,
        episode_ids: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        estimated: bool = False,
        schema: TableSchema | None = None,
        notes: Sequence[str] = (),
        *,
        log_densities: ArrayLike | None = None,
        loggers: ArrayLike | None = None,
        logged_by: Any = None,
        outcomes: ArrayLike | None = None,
        outcome_names: Sequence[str] = (),
        recommended: ArrayLike | None = None,
        lost: ArrayLike | None = None,
        staying: ArrayLike | None = None,
    ) -> None:
        rows, ends = numbers("contexts", contexts, np.float32), numbers("offsets", offsets, np.int64)
        features = () if feature_names is None else tuple(map(str, plain_names(feature_names)))
        width = rows.shape[1] if rows.ndim == 2 else 0
        ids = np.arange(max(ends.size - 1, 0)) if episode_ids is None else array_of("episode_ids", episode_ids)
        self._keep(
            contexts=rows,
            rewards=numbers("rewards", rewards, np.float64),
            offsets=ends,
            feature_names=features or tuple(f"x{column}" for column in range(width)),
            episode_ids=freeze(ids.copy()),
            clusters=None if clusters is None else numbered(clusters),
            propensities=None if propensities is None else numbers("propensities", propensities, np.float64),
            log_densities=None if log_densities is None else numbers("log_densities", log_densities, np.float64),
            lost=None if lost is None else readonly(np.asarray(lost), np.bool_),
            staying=None if staying is None else numbers("staying", staying, np.float64),
            estimated=bool(estimated) and (propensities is not None or log_densities is not None),
            schema=schema,
            notes=tuple(notes),
            loggers=None if loggers is None else numbers("loggers", loggers, np.int64),
            logged_by=logged_by,
            outcomes=None if outcomes is None else numbers("outcomes", outcomes, np.float64),
            outcome_names=tuple(map(str, outcome_names)),
            recommended=None if recommended is None else numbers("recommended", recommended, np.int64),
        )
        self._keep_actions(actions, n_actions, plain_names(() if action_names is None else action_names))
        problems = problems_of(self)
        if problems:
            raise InputError(problems)

    def _keep_actions(self, actions: ArrayLike, n_actions: int | None, names: tuple[ActionName, ...]) -> None:
        done = array_of("actions", actions)
        self._keep(**kind_of(done).fields(done, n_actions, names, self.propensities))

    def _keep(self, **fields: object) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def action_space(self) -> ActionSpace:
        """What can be done: one of a finite set, or amounts."""
        return kind_of(self.actions)(self.action_names)

    @property
    def n_components(self) -> int:
        """How many columns a real-valued action has."""
        return self.action_space.n_components

    @property
    def logging_probabilities(self) -> FloatArray | None:
        """What the logs know of the logging policy: propensities, or log densities."""
        known: FloatArray | None = getattr(self, self.action_space.known_in)
        return known

    def with_logging_probabilities(self, known: ArrayLike | None, estimated: bool = False) -> "Trajectories":
        """The same logs with other ones; `estimated` says whether these come from a model."""
        return replace(self, estimated=estimated, **{self.action_space.known_in: known})  # type: ignore[arg-type]

    def with_propensities(self, propensities: ArrayLike | None, estimated: bool = False) -> "Trajectories":
        """The same logs with other propensities."""
        return replace(self, propensities=propensities, estimated=estimated)  # type: ignore[arg-type]

    def with_log_densities(self, log_densities: ArrayLike | None, estimated: bool = False) -> "Trajectories":
        """The same logs with other log densities."""
        return replace(self, log_densities=log_densities, estimated=estimated)  # type: ignore[arg-type]

    @property
    def knows_logging_policy(self) -> bool:
        """Whether the logs carry what weights take, logged or estimated."""
        return self.logging_probabilities is not None

    @property
    def log_propensities(self) -> FloatArray:
        """The log of the probability, or of the density, [N] that the logging policy gave to the logged action."""
        return self.action_space.log_chances(self)

    @property
    def all_propensities(self) -> FloatArray | None:
        """The probability of every action [N, A]; None where it is not known, or where actions cannot be counted."""
        return None if self.propensities is None or self.propensities.ndim == 1 else self.propensities

    @property
    def logged_propensities(self) -> FloatArray:
        """The probability [N] that the logging policy gave to the logged action."""
        if self.propensities is None:
            raise InputError(
                "these logs carry no propensities: name their column, or estimate them with a behavior model (annotate)"
            )
        if self.propensities.ndim == 1:
            return self.propensities
        return np.asarray(np.take_along_axis(self.propensities, self.actions[:, None], axis=1)[:, 0])

    @property
    def adherence(self) -> float | None:
        """The share of steps where what was recommended was done; None where no recommendations are known."""
        return None if self.recommended is None else float((self.actions == self.recommended).mean())

    @property
    def logging_in_words(self) -> str:
        """What is known of the logging policy."""
        full = (known := self.logging_probabilities) is not None and known.ndim == 2
        which = "no" if known is None else "estimated" if self.estimated else "full" if full else "logged"
        return f"{which} {self.action_space.chances}"

    def __repr__(self) -> str:
        clusters = "" if self.clusters is None else f" in {counted(self.n_units, 'cluster')}"
        lost = "" if self.lost is None else f", {int(self.lost.sum())} lost"
        return (
            f"{type(self).__name__}({self.n_episodes} episodes{clusters}{lost}, {self.n_steps} steps, "
            f"{self.n_features} features, {self.action_space}, {self.logging_in_words})"
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
        """The (discounted) sum of each episode's rewards.

        A lost episode has none: a middle one of those seen stands in its place, where its weight is 0.
        """
        rewards = self.rewards if discount == 1.0 else self.rewards * discount**self.step_numbers
        return with_middle(episode_sums(rewards, self.offsets), self.lost)

    @property
    def seen_weights(self) -> FloatArray | None:
        """The log of what each episode [n] weighs for having been seen; None where all were, or nobody estimated it."""
        return None if self.staying is None else episode_sums(self.staying, self.offsets)

    def outcome(self, name: str) -> FloatArray:
        """One of the further outcomes [N], by name.

        >>> Trajectories([[0.0]], [0], [1], [0, 1], outcomes=[[0.5]], outcome_names=["harm"]).outcome("harm")
        array([0.5])
        """
        if self.outcomes is None or name not in self.outcome_names:
            raise InputError(f"these logs carry no outcome {name!r}: read them with side_outcomes=[{name!r}]")
        return np.asarray(self.outcomes[:, self.outcome_names.index(name)])

    def take(self, episodes: ArrayLike) -> "Trajectories":
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
            "lost": None if self.lost is None else self.lost[chosen],
            "loggers": None if self.loggers is None else self.loggers[chosen],
        }
        return with_sound(self, **arrays)  # rows that were sound are sound

    def split(self, shares: Sequence[float], seed: int) -> "tuple[Trajectories, ...]":
        """Disjoint random parts of whole episodes and clusters, in about the given shares (which sum to at most 1)."""
        # Each part keeps the order of the log, so that only membership is random.
        return tuple(self.take(part) for part in parts_in_shares(self.units, shares, seed))

    def with_history(self, steps: int, initial: bool = False) -> "Trajectories":
        """The logs with lagged contexts and actions, and the number of steps so far, as further features."""
        from poela.data.history import with_history

        return with_history(self, steps, initial)

    def to_table(self) -> "pa.Table":
        """The logs as an Arrow table in the layout that `read_logs` reads without naming columns.

        Clusters become a column `cluster`. That, and whether propensities are estimated, is noted in the schema, which
        Parquet and Arrow files keep and CSV files lose (then say `cluster="cluster"`).
        """
        from poela.data.writing import table_of

        return table_of(self)

    def to_pandas(self) -> Any:
        """The table of `to_table` as a pandas frame, whose `attrs` keep what that notes in its schema."""
        from poela.data.frames import pandas_frame

        return pandas_frame(self.to_table())

    def to_polars(self) -> Any:
        """The table of `to_table` as a polars frame, which has no place for notes.

        To read it back, say `cluster="cluster"` where there is such a column.
        """
        from poela.data.frames import polars_frame

        return polars_frame(self.to_table())

    def to_mdp_arrays(self, terminated: ArrayLike = True) -> "MDPArrays":
        """Flat arrays by the names that d3rlpy's MDPDataset takes: `MDPDataset(**logs.to_mdp_arrays())`.

        `terminated` says whether episodes ended by themselves; others are timeouts. Propensities and names are lost.
        >>> logs = Trajectories([[0.0], [1.0], [0.5]], [0, 1, 1], [0, 1, 2], offsets=[0, 2, 3])
        >>> logs.to_mdp_arrays()["terminals"]
        array([0., 1., 1.], dtype=float32)
        """
        from poela.data.mdp_arrays import mdp_arrays_of

        return mdp_arrays_of(self, terminated)

    @classmethod
    def from_mdp_arrays(
        cls,
        observations: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike,
        terminals: ArrayLike,
        **more: Any,
    ) -> "Trajectories":
        """Logs from flat arrays with flags where episodes end; `more`: timeouts, action_size, propensities, names, ….

        >>> logs = Trajectories.from_mdp_arrays([[0.0], [1.0], [0.5]], [0, 1, 1], [0, 1, 2], [0, 1, 1])
        >>> logs.lengths
        array([2, 1])
        """
        from poela.data.mdp_arrays import from_mdp_arrays

        return from_mdp_arrays(cls, observations, actions, rewards, terminals, **more)
