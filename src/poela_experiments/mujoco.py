"""Hopper and Walker2D: what is learned from 200 episodes of a random, a medium and an expert policy."""

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from poela_experiments.frame.kept import DIRECTORY, part_file
from poela_experiments.frame.published import published
from poela_experiments.frame.results import Cell, Report, ResultTable, mean_and_error, with_error
from poela_experiments.frame.run import Run
from poela_experiments.mujoco_logs import ENVIRONMENTS, LEVELS
from poela_experiments.mujoco_tasks import (
    AVOIDING,
    CLONE,
    INTERPRETER,
    LOGGING,
    NEEDS,
    PEERS,
    PENALISED,
    PLAIN,
    RIVAL,
    tasks_of,
)
from poela_experiments.order import holds

OURS = (CLONE, PLAIN, PENALISED, RIVAL)
COLUMNS = (LOGGING, *OURS, *PEERS)
TITLES = {"hopper": "Hopper", "walker2d": "Walker2D"}

Found = dict[tuple[str, str, str], list[dict[str, Any]]]  # by learner, robot and level: a piece for each seed


def mujoco(run: Run) -> Report:
    """Scores, support, pairs, the counter-example and every seed."""
    found, missing = _found(run)
    notes = _notes(run, missing)
    return run.report(
        [
            run.table("scores", "Scores: 0 is random, 100 is expert", list(scores(found)), notes),
            run.table("returns", "Returns", list(returns(found)), ("mean ± standard error over seeds",)),
            run.table("support", "What another log of the same policy says", list(support(found)), SUPPORT),
            run.table("pairs", "Differences between learners on the same logs", list(pairs(found)), PAIRS),
            run.table("avoidance", "Step weights normalised by their sum", list(avoided(found)), AVOIDANCE),
            _seeds(run, found),
        ],
        "\n".join(closing(found)),
    )


SUPPORT = (
    "episode ESS: of the episodes of a log from which nothing was learned, weighted by whole episodes; step ESS: the "
    "share of its steps that is left when each is weighted alone",
    "BCQ and CQL of d3rlpy have no density, so nothing is said of them",
)
PAIRS = (
    "mean ± standard error of the difference in score, paired over seeds; won: seeds in which it is positive; higher: "
    "yes or no beyond the 97.5% quantile of Student's t, else open",
)
AVOIDANCE = (
    "after cloning, the mean of the returns that follow logged steps is raised, each weighted by the truncated ratio "
    "of its step alone and normalised by the sum of weights: the objective rises while the policy falls",
)


def _notes(run: Run, missing: Sequence[str]) -> tuple[str, ...]:
    size = run.size
    return (
        f"{size.episodes} episodes in each log, {size.seeds} seeds (log and learner), mean ± standard error of them; "
        f"stochastic policies, {size.roll_outs} roll-outs each; logging policy: the mean of its own episodes",
        "paper: not judged. Its logs are D4RL's, ours are made here with PPO policies; it gives no seeds or errors. "
        "Its behavior column cannot be the logging policy, since the expert's would be 100",
        f"BCQ and CQL: d3rlpy 2.8.1, its own settings but for networks of our size ({size.hidden}) and "
        f"{size.peer_steps} steps, far fewer than in public benchmarks; observations standardised, actions as the "
        "environment clipped them",
        *missing,
    )


def _found(run: Run) -> tuple[Found, list[str]]:
    tasks = {task.name: task for task in tasks_of(run)}
    parts = {name: task.part for name, task in tasks.items()}
    made = {name for name, part in parts.items() if (run.out / DIRECTORY / part_file(name, part)).exists()}
    can = bool(os.environ.get(INTERPRETER) or run.joined or run.shard)
    without = [name for name, task in tasks.items() if task.learner in PEERS and not (can or name in made)]
    found: Found = {}
    for name, piece in run.made({name: part for name, part in parts.items() if name not in without}).items():
        log = tasks[name].log
        found.setdefault((tasks[name].learner, log.robot, log.level), []).append({"seed": log.seed, **piece})
    return found, [NEEDS] if without else []


def cells() -> Iterator[tuple[str, str]]:
    """Robots and levels in the order of the paper's table."""
    yield from product(ENVIRONMENTS, LEVELS)


def values(found: Found, learner: str, robot: str, level: str) -> list[float]:
    """The return of each seed; none where it was not made."""
    return [piece["value"] for piece in found.get((learner, robot, level), [])]


def scored(found: Found, learner: str, robot: str, level: str) -> list[float]:
    """The same as scores: 0 is the mean of the random policy's logs, 100 that of the expert's."""
    low, high = (np.mean(values(found, LOGGING, robot, end)) for end in ("random", "expert"))
    return [float(100 * (value - low) / (high - low)) for value in values(found, learner, robot, level)]


def scores(found: Found) -> Iterator[dict[str, Cell]]:
    """Our row for each log, and the paper's beneath it."""
    paper = published("mujoco")["d4rl"]
    for robot, level in cells():
        name = f"{TITLES[robot]} {level}"
        own = {column: scored(found, column, robot, level) for column in COLUMNS}
        yield {
            "log": name,
            "from": "here",
            **{column: with_error(own[column]) if own[column] else None for column in own},
        }
        columns = {CLONE: "behavior", PENALISED: "POELA", **{peer: peer for peer in PEERS}}
        theirs = {column: paper.find(columns.get(column, ""), "score", name) for column in COLUMNS}
        yield {"log": name, "from": "paper", **{column: f"{n.value:g}" if n else None for column, n in theirs.items()}}


def returns(found: Found) -> Iterator[dict[str, Cell]]:
    """Sums of rewards, as the environments give them."""
    for robot, level in cells():
        own = {column: values(found, column, robot, level) for column in COLUMNS}
        steps = [piece["steps"] for piece in found[LOGGING, robot, level]]
        size: dict[str, Cell] = {"log": f"{TITLES[robot]} {level}", "steps in a log": round(float(np.mean(steps)))}
        yield {**size, **{column: _whole(own[column]) for column in COLUMNS}}


def _whole(numbers: Sequence[float]) -> str | None:
    if not numbers:
        return None
    mean, error = mean_and_error(numbers)
    return f"{mean:.0f}" if error is None else f"{mean:.0f} ± {error:.0f}"


def support(found: Found) -> Iterator[dict[str, Cell]]:
    """Effective sample sizes and verdicts."""
    for (robot, level), column in product(cells(), OURS):
        pieces = found[column, robot, level]
        verdicts = [piece["verdict"] for piece in pieces]
        yield {
            "log": f"{TITLES[robot]} {level}",
            "policy": column,
            "episode ESS": with_error([piece["episode ess"] for piece in pieces]),
            "step ESS": with_error([piece["step ess"] for piece in pieces]),
            "verdict": ", ".join(f"{verdict} ({verdicts.count(verdict)})" for verdict in dict.fromkeys(verdicts)),
        }


def pairs(found: Found, robots: Sequence[str] = tuple(ENVIRONMENTS)) -> Iterator[dict[str, Cell]]:
    """POELA against the clone, the two forms of POELA, and both against the rivals."""
    wanted = (
        (PLAIN, CLONE),
        (PENALISED, CLONE),
        (PENALISED, PLAIN),
        (PENALISED, RIVAL),
        *((PENALISED, p) for p in PEERS),
    )
    for robot, level, (first, second) in product(robots, LEVELS, wanted):
        both = [scored(found, column, robot, level) for column in (first, second)]
        if not all(both):
            continue
        difference = np.subtract(both[0], both[1])
        mean, error = mean_and_error(difference.tolist())
        yield {
            "log": f"{TITLES[robot]} {level}",
            "difference": f"{first} - {second}",
            "score": mean,
            "standard error": error,
            "won": f"{int((difference > 0).sum())} of {len(difference)}",
            "higher": holds(difference.tolist()),
        }


def closing(found: Found) -> Iterator[str]:
    """What the medium logs say, in sentences."""
    for row in pairs(found):
        if str(row["log"]).endswith("medium") and row["standard error"] is not None:
            says = {"yes": "higher", "no": "lower", "open": "no clear difference"}[str(row["higher"])]
            yield f"{row['log']}: {row['difference']} is {row['score']:.1f} ± {row['standard error']:.1f}, {says}."


def avoided(found: Found) -> Iterator[dict[str, Cell]]:
    """Objective and return, step by step."""
    for robot in ENVIRONMENTS:
        paths: list[list[Mapping[str, Any]]] = [piece["points"] for piece in found[AVOIDING, robot, "medium"]]
        for points in zip(*paths, strict=True):
            yield {
                "log": f"{TITLES[robot]} medium",
                "steps": points[0]["steps"],
                "objective": _whole([point["objective"] for point in points]),
                "return": _whole([point["value"] for point in points]),
            }


def _seeds(run: Run, found: Found) -> ResultTable:
    rows: list[dict[str, Cell]] = [
        {
            "log": f"{TITLES[robot]} {level}",
            "policy": column,
            "seed": piece["seed"],
            "return": piece["value"],
            "score": score,
            "episode ESS": piece.get("episode ess"),
            "step ESS": piece.get("step ess"),
            "estimate": piece.get("estimate"),
            "verdict": piece.get("verdict"),
        }
        for (robot, level), column in product(cells(), COLUMNS)
        for piece, score in zip(found.get((column, robot, level), []), scored(found, column, robot, level), strict=True)
    ]
    return run.table("seeds", "Every seed", rows)
