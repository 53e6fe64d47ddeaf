"""Several logs as one: their episodes, one log after the other."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poela.core.arrays import IntArray, with_sound
from poela.core.errors import InputError
from poela.data.trajectories import Trajectories


def joined(*logs: Trajectories) -> Trajectories:
    """The episodes of all logs, which have the same features and actions, in this order.

    Of propensities it keeps what all of them know: those of every action, of the logged one, or none. Clusters of
    different logs are different ones.

    >>> logs = Trajectories([[0.0], [1.0]], [0, 1], [1.0, 3.0], [0, 2])
    >>> joined(logs, logs).returns()
    array([4., 4.])
    """
    first = logs[0]
    alike = all(one.n_features == first.n_features and one.actions.shape[1:] == first.actions.shape[1:] for one in logs)
    if not alike or max(one.n_actions for one in logs) > first.n_actions:
        raise InputError("these logs have other features or actions than the first: read them in the same layout")
    known, ids, outcomes = _known(logs), _ids(logs), _outcomes(logs)
    return with_sound(
        first,  # logs that were sound are sound together
        contexts=np.concatenate([one.contexts for one in logs]),
        actions=np.concatenate([one.actions for one in logs]),
        rewards=np.concatenate([one.rewards for one in logs]),
        offsets=np.concatenate(
            [[0], *(one.offsets[1:] + start for one, start in zip(logs, _starts(logs), strict=True))]
        ),
        **{"propensities": None, "log_densities": None, **known},
        episode_ids=np.arange(sum(one.n_episodes for one in logs)) if ids is None else ids,
        clusters=_clusters(logs),
        estimated=bool(known) and any(one.estimated for one in logs),
        notes=(),
        loggers=_loggers(logs),
        logged_by=None,
        recommended=None,
        **_losses(logs),
        outcomes=outcomes,
        outcome_names=() if outcomes is None else first.outcome_names,
    )


def _losses(logs: tuple[Trajectories, ...]) -> dict[str, Any]:
    """Which episodes were lost, and what having been seen weighs, where that is known of all that lost some."""
    found: dict[str, Any] = {"lost": None, "staying": None}
    if any(one.lost is not None for one in logs):
        found["lost"] = np.concatenate([np.zeros(len(one), bool) if one.lost is None else one.lost for one in logs])
    if any(one.staying is not None for one in logs) and all(
        one.lost is None or one.staying is not None for one in logs
    ):
        found["staying"] = np.concatenate(
            [np.zeros(one.n_steps) if one.staying is None else one.staying for one in logs]
        )
    return found


def _starts(logs: tuple[Trajectories, ...]) -> IntArray:
    return np.cumsum([0, *(one.n_steps for one in logs[:-1])])


def _known(logs: tuple[Trajectories, ...]) -> dict[str, Any]:
    """What all logs know of their logging policies."""
    known = [one.logging_probabilities for one in logs]
    if any(rows is None for rows in known):
        return {}
    alike = len({np.ndim(own) for own in known if own is not None}) == 1
    rows: Any = [own if alike else one.logged_propensities for one, own in zip(logs, known, strict=True)]
    return {logs[0].action_space.known_in: np.concatenate(rows)}


def _ids(logs: tuple[Trajectories, ...]) -> NDArray[Any] | None:
    """The names of all episodes, where no two are the same; else they are numbered."""
    ids = [np.asarray(one.episode_ids) for one in logs]
    if len({one.dtype.kind for one in ids}) > 1:
        return None
    every = np.concatenate(ids)
    return every if len(set(every.tolist())) == len(every) else None


def _clusters(logs: tuple[Trajectories, ...]) -> IntArray | None:
    if all(one.clusters is None for one in logs):
        return None
    starts = np.cumsum([0, *(one.n_units for one in logs[:-1])])
    return np.concatenate([one.units + start for one, start in zip(logs, starts, strict=True)])


def _loggers(logs: tuple[Trajectories, ...]) -> IntArray | None:
    numbers = [one.loggers for one in logs if one.loggers is not None]
    return np.concatenate(numbers) if len(numbers) == len(logs) else None


def _outcomes(logs: tuple[Trajectories, ...]) -> NDArray[Any] | None:
    """What else came of decisions, where all logs have it, by the same names."""
    known = [one.outcomes for one in logs if one.outcomes is not None and one.outcome_names == logs[0].outcome_names]
    return np.concatenate(known) if len(known) == len(logs) else None
