"""How fast 100,000 tumor episodes are simulated, beside a plain Python loop over the Gymnasium environment.

python benchmarks/simulate_tumor.py [--episodes 100000] [--loop-episodes 300]
"""

import argparse
import time

import gymnasium
import numpy as np

from poela.evaluation.rollouts import true_value
from poela.simulators.environments import TumorEnvironment
from poela.simulators.episodes import run
from poela.simulators.tumor import TumorBehavior, TumorGrowth


def loop(environment: gymnasium.Env, episodes: int, seed: int = 0) -> float:
    """The mean return of the logging policy, one episode and one step after the other."""
    policy, rng = TumorBehavior(), np.random.default_rng(seed)
    returns = np.zeros(episodes)
    for episode in range(episodes):
        context, _ = environment.reset(seed=seed + episode)
        ended = False
        while not ended:
            action = int(rng.random() < policy.probabilities(context[None])[0, 1])
            context, reward, ended, _, _ = environment.step(action)
            returns[episode] += reward
    return float(returns.mean())


def main() -> None:
    """Print seconds, episodes per second and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=100_000)
    parser.add_argument("--loop-episodes", type=int, default=300)
    options = parser.parse_args()

    started = time.perf_counter()
    logs = run(TumorGrowth(), TumorBehavior(), options.episodes, seed=0)
    collected = time.perf_counter() - started
    started = time.perf_counter()
    true_value(TumorBehavior(), TumorGrowth(), options.episodes)
    valued = time.perf_counter() - started
    started = time.perf_counter()
    looped_value = loop(TumorEnvironment(), options.loop_episodes)
    looped = time.perf_counter() - started

    print(f"collect  {options.episodes:>7} episodes  {collected:6.2f} s  {options.episodes / collected:9.0f} / s")
    print(f"value    {options.episodes:>7} episodes  {valued:6.2f} s  {options.episodes / valued:9.0f} / s")
    print(f"loop     {options.loop_episodes:>7} episodes  {looped:6.2f} s  {options.loop_episodes / looped:9.0f} / s")
    print(f"ratio    {looped / options.loop_episodes * options.episodes / collected:.0f} times faster than the loop")
    print(f"values   {logs.returns().mean():.2f} collected, {looped_value:.2f} by the loop")


if __name__ == "__main__":
    main()
