"""Sixty policies of tumor size learned as one stack, beside one of them alone, on the GPU where there is one.

    python benchmarks/stack_speed.py [--sepsis]

`--sepsis`: 48 policies of 256 × 256, 500 and 1000 steps on 9000 episodes of sepsis; for a GPU.
Prints both times, the ratio to learning them one after the other, and whether a second run gives the same bits.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from poela.data.trajectories import Trajectories
from poela.learners.learner import Learner
from poela.learners.policy_gradient import POCRM, POELA
from poela.learners.stacked import Learned, Member, fit_stacked
from poela.networks.modules import device_of
from poela.simulators.registry import simulate

PENALTIES, RADII, SEEDS = (0.0, 0.1, 1.0), (0.05, 0.1, 0.5), range(5)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what came of it."""
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def weights(learned: Learned) -> list[np.ndarray]:
    """Of the final policy."""
    return list(learned.checkpoints[-1].policy.network.weights().values())


def tumor_size() -> tuple[Trajectories, list[Member]]:
    """A log of 30,000 steps, and sixty small networks."""
    learners: list[Learner] = [
        *(POELA(radius=r, variance_penalty=p, checkpoints=25) for r in RADII for p in PENALTIES),
        *(POCRM(variance_penalty=p, checkpoints=25) for p in PENALTIES),
    ]
    return simulate("tumor", episodes=1000, seed=7), [Member(learner, seed) for learner in learners for seed in SEEDS]


def sepsis_size() -> tuple[Trajectories, list[Member]]:
    """A log of some 70,000 steps, and 48 large networks under four rules."""
    learners = [
        POELA(radius=radius, scale="standard", variance_penalty=penalty, hidden=(256, 256), steps=1000, checkpoints=20)
        for radius in (0.4, 0.6, 0.8, 1.0)
        for penalty in (*PENALTIES, 10.0)
    ]
    train = simulate("sepsis", episodes=9000, seed=7, hidden=False)
    return train, [Member(learner, seed) for learner in learners for seed in range(3)]


def main() -> None:
    """Time and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sepsis", action="store_true")
    train, members = sepsis_size() if parser.parse_args().sepsis else tumor_size()
    _, first = timed(lambda: fit_stacked(members, train))  # and whatever is slow the first time
    together, second = timed(lambda: fit_stacked(members, train))
    alone, _ = timed(lambda: list(members[0].learner.fit_path(train, members[0].seed)))
    same = all(
        np.array_equal(a, b)
        for one, two in zip(first, second, strict=True)
        for a, b in zip(weights(one), weights(two), strict=True)
    )
    print(
        f"{len(members)} policies on {device_of('auto').type}: {together:.1f} s as a stack, {alone:.1f} s for one alone"
    )
    print(f"one after the other / stack: {alone * len(members) / together:.1f}; same bits twice: {same}")


if __name__ == "__main__":
    main()
