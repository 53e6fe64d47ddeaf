"""The invariants of `Trajectories`, as a list of problems in words."""

from collections.abc import Callable, Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poela.core.arrays import BoolArray, first_bad
from poela.core.ragged import episode_sums
from poela.data.limits import LimitsInContexts
from poela.data.words import counted, quoted

if TYPE_CHECKING:
    from poela.data.trajectories import Trajectories

ROW_SUM_TOLERANCE = 1e-6
EMPTY = "there are no steps: the logs are empty"
EPISODES_TO_LEARN = 3  # one to train on, one to choose by, one to test on
CHUNK_ROWS = 1 << 16
MANY_ACTIONS = 100  # where there are more, and none was taken twice, they are no actions

NO_CONTEXT = "there are no context columns: learning needs at least one"


def problems_of(logs: "Trajectories") -> list[str]:
    """Everything that is wrong with the logs, each as one sentence; empty when all is well."""
    space = logs.action_space
    shapes = _shape_problems(logs) or space.shape_problems(logs)
    if shapes:
        return shapes
    values = _value_problems(logs)
    return [*values, *space.value_problems(logs, sound=not values)]


def _shape_problems(logs: "Trajectories") -> list[str]:
    """Of what all logs have."""
    problems = []
    if logs.contexts.ndim != 2:
        return [f"contexts must be a matrix [steps, features], not of shape {logs.contexts.shape}"]
    steps = len(logs.contexts)
    if steps == 0:
        return [EMPTY]
    if logs.rewards.shape != (steps,):
        problems.append(f"rewards must have shape ({steps},) like the contexts, not {logs.rewards.shape}")
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
    elif logs.schema is not None and logs.schema.feature_names != logs.feature_names:
        problems.append("the schema gives other features than feature_names: leave one of them out")
    problems += _outcome_problems(logs, steps)
    return problems or _naming_problems(logs)


def _outcome_problems(logs: "Trajectories", steps: int) -> list[str]:
    """Of outcomes beside the reward."""
    names = logs.outcome_names
    if logs.outcomes is None:
        return [] if not names else ["outcome_names name outcomes, but there are none: give outcomes [steps, names]"]
    if logs.outcomes.shape != (steps, len(names)) or len(set(names)) < len(names):
        return [f"outcomes must have shape ({steps}, {len(names)}), one column for each of different outcome_names"]
    bad = _rows_where(_not_finite, logs.outcomes)
    if not bad.any():
        return []
    count, first = first_bad(bad)
    return [f"{count} outcomes are NaN or infinite, first at step {first} of the flat log: fill them in"]


def _naming_problems(logs: "Trajectories") -> list[str]:
    """Names of episodes that are more or fewer than these."""
    problems, n = [], logs.n_episodes
    if logs.episode_ids is not None and len(logs.episode_ids) != n:
        problems.append(f"episode_ids must be {n} names, not {len(logs.episode_ids)}")
    if logs.clusters is not None and len(logs.clusters) != n:
        problems.append(f"clusters must name one unit for each of the {n} episodes, not {len(logs.clusters)}")
    if logs.lost is not None and logs.lost.shape != (n,):
        problems.append(f"lost must say for each of the {n} episodes whether it was, not for {len(logs.lost)}")
    if logs.staying is not None and logs.staying.shape != (len(logs.contexts),):
        problems.append(f"staying must have shape ({len(logs.contexts)},), not {logs.staying.shape}")
    return problems


def finite_shapes(logs: "Trajectories") -> list[str]:
    """Of actions out of a finite set, their propensities and names."""
    problems, steps = [], len(logs.contexts)
    if logs.actions.shape != (steps,):
        problems.append(f"actions must have shape ({steps},) like the contexts, not {logs.actions.shape}")
    if logs.propensities is not None and logs.propensities.shape not in {(steps,), (steps, logs.n_actions)}:
        problems.append(
            f"propensities must have shape ({steps},) or ({steps}, {logs.n_actions}), not {logs.propensities.shape}"
        )
    if logs.log_densities is not None:
        problems.append(
            f"log_densities belong to real-valued actions: these must have shape ({steps}, columns), not "
            f"{logs.actions.shape}"
        )
    problems += _action_name_problems(logs.action_names, logs.n_actions)
    if not problems and len({type(name) for name in logs.action_names}) != 1:
        problems.append("action_names must be all text, all whole numbers or all booleans")
    return problems


def real_shapes(logs: "Trajectories") -> list[str]:
    """Of real-valued actions, their log densities and names."""
    problems, steps = [], len(logs.contexts)
    if len(logs.actions) != steps or logs.actions.shape[1] == 0:
        return [f"actions must have shape ({steps}, columns) like the contexts, not {logs.actions.shape}"]
    if logs.propensities is not None:
        problems.append("propensities belong to actions out of a finite set: give log_densities of real-valued ones")
    if logs.log_densities is not None and logs.log_densities.shape != (steps,):
        problems.append(f"log_densities must have shape ({steps},), not {logs.log_densities.shape}")
    return problems + _action_name_problems(logs.action_names, logs.actions.shape[1])


def _action_name_problems(names: Sequence[str | int], count: int) -> list[str]:
    if len(names) == count == len(set(names)):
        return []
    return [f"action_names must be {count} different names, not {len(names)}"]


class _Report:
    """Sentences about steps where something is wrong."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def __call__(self, bad: BoolArray, what: str, remedy: str) -> None:
        if bad.any():
            count, first = first_bad(bad)
            self.problems.append(f"{count} {what}, first at step {first} of the flat log: {remedy}")


def _value_problems(logs: "Trajectories") -> list[str]:
    report = _Report()
    report(
        _rows_where(_not_finite, logs.contexts),
        "contexts hold NaN or infinity",
        "fill them in, drop them, or scale down what single precision cannot hold",
    )
    report(~np.isfinite(logs.rewards), "rewards are NaN or infinite", "fill them in or drop those episodes")
    with np.errstate(over="ignore", invalid="ignore"):
        endless = ~np.isfinite(episode_sums(np.abs(logs.rewards), logs.offsets))
    if not report.problems and endless.any():
        count, first = first_bad(endless)
        report.problems.append(
            f"the rewards of {counted(count, 'episode')} are too large to be summed, first episode {first}: "
            "scale them down"
        )
    return report.problems


def finite_values(logs: "Trajectories", sound: bool) -> list[str]:
    """Actions that are none, or forbidden, and propensities that are no probabilities; `sound`: the rest is."""
    report = _Report()
    report(
        (logs.actions < 0) | (logs.actions >= logs.n_actions),
        f"actions lie outside 0 … {logs.n_actions - 1}",
        "correct them or declare more actions",
    )
    limits = LimitsInContexts.of(logs.feature_names, logs.action_names) if sound and not report.problems else None
    if limits is not None:
        done_at_all = limits.done_at_all(logs.contexts)[np.arange(len(logs.actions)), logs.actions]
        report(~done_at_all, "actions were taken where a feature '… forbidden' forbids them", "correct one of them")
    if sound and not report.problems and logs.propensities is not None:
        logged = logs.logged_propensities
        report(
            ~((logged > 0) & (logged <= 1)),
            "logged propensities lie outside (0, 1]",
            "correct or estimate them",
        )
        if logs.propensities.ndim == 2:
            report(
                _rows_where(_outside_unit, logs.propensities),
                "propensity rows hold values outside [0, 1]",
                "correct them",
            )
            report(_rows_where(_uneven, logs.propensities), "propensity rows do not sum to 1", "correct them")
    return report.problems


def real_values(logs: "Trajectories") -> list[str]:
    """Amounts and log densities that are no numbers."""
    report = _Report()
    report(
        _rows_where(_not_finite, logs.actions),
        "actions hold NaN or infinity",
        "fill them in or drop those episodes",
    )
    if logs.log_densities is not None:
        report(
            ~np.isfinite(logs.log_densities),
            "log densities are NaN or infinite",
            "correct or estimate them: what was done had a density above 0",
        )
    return report.problems


def _rows_where(test: Callable[[NDArray[Any]], BoolArray], matrix: NDArray[Any]) -> BoolArray:
    """The rows [N] for which a test holds, without a temporary of the matrix's size."""
    bad = np.zeros(len(matrix), bool)
    for start in range(0, len(matrix), CHUNK_ROWS):
        rows = slice(start, start + CHUNK_ROWS)
        bad[rows] = test(matrix[rows])
    return bad


def _not_finite(rows: NDArray[Any]) -> BoolArray:
    return np.asarray(~np.isfinite(rows).all(axis=1))


def _outside_unit(rows: NDArray[Any]) -> BoolArray:
    return np.asarray(~((rows >= 0) & (rows <= 1 + 1e-12)).all(axis=1))


def _uneven(rows: NDArray[Any]) -> BoolArray:
    return np.asarray(np.abs(rows.sum(axis=1) - 1) > ROW_SUM_TOLERANCE)


def learning_problems(logs: "Trajectories", merged: Sequence[str] = ()) -> list[str]:
    """Why nothing can be learned from logs that are sound in themselves; empty when something can.

    `merged` are features whose different numbers are the same in single precision.

    >>> from poela.data.trajectories import Trajectories
    >>> learning_problems(Trajectories([[0.0], [1.0], [2.0]], [0, 0, 0], [0, 1, 2], [0, 1, 2, 3]))
    ['the action is the same in every row (3): learning needs at least two actions in the log']
    """
    problems = []
    if logs.n_episodes < EPISODES_TO_LEARN:
        episodes = "is one episode" if logs.n_episodes == 1 else f"are {logs.n_episodes} episodes"
        problems.append(f"there {episodes}: learning needs at least {EPISODES_TO_LEARN}, so add more")
    elif logs.n_units < EPISODES_TO_LEARN:
        clusters = "is one cluster" if logs.n_units == 1 else f"are {logs.n_units} clusters"
        problems.append(
            f"there {clusters} of episodes that stay together: learning needs at least {EPISODES_TO_LEARN}, so add "
            "more, or name smaller ones"
        )
    problems += logs.action_space.learning_problems(logs)
    if logs.n_features == 0:
        problems.append(NO_CONTEXT)
    if merged:
        subject = f"column {quoted(merged)} has" if len(merged) == 1 else f"columns {quoted(merged)} have"
        problems.append(
            f"{subject} numbers, such as whole numbers beyond 2^24, that single precision cannot tell apart: "
            "leave an id out of the context, subtract an offset, or scale them"
        )
    if constant := _constant_features(logs, {*merged}):
        subject = f"column {quoted(constant)} is" if len(constant) == 1 else f"columns {quoted(constant)} are"
        problems.append(f"{subject} constant in every row ({logs.n_steps}): leave out what never changes")
    return problems


def _constant_features(logs: "Trajectories", but: Set[str]) -> list[str]:
    """Features that never change; not those of limits, nor a part of a column that does, such as a rare category.

    Part of a log may have lost a category, or all gaps of a column.
    """
    equal = logs.contexts.min(axis=0) == logs.contexts.max(axis=0)
    constant = {name for name, same in zip(logs.feature_names, equal.tolist(), strict=True) if same} - but
    if logs.schema is not None:
        constant -= set(() if logs.schema.limits is None else logs.schema.limits.features)
        for variable in logs.schema.variables:
            constant -= set() if constant.issuperset(variable.features) else {*variable.features}
    return [name for name in logs.feature_names if name in constant]


def too_few_choices(logs: "Trajectories") -> list[str]:
    """One action alone, or as many as rows: there is nothing to choose."""
    problems, taken = [], np.flatnonzero(np.bincount(logs.actions))
    if len(taken) == 1:
        problems.append(
            f"the action is the same in every row ({logs.n_steps}): learning needs at least two actions in the log"
        )
    if len(taken) == logs.n_steps > MANY_ACTIONS:
        problems.append(
            f"every row ({logs.n_steps}) has an action of its own: name another column as the action, or divide a "
            "continuous dose into levels first"
        )
    return problems


def constant_amounts(logs: "Trajectories") -> list[str]:
    """Columns of amounts that never change."""
    equal = np.flatnonzero(logs.actions.min(axis=0) == logs.actions.max(axis=0))
    if not len(equal):
        return []
    names = quoted([str(logs.action_names[column]) for column in equal])
    return [f"action {names} is the same in every row ({logs.n_steps}): leave out what never changes"]
