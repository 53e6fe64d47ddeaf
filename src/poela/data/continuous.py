"""`ContinuousTrajectories`: logs whose actions are real numbers, such as doses, in one column or several."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poela.core.arrays import Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.data.array_inputs import numbers, plain_names
from poela.data.checks import problems_of
from poela.data.episodes import ActionName, LoggedEpisodes
from poela.data.schema import TableSchema
from poela.data.trajectories import Trajectories
from poela.data.words import counted

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False, repr=False)
class ContinuousTrajectories(LoggedEpisodes):
    """Logged decisions with real-valued actions; log densities take the place of propensities.

    `log_densities` are those of the logged actions under the logging policy, in the units of the actions. What an
    environment clips is logged as it was before, since the density belongs to that.

    >>> logs = ContinuousTrajectories([[0.0], [1.0], [0.5]], [[0.1], [0.7], [0.4]], [0, 1, 2], offsets=[0, 2, 3])
    >>> logs
    ContinuousTrajectories(2 episodes, 3 steps, 1 features, 1 action column, no log densities)
    >>> logs.take([1]).actions
    array([[0.4]])
    """

    by_step: ClassVar = ("contexts", "actions", "rewards", "log_densities")

    contexts: Float32Array  # [N, d]
    actions: FloatArray  # [N, m]
    rewards: FloatArray  # [N]
    offsets: IntArray  # [n + 1]
    log_densities: FloatArray | None = None  # [N]
    feature_names: tuple[str, ...] = ()
    action_names: tuple[ActionName, ...] = ()  # of the m columns
    episode_ids: NDArray[Any] | None = None  # [n]
    clusters: IntArray | None = None  # [n]
    estimated: bool = False  # whether log densities are estimates of a model
    schema: TableSchema | None = None  # None: these were arrays
    notes: tuple[str, ...] = ()

    def __init__(
        self,
        contexts: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike,
        offsets: ArrayLike,
        log_densities: ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        action_names: Sequence[ActionName] | None = None,
        episode_ids: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        estimated: bool = False,
        schema: TableSchema | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self._keep_shared(contexts, rewards, offsets, feature_names, episode_ids, clusters)
        done = numbers("actions", actions, np.float64)
        width = done.shape[1] if done.ndim == 2 else 0
        names = () if action_names is None else tuple(map(str, plain_names(action_names)))
        self._keep(
            actions=done,
            log_densities=None if log_densities is None else numbers("log_densities", log_densities, np.float64),
            action_names=names or (("action",) if width == 1 else tuple(f"action_{place}" for place in range(width))),
            estimated=bool(estimated) and log_densities is not None,
            schema=schema,
            notes=tuple(notes),
        )
        problems = problems_of(self)
        if problems:
            raise InputError(problems)

    @property
    def n_components(self) -> int:
        """How many columns an action has."""
        return int(self.actions.shape[1])

    @property
    def actions_in_words(self) -> str:
        """How many columns an action has."""
        return counted(self.n_components, "action column")

    @property
    def propensities_in_words(self) -> str:
        """Whether there are log densities, and of what kind."""
        if self.log_densities is None:
            return "no log densities"
        return "estimated log densities" if self.estimated else "logged log densities"

    @property
    def chances(self) -> FloatArray | None:
        """The log densities."""
        return self.log_densities

    def with_chances(self, chances: ArrayLike | None, estimated: bool = False) -> "ContinuousTrajectories":
        """As `with_log_densities`."""
        return self.with_log_densities(chances, estimated)

    @property
    def log_propensities(self) -> FloatArray:
        """The log densities [N], which must be known."""
        if self.log_densities is None:
            raise InputError(
                "these logs carry no log densities: name their column, or estimate them (GaussianBehavior().annotate)"
            )
        return self.log_densities

    @property
    def all_propensities(self) -> None:
        """Nothing: real-valued actions cannot be counted."""
        return None

    def with_log_densities(self, log_densities: ArrayLike | None, estimated: bool = False) -> "ContinuousTrajectories":
        """The same logs with other log densities; `estimated` says whether these come from a model."""
        return replace(self, log_densities=log_densities, estimated=estimated)  # type: ignore[arg-type]

    def to_table(self) -> "pa.Table":
        """The logs as an Arrow table that `read_logs` reads back."""
        from poela.data.writing import table_of

        return table_of(self)


Logs = Trajectories | ContinuousTrajectories


def finite_actions(logs: LoggedEpisodes, what: str) -> Trajectories:
    """The logs, whose actions must be a finite set; else one sentence that begins with what asks for that.

    >>> finite_actions(ContinuousTrajectories([[0.0]], [[0.5]], [1.0], [0, 1]), "a model of values")
    Traceback (most recent call last):
    poela.core.errors.InputError: a model of values needs a finite set of actions, and these logs have real numbers ...
    """
    if isinstance(logs, Trajectories):
        return logs
    raise InputError(
        f"{what} needs a finite set of actions, and these logs have real numbers as actions: choose what does without, "
        "such as the estimator 'sntis', or divide them into levels first"
    )


def continuous_actions(logs: LoggedEpisodes, what: str) -> ContinuousTrajectories:
    """The logs, whose actions must be real numbers."""
    if isinstance(logs, ContinuousTrajectories):
        return logs
    raise InputError(f"{what} needs real-valued actions, and these logs have a finite set: choose another learner")
