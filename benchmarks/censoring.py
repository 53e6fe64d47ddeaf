"""Intervals of values and gains where outcomes were lost, and loss has to do with what was done and how things went.

    python benchmarks/censoring.py --logs 500 --jobs 16 --minutes 25
    python benchmarks/censoring.py --table docs/results/limits/censoring

Three processes, of one step and of four. Those who are lost fare otherwise than those who are seen. Each log is
evaluated with the weights of having been seen, as `poela` estimates them, and by those seen alone, as if they were all.
The truth is the mean of a million episodes under the policy in which nobody is lost; rows go on where there are some.
"""

import argparse
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stored_rows import Row, add_flags, carry_out, rows_in, seeds

import poela
from poela.data.trajectories import Trajectories

Numbers = NDArray[Any]
FIRST_SEED, EPISODES_OF_TRUTH = 40_000, 1_000_000
ESTIMATORS = ("sntis", "dr")


def sigmoid(score: Numbers) -> Numbers:
    """A probability from its log odds."""
    return np.asarray(1 / (1 + np.exp(-score)))


def sick_go(x: Numbers, actions: Numbers) -> Numbers:
    """The sick go, above all when they are treated."""
    return sigmoid(1.2 + 1.2 * x[:, 0] + 0.6 * x[:, 0] * (2 * actions - 1))


def burdened_go(x: Numbers, actions: Numbers) -> Numbers:
    """Treatment drives away those whom it does not help, and the sick go anyway."""
    return sigmoid(1.4 + 1.0 * x[:, 0] + 1.2 * x[:, 1] * actions)


def extremes_go(x: Numbers, actions: Numbers) -> Numbers:
    """Those far from the middle go, which no straight line tells; treatment holds the well and drives away the sick."""
    return sigmoid(2.4 - 1.3 * np.abs(x[:, 0]) + (0.4 + 1.2 * actions) * x[:, 0])


STAYING: dict[str, Callable[[Numbers, Numbers], Numbers]] = {
    "sick-go": sick_go,
    "burdened-go": burdened_go,
    "extremes-go": extremes_go,
}


def _stays(kind: str, steps: int, x: Numbers, actions: Numbers) -> Numbers:
    """The chance of staying at a step; of several steps, that of staying through all of them is about the same."""
    return np.asarray(STAYING[kind](x, actions) ** (1 / steps))


class Target:
    """The policy that is judged: treat where it helps."""

    def probabilities(self, contexts: Numbers) -> Numbers:
        """[N, 2]."""
        treated = sigmoid(1.2 * np.asarray(contexts, np.float64)[:, 0])
        return np.stack([1 - treated, treated], axis=1)


def logging(x: Numbers) -> Numbers:
    """The chance that a case was treated."""
    return sigmoid(0.4 * x[:, 0] - 0.3 * x[:, 1])


def simulate(
    steps: int, n: int, rng: np.random.Generator, treats: Callable[[Numbers], Numbers]
) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Contexts [n, T, 2], actions, rewards and chances of treatment [n, T]; nobody is lost."""
    x = rng.normal(size=(n, 2))
    contexts, actions, rewards, chances = [], [], [], []
    for _ in range(steps):
        chance = treats(x)
        action = (rng.random(n) < chance).astype(np.int64)
        reward = x[:, 0] + action * (0.8 * x[:, 0] + 0.5 * x[:, 1]) + rng.normal(scale=0.5, size=n)
        contexts.append(x)
        actions.append(action)
        rewards.append(reward / steps)
        chances.append(chance)
        x = 0.6 * x + 0.3 * (2 * action - 1)[:, None] + rng.normal(scale=0.6, size=(n, 2))
    return np.stack(contexts, 1), np.stack(actions, 1), np.stack(rewards, 1), np.stack(chances, 1)


@cache
def truth(steps: int) -> tuple[float, float]:
    """The values of the target and of the logging policy."""
    rng = np.random.default_rng(7)
    policies: list[Callable[[Numbers], Numbers]] = [lambda x: Target().probabilities(x)[:, 1], logging]
    values = [simulate(steps, EPISODES_OF_TRUTH, rng, treats)[2].sum(axis=1).mean() for treats in policies]
    return float(values[0]), float(values[1])


def logged(kind: str, steps: int, n: int, seed: int) -> Trajectories:
    """A log of n episodes, some of which broke off."""
    rng = np.random.default_rng((seed, steps, sorted(STAYING).index(kind)))
    contexts, actions, rewards, chances = simulate(steps, n, rng, logging)
    stays = np.stack([rng.random(n) < _stays(kind, steps, contexts[:, t], actions[:, t]) for t in range(steps)], 1)
    gone = (~stays).any(axis=1)
    lengths = np.where(gone, (~stays).argmax(axis=1) + 1, steps)
    there = np.arange(steps) < lengths[:, None]
    seen = there & ~(gone[:, None] & (np.arange(steps) == lengths[:, None] - 1))
    known = np.stack([1 - chances[there], chances[there]], axis=1)
    return Trajectories(
        contexts[there],
        actions[there],
        np.where(seen, rewards, 0.0)[there],
        np.append(0, np.cumsum(lengths)),
        propensities=known,
        lost=gone,
    )


def complete(logs: Trajectories) -> Trajectories:
    """Those seen alone, as if they were all."""
    assert logs.lost is not None
    kept = logs.take(~logs.lost)
    return Trajectories(kept.contexts, kept.actions, kept.rewards, kept.offsets, propensities=kept.propensities)


def row_of(kind: str, steps: int, episodes: int, seed: int) -> Row:
    """Intervals by each way, and the truth."""
    process = kind.rpartition("-")[0]
    logs = logged(process, steps, episodes, seed)
    value, achieved = truth(steps)
    row: Row = {"process": process, "steps": steps, "value": value, "gain": value - achieved}
    row["lost"] = float(np.mean(np.asarray(logs.lost)))
    for way, given in (("weighted", logs), ("complete", complete(logs))):
        for estimator in ESTIMATORS:
            found = poela.evaluate(Target(), given, estimator=estimator, seed=seed)
            gain = found.gain
            row[f"{way} {estimator}"] = [found.low, found.value, found.high, found.ess]
            row[f"{way} {estimator} gain"] = None if gain is None else [gain.low, gain.value, gain.high]
    return row


def table(rows: list[Row]) -> str:
    """How often intervals hold the truth."""
    lines = [
        "| process | steps | logs | lost | estimate | covers value | covers gain | bias of value |",
        "|" + "---|" * 8,
    ]
    for kind in STAYING:
        for steps in (1, 4):
            own = [row for row in rows if (row["process"], row["steps"]) == (kind, steps)]
            for way in ("weighted", "complete") if own else ():
                for estimator in ESTIMATORS:
                    key = f"{way} {estimator}"
                    lost = np.mean([row["lost"] for row in own])
                    bias = np.mean([row[key][1] - row["value"] for row in own])
                    shares = [_covered([row[key] for row in own], [row["value"] for row in own])]
                    shares.append(_covered([row[f"{key} gain"] for row in own], [row["gain"] for row in own]))
                    cells = [
                        kind,
                        steps,
                        len(own),
                        f"{lost:.0%}",
                        key,
                        *(f"{one:.1%}" for one in shares),
                        f"{bias:+.3f}",
                    ]
                    lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def _covered(intervals: list[Any], truths: list[float]) -> float:
    known = [(one, true) for one, true in zip(intervals, truths, strict=True) if one is not None and one[0] is not None]
    return float(np.mean([one[0] <= true <= one[2] for one, true in known])) if known else float("nan")


def main() -> None:
    """Measure, or print what was."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=1000, help="in each log")
    add_flags(parser, "docs/results/limits/censoring")
    asked = parser.parse_args()
    if asked.table is None:
        logs = seeds(FIRST_SEED if asked.first is None else asked.first, asked.logs, asked.shard)
        kinds = [(f"{process}-{steps}", steps) for process in STAYING for steps in (1, 4)]
        tasks = [(kind, steps, asked.episodes, seed) for seed in logs for kind, steps in kinds]
        for _ in carry_out(tasks, row_of, asked.out, asked.shard, asked.jobs, asked.minutes):
            pass
    print(table(rows_in(asked.table or asked.out)))


if __name__ == "__main__":
    main()
