"""One-step logs as dictionaries in the way of the Open Bandit Pipeline (OBP)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poela.core.errors import InputError
from poela.data.action_space import Finite
from poela.data.mdp_arrays import array_of, count, numbers
from poela.data.trajectories import Trajectories
from poela.data.words import counted, quoted

NEEDED = ("context", "action", "reward")
NO_LOGS = "to_bandit needs logs (Trajectories)"


def from_bandit(feedback: Mapping[str, Any], *, position: int | None = None) -> Trajectories:
    """Logs from a dictionary of bandit feedback: each round is an episode of one step.

    Read are `context` [n, d], `action` [n], `reward` [n] and, where they are there, `n_actions`, `n_rounds`, `pscore`
    [n] (the probability of the logged action) and `pi_b` [n, A] or [n, A, slots] (of every action). Where `position`
    [n] names several slots, say which one to read: the rounds of others are left out. Features of actions
    (`action_context`), `expected_reward` and whatever else is there take no part.

    >>> from_bandit({"context": [[0.5], [0.1]], "action": [2, 0], "reward": [1, 0], "pscore": [0.2, 0.7]})
    Trajectories(2 episodes, 2 steps, 1 features, 3 actions, logged propensities)
    """
    if not isinstance(feedback, Mapping):
        raise InputError("bandit feedback must be a dictionary with the keys context, action and reward")
    missing = [key for key in NEEDED if feedback.get(key) is None]
    if missing:
        raise InputError(f"the feedback has no {quoted(missing)}: it needs context, action and reward of each round")
    contexts, actions = _array(feedback, "context"), _array(feedback, "action")
    if contexts.ndim != 2 or actions.ndim != 1:
        raise InputError(
            f"context must be a matrix [rounds, features] and action a list of whole numbers, not of shapes "
            f"{contexts.shape} and {actions.shape}"
        )
    rounds = len(contexts)
    if not rounds:
        raise InputError("the feedback has no rounds: context has no rows")
    if feedback.get("n_rounds") is not None and count("n_rounds", feedback["n_rounds"]) != rounds:
        raise InputError(f"n_rounds and the rows of context differ: there are {counted(rounds, 'row')}")
    if position is not None:
        position = count("position=", position)
    rows = _rounds_of(feedback, position, rounds)
    propensities = _propensities(feedback, position, rounds)
    logs = Trajectories(
        contexts[rows],
        _of_rounds("action", actions, rounds)[rows],
        _of_rounds("reward", _array(feedback, "reward"), rounds)[rows],
        np.arange(len(rows) + 1),
        propensities=None if propensities is None else propensities[rows],
        n_actions=feedback.get("n_actions"),
        episode_ids=rows,
    )
    _refuse_two_propensities(feedback, logs, rows, rounds)
    return logs


def _refuse_two_propensities(feedback: Mapping[str, Any], logs: Trajectories, rows: NDArray[Any], rounds: int) -> None:
    """Refuse a pscore that is not what pi_b says about the logged action."""
    if feedback.get("pi_b") is None or feedback.get("pscore") is None:
        return
    scores = numbers("pscore", _of_rounds("pscore", _array(feedback, "pscore"), rounds), np.float64)[rows]
    if scores.ndim != 1:
        raise InputError("pscore must be one probability for each round")
    differ = ~np.isclose(scores, logs.logged_propensities, rtol=1e-4, atol=1e-8)
    if differ.any():
        raise InputError(
            f"pscore and pi_b give the logged action different probabilities in {counted(int(differ.sum()), 'round')}, "
            f"first round {rows[differ.argmax()]} (from 0): leave out the one that is wrong"
        )


def to_bandit(logs: Trajectories) -> dict[str, Any]:
    """The logs of one-step episodes as a dictionary of bandit feedback, with the keys that OBP's estimators take.

    >>> logs = Trajectories([[0.5], [0.1]], [1, 0], [1, 0], [0, 1, 2], propensities=[0.2, 0.7])
    >>> feedback = to_bandit(logs)
    >>> feedback["n_rounds"], feedback["n_actions"], feedback["pscore"]
    (2, 2, array([0.2, 0.7]))
    """
    if not isinstance(logs, Trajectories):
        raise InputError(NO_LOGS)
    logs.action_space.must_be(Finite, NO_LOGS)
    longer = int((logs.lengths > 1).sum())
    if longer:
        raise InputError(
            f"{counted(longer, 'episode')} of {logs.n_episodes} have more than one step: a bandit decides once, so "
            "such logs have no form as bandit feedback"
        )
    full = logs.propensities is not None and logs.propensities.ndim == 2
    return {
        "n_rounds": logs.n_episodes,
        "n_actions": logs.n_actions,
        "context": logs.contexts,
        "action_context": None,
        "action": logs.actions,
        "position": None,
        "reward": logs.rewards,
        "pscore": None if logs.propensities is None else logs.logged_propensities,
        "pi_b": logs.propensities[:, :, None] if full and logs.propensities is not None else None,
    }


def _array(feedback: Mapping[str, Any], key: str) -> NDArray[Any]:
    return array_of(key, feedback[key])


def _of_rounds(key: str, values: NDArray[Any], rounds: int) -> NDArray[Any]:
    entries = len(values) if values.ndim else 1
    if not values.ndim or entries != rounds:
        raise InputError(f"{key} has {entries} entries for {counted(rounds, 'round')}: give one for each")
    return values


def _rounds_of(feedback: Mapping[str, Any], position: int | None, rounds: int) -> NDArray[Any]:
    """The rounds of the slot that is read, all where there is only one."""
    if feedback.get("position") is None:
        return np.arange(rounds)
    slots = _of_rounds("position", _array(feedback, "position"), rounds)
    if slots.ndim != 1 or slots.dtype.kind not in "iu":
        raise InputError("position must be a whole number for each round: the slot that was filled")
    known = np.unique(slots)
    if position is None and len(known) > 1:
        raise InputError(
            f"the rounds are of {len(known)} positions, {known.min():g} to {known.max():g}, which are different "
            "decisions: say which one to read with position="
        )
    rows = np.arange(rounds) if position is None else np.flatnonzero(slots == position)
    if not len(rows):
        raise InputError(f"no round has position {position}: there are positions {known.min():g} to {known.max():g}")
    return rows


def _propensities(feedback: Mapping[str, Any], position: int | None, rounds: int) -> NDArray[Any] | None:
    """Of every action where they are known, else of the logged one."""
    if feedback.get("pi_b") is not None:
        every = _of_rounds("pi_b", _array(feedback, "pi_b"), rounds)
        if every.ndim == 2:
            return every
        slot = 0 if position is None or every.shape[-1] == 1 else position
        if every.ndim == 3 and 0 <= slot < every.shape[2] and (every.shape[2] == 1 or position is not None):
            return every[:, :, slot]
        raise InputError(
            f"pi_b is of shape {every.shape}: it must be [rounds, actions], or have a third axis of slots, of which "
            "position= says which to read"
        )
    return None if feedback.get("pscore") is None else _of_rounds("pscore", _array(feedback, "pscore"), rounds)
