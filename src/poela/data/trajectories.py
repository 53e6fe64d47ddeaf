"""`Trajectories`: ragged episodes stored flat. Construction validates, so nobody downstream has to."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poela.core.arrays import Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.data.array_inputs import count, numbers, plain_names, whole
from poela.data.checks import problems_of
from poela.data.episodes import ActionName as ActionName
from poela.data.episodes import LoggedEpisodes
from poela.data.schema import TableSchema

if TYPE_CHECKING:
    import pyarrow as pa

    from poela.data.mdp_arrays import MDPArrays

MOST_ACTIONS = 100_000


@dataclass(frozen=True, eq=False, repr=False)
class Trajectories(LoggedEpisodes):
    """Logged decisions: contexts, actions and rewards of ragged episodes, flat, in step order.

    >>> logs = Trajectories(contexts=[[0.0], [1.0], [0.5]], actions=[0, 1, 1], rewards=[0, 1, 2], offsets=[0, 2, 3])
    >>> logs
    Trajectories(2 episodes, 3 steps, 1 features, 2 actions, no propensities)
    >>> logs.returns()
    array([1., 2.])

    `clusters` names the independent unit of each episode, such as the patient of several stays; whatever splits or
    resamples episodes keeps those of one cluster together. `estimated` says that propensities come from a model.
    `schema` says how the columns of the table that was read became features, `notes` what was done on the way.
    """

    by_step: ClassVar = ("contexts", "actions", "rewards", "propensities")

    contexts: Float32Array  # [N, d]
    actions: IntArray  # [N]
    rewards: FloatArray  # [N]
    offsets: IntArray  # [n + 1]
    propensities: FloatArray | None = None  # [N, A] of every action, or [N] of the logged one
    n_actions: int = 0  # 0: as many as the data show
    feature_names: tuple[str, ...] = ()
    action_names: tuple[ActionName, ...] = ()
    episode_ids: NDArray[Any] | None = None  # [n]
    clusters: IntArray | None = None  # [n], numbered from 0 in order of first appearance; None: each episode is its own
    estimated: bool = False  # whether propensities are estimates of a model
    schema: TableSchema | None = None  # None: these were arrays
    notes: tuple[str, ...] = ()

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
    ) -> None:
        self._keep_shared(contexts, rewards, offsets, feature_names, episode_ids, clusters)
        self._keep(
            actions=numbers("actions", whole(actions), np.int64),
            propensities=None if propensities is None else numbers("propensities", propensities, np.float64),
        )
        names = plain_names(() if action_names is None else action_names)
        seen = int(self.actions.max(initial=-1)) + 1
        self._keep(n_actions=count("n_actions", n_actions) or len(names) or self._width_of_propensities() or seen)
        if self.n_actions > MOST_ACTIONS:
            raise InputError(f"there are {self.n_actions} actions: at most {MOST_ACTIONS}, from 0 on, can be read")
        self._keep(
            action_names=names or tuple(range(self.n_actions)),
            estimated=bool(estimated) and self.propensities is not None,
            schema=schema,
            notes=tuple(notes),
        )
        problems = problems_of(self)
        if problems:
            raise InputError(problems)

    def _width_of_propensities(self) -> int:
        return 0 if self.propensities is None or self.propensities.ndim == 1 else self.propensities.shape[1]

    @property
    def actions_in_words(self) -> str:
        """How many actions there are."""
        return f"{self.n_actions} actions"

    @property
    def propensities_in_words(self) -> str:
        """Whether there are propensities, and of what kind."""
        kinds = {None: "no propensities", 1: "logged propensities", 2: "full propensities"}
        known = kinds[None if self.propensities is None else self.propensities.ndim]
        return "estimated propensities" if self.estimated else known

    @property
    def chances(self) -> FloatArray | None:
        """The propensities."""
        return self.propensities

    def with_chances(self, chances: ArrayLike | None, estimated: bool = False) -> "Trajectories":
        """As `with_propensities`."""
        return self.with_propensities(chances, estimated)

    @property
    def log_propensities(self) -> FloatArray:
        """The log of `logged_propensities` [N]."""
        return np.asarray(np.log(self.logged_propensities))

    @property
    def all_propensities(self) -> FloatArray | None:
        """The propensities of every action [N, A], where those are known."""
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

    def with_propensities(self, propensities: ArrayLike | None, estimated: bool = False) -> "Trajectories":
        """The same logs with other propensities; `estimated` says whether these come from a model."""
        return replace(self, propensities=propensities, estimated=estimated)  # type: ignore[arg-type]

    def with_history(self, steps: int, initial: bool = False) -> "Trajectories":
        """The logs with lagged contexts and actions, and the number of steps so far, as further features."""
        from poela.data.history import with_history

        return with_history(self, steps, initial)

    def to_table(self) -> "pa.Table":
        """The logs as an Arrow table in the layout that `read_logs` reads without naming columns.

        Clusters become a column `cluster`. That this is what it is, and whether propensities are estimated, is noted
        in the schema: Parquet and Arrow files keep it, while CSV files lose it (then say `cluster="cluster"`).
        """
        from poela.data.writing import table_of

        return table_of(self)

    def to_pandas(self) -> Any:
        """The table of `to_table` as a pandas frame, whose `attrs` keep what that notes in its schema."""
        from poela.data.frames import pandas_frame

        return pandas_frame(self.to_table())

    def to_polars(self) -> Any:
        """The table of `to_table` as a polars frame, which has no place for notes.

        To read it back, say `cluster="cluster"` where there is such a column, and mark estimated propensities again.
        """
        from poela.data.frames import polars_frame

        return polars_frame(self.to_table())

    def to_mdp_arrays(self, terminated: ArrayLike = True) -> "MDPArrays":
        """Flat arrays by the names that d3rlpy's MDPDataset takes: `MDPDataset(**logs.to_mdp_arrays())`.

        `terminated` says whether episodes ended by themselves, for all or for each; others are timeouts. Propensities
        and names have no place there.

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

        return from_mdp_arrays(observations, actions, rewards, terminals, **more)
