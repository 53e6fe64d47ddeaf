"""Logs and random episodes for policies that are served, and the inputs of a graph along them."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from poela.data.tables import read_logs
from poela.data.trajectories import Trajectories

FEATURES, ACTIONS = ("age", "sofa", "dose so far"), ("wait", "low", "high")


def logs(episodes: int = 60, length: int = 6, seed: int = 0, *, propensities: bool = True) -> Trajectories:
    """A continuous feature, a whole number and a third; the action depends on the first."""
    rng = np.random.default_rng(seed)
    steps = episodes * length
    contexts = np.stack([rng.normal(size=steps), rng.integers(0, 5, steps), rng.gamma(2.0, size=steps)], axis=1)
    scores = np.stack([np.zeros(steps), contexts[:, 0], -contexts[:, 0]], axis=1)
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    actions = (chances.cumsum(axis=1) < rng.random((steps, 1))).sum(axis=1)
    return Trajectories(
        contexts,
        actions,
        (actions == (contexts[:, 1] > 2)) + rng.normal(size=steps),
        np.arange(0, steps + 1, length),
        chances if propensities else None,
        feature_names=FEATURES,
        action_names=ACTIONS,
    )


def random_episodes(train: Trajectories, steps: int = 10_000, seed: int = 1) -> Trajectories:
    """Episodes of random contexts: many logged ones, many near them, many far from all; some longer than any logged."""
    rng = np.random.default_rng(seed)
    logged = train.contexts[rng.integers(train.n_steps, size=steps)]
    spread = train.contexts.std(axis=0)
    noise = rng.normal(size=logged.shape) * spread * rng.choice([0.0, 0.01, 0.3, 4.0], size=(steps, 1))
    ends = np.append(np.flatnonzero(rng.random(steps - 1) < 0.1) + 1, steps)
    return Trajectories(
        (logged + noise).astype(np.float32),
        rng.integers(train.n_actions, size=steps),
        np.zeros(steps),
        np.unique([0, *ends]),
        n_actions=train.n_actions,
        feature_names=train.feature_names,
        action_names=train.action_names,
    )


def graph_inputs(episodes: Trajectories, lags: int = 2) -> dict[str, NDArray[Any]]:
    """What a graph is given at each step, row by row; what came before the first step is rubbish, to be ignored."""
    n, width = episodes.contexts.shape
    steps = np.zeros(n, np.int64)
    before = np.full((n, lags, width), 123.0, np.float32)
    taken = np.full((n, lags), 77, np.int64)
    first = np.full((n, width), 55.0, np.float32)
    for start, end in zip(episodes.offsets[:-1], episodes.offsets[1:], strict=True):
        for row in range(start, end):
            steps[row] = row - start
            first[row] = episodes.contexts[start]
            for lag in range(1, min(lags, row - start) + 1):
                before[row, lag - 1] = episodes.contexts[row - lag]
                taken[row, lag - 1] = episodes.actions[row - lag]
    return {
        "contexts": episodes.contexts,
        "steps": steps,
        "previous_contexts": before,
        "previous_actions": taken,
        "first_contexts": first,
    }


def mixed_logs(episodes: int = 60, length: int = 5) -> Trajectories:
    """A table with text, gaps, an ordinal and a date among its columns."""
    rng = np.random.default_rng(4)
    n = episodes * length
    hours = np.tile(np.arange(length), episodes)
    table = pa.table(
        {
            "stay": np.repeat(np.arange(episodes), length),
            "hour": hours,
            "age": pa.array(rng.normal(60, 9, n), mask=rng.random(n) < 0.1),
            "ward": rng.choice(["ICU", "surgery", "general"], n),
            "risk": rng.choice(["low", "middle", "high"], n),
            "seen": np.datetime64("2020-01-01T00:00:00", "us") + hours * np.timedelta64(3600, "s"),
            "dose": rng.choice(["none", "some"], n),
            "reward": rng.normal(size=n),
            "chance": np.full(n, 0.5),
        }
    )
    logs: Trajectories = read_logs(
        table,
        episode="stay",
        step="hour",
        action="dose",
        reward="reward",
        propensity="chance",
        context=["age", "ward", "risk", "seen"],
        ordinal={"risk": ["low", "middle", "high"]},
    )
    return logs


def inputs_of(graph: Any, every: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Those of these inputs that a graph asks for, with as many earlier steps as it wants."""
    lags = {one.name: one.shape[1] for one in graph.get_inputs() if one.name.startswith("previous_")}
    return {
        one.name: every[one.name][:, : lags[one.name]] if one.name in lags else every[one.name]
        for one in graph.get_inputs()
    }
