"""The invariants of `Trajectories`, as a list of problems in words."""

from typing import TYPE_CHECKING

import numpy as np

from poela.core.arrays import BoolArray, first_bad

if TYPE_CHECKING:
    from poela.data.trajectories import Trajectories

ROW_SUM_TOLERANCE = 1e-6


def problems_of(logs: "Trajectories") -> list[str]:
    """Everything that is wrong with the logs, each as one sentence; empty when all is well."""
    shapes = _shape_problems(logs)
    return shapes if shapes else _value_problems(logs)


def _shape_problems(logs: "Trajectories") -> list[str]:
    problems = []
    if logs.contexts.ndim != 2:
        return [f"contexts must be a matrix [steps, features], not of shape {logs.contexts.shape}"]
    steps = len(logs.contexts)
    if steps == 0:
        return ["there are no steps: the logs are empty"]
    for name in ("actions", "rewards"):
        shape = getattr(logs, name).shape
        if shape != (steps,):
            problems.append(f"{name} must have shape ({steps},) like the contexts, not {shape}")
    if logs.propensities is not None and logs.propensities.shape not in {(steps,), (steps, logs.n_actions)}:
        problems.append(
            f"propensities must have shape ({steps},) or ({steps}, {logs.n_actions}), not {logs.propensities.shape}"
        )
    offsets = logs.offsets
    if offsets.ndim != 1 or len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != steps:
        problems.append(f"offsets must start at 0 and end at the number of steps, {steps}")
    elif (np.diff(offsets) <= 0).any():
        count, first = first_bad(np.diff(offsets) <= 0)
        problems.append(f"offsets must increase: {count} episodes are empty, first episode {first}")
    if len(logs.feature_names) != logs.contexts.shape[1] or len(set(logs.feature_names)) != len(logs.feature_names):
        problems.append(
            f"feature_names must be {logs.contexts.shape[1]} different names, not {len(logs.feature_names)}"
        )
    if len(logs.action_names) != logs.n_actions or len(set(logs.action_names)) != len(logs.action_names):
        problems.append(f"action_names must be {logs.n_actions} different names, not {len(logs.action_names)}")
    if not problems and logs.episode_ids is not None and len(logs.episode_ids) != logs.n_episodes:
        problems.append(f"episode_ids must be {logs.n_episodes} names, not {len(logs.episode_ids)}")
    return problems


def _value_problems(logs: "Trajectories") -> list[str]:
    problems: list[str] = []

    def report(bad: BoolArray, what: str, remedy: str) -> None:
        if bad.any():
            count, first = first_bad(bad)
            problems.append(f"{count} {what}, first at step {first} of the flat log: {remedy}")

    report(~np.isfinite(logs.contexts), "contexts hold NaN or infinity", "fill them in or drop those episodes")
    report(~np.isfinite(logs.rewards), "rewards are NaN or infinite", "fill them in or drop those episodes")
    report(
        (logs.actions < 0) | (logs.actions >= logs.n_actions),
        f"actions lie outside 0 … {logs.n_actions - 1}",
        "correct them or declare more actions",
    )
    if not problems and logs.propensities is not None:
        logged = logs.logged_propensities
        report(
            ~((logged > 0) & (logged <= 1)),
            "logged propensities lie outside (0, 1]",
            "correct or estimate them",
        )
        if logs.propensities.ndim == 2:
            rows = logs.propensities
            report(
                ~((rows >= 0) & (rows <= 1 + 1e-12)),
                "propensity rows hold values outside [0, 1]",
                "correct them",
            )
            report(
                np.abs(rows.sum(axis=1) - 1) > ROW_SUM_TOLERANCE,
                "propensity rows do not sum to 1",
                "correct them",
            )
    return problems
