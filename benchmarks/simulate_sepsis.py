"""How fast sepsis episodes of a 256 × 256 network under a radius rule are valued, and how much of it is the simulator.

OMP_NUM_THREADS=1 python benchmarks/simulate_sepsis.py [--episodes 20000] [--train 9000]

The alternative is a plain Python loop over the Gymnasium environment under uniform actions.
"""

import argparse
import time

import gymnasium
import numpy as np
import torch
from numpy.typing import ArrayLike

from poela.core.arrays import FloatArray
from poela.core.policy import Memoryless
from poela.eligibility.rules import Radius
from poela.networks.modules import NetworkShape
from poela.policies.network import NetworkPolicy
from poela.simulators.environments import SepsisEnvironment
from poela.simulators.episodes import run
from poela.simulators.registry import simulate
from poela.simulators.sepsis import Sepsis
from poela.simulators.sepsis_truth import sepsis_value


class Uniform(Memoryless):
    """All 25 actions alike."""

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """[N, 25]."""
        return np.full((len(np.asarray(contexts)), 25), 1 / 25)


def network_policy(episodes: int) -> NetworkPolicy:
    """An untrained network under the rule; what it says does not matter for the time it takes."""
    train = simulate("sepsis", episodes, seed=0)
    network = NetworkShape("mlp", train.n_features, train.n_actions, hidden=(256, 256)).build(seed=0)
    network.standardise_by(train.contexts)
    return NetworkPolicy(
        network=network,
        eligibility=Radius(0.6).fit(train),
        feature_names=train.feature_names,
        action_names=train.action_names,
    )


def loop(environment: gymnasium.Env, episodes: int, seed: int = 0) -> None:
    """One episode and one step after the other."""
    rng = np.random.default_rng(seed)
    for episode in range(episodes):
        environment.reset(seed=seed + episode)
        ended = False
        while not ended:
            _, _, ended, _, _ = environment.step(int(rng.integers(25)))


def main() -> None:
    """Print seconds, episodes per second and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=20_000)
    parser.add_argument("--train", type=int, default=9000)
    parser.add_argument("--loop-episodes", type=int, default=300)
    options = parser.parse_args()

    Sepsis().model.expert_values  # noqa: B018 - read and solved once
    started = time.perf_counter()
    run(Sepsis(), Uniform(), options.episodes)
    simulated = time.perf_counter() - started
    policy = network_policy(options.train)
    started, worked = time.perf_counter(), time.process_time()
    truth = sepsis_value(policy, Sepsis(), options.episodes)
    valued, busy = time.perf_counter() - started, time.process_time() - worked
    started = time.perf_counter()
    loop(SepsisEnvironment(), options.loop_episodes)
    looped = (time.perf_counter() - started) / options.loop_episodes * options.episodes

    print(f"{options.episodes} episodes, {torch.get_num_threads()} threads")
    print(f"simulator alone           {simulated:7.1f} s  ({looped / simulated:.0f} times faster than the loop)")
    print(f"network under the rule    {valued:7.1f} s  ({busy:.1f} s of processor time)")
    print(f"share of the simulator    {100 * simulated / valued:7.1f} %")
    print(f"value                     {truth.value:7.2f} ± {truth.standard_error:.2f}")


if __name__ == "__main__":
    main()
