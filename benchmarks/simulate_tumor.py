"""Simulating tumor episodes, beside a plain Python loop over the Gymnasium environment.

python benchmarks/bench.py simulate_tumor
"""

import numpy as np
from measuring import Speed, Work

from poela.simulators.environments import TumorEnvironment
from poela.simulators.episodes import run
from poela.simulators.tumor import TumorBehavior, TumorGrowth

LOOPED = 20  # of so many episodes the loop does one


def by_poela(episodes: int) -> Work:
    """All episodes at once."""
    return lambda: run(TumorGrowth(), TumorBehavior(), episodes, seed=0)


def loop(episodes: int, seed: int = 0) -> None:
    """The logging policy, one episode and one step after the other."""
    environment, policy, rng = TumorEnvironment(), TumorBehavior(), np.random.default_rng(seed)
    for episode in range(episodes):
        context, _ = environment.reset(seed=seed + episode)
        ended = False
        while not ended:
            action = int(rng.random() < policy.probabilities(context[None])[0, 1])
            context, _, ended, _, _ = environment.step(action)


SPEED = Speed(
    case="Episodes of 30 steps",
    ours=by_poela,
    alternative=lambda episodes: lambda: loop(episodes // LOOPED),
    alternative_name="a loop over the Gymnasium environment",
    alternative_part=LOOPED,
    sizes=(3_000, 10_000, 30_000),
    large=(10_000, 30_000, 100_000),
)
