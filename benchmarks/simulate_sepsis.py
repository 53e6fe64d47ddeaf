"""Simulating sepsis episodes of a 256 × 256 network under a radius rule, and how much of it is the simulator.

python benchmarks/bench.py simulate_sepsis
"""

import numpy as np
from measuring import Speed, Work
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

TRAINED = 1000  # episodes behind the rule
LOOPED = 20  # of so many episodes the loop does one


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
    names = {"feature_names": train.feature_names, "action_names": train.action_names}
    return NetworkPolicy(network=network, eligibility=Radius(0.6).fit(train), **names)


def by_poela(episodes: int) -> Work:
    """The true value of the policy."""
    policy = network_policy(TRAINED)
    Sepsis().model.expert_values  # noqa: B018 - read and solved once
    return lambda: sepsis_value(policy, Sepsis(), episodes)


def simulator_alone(episodes: int) -> Work:
    """Uniform actions, which cost nothing."""
    Sepsis().model.expert_values  # noqa: B018 - read and solved once
    return lambda: run(Sepsis(), Uniform(), episodes)


def by_loop(episodes: int) -> Work:
    """The same policy, one episode and one step after the other."""
    policy = network_policy(TRAINED)
    return lambda: loop(policy, episodes // LOOPED)


def loop(policy: NetworkPolicy, episodes: int, seed: int = 0) -> None:
    """Over the environment, as one writes it."""
    environment, rng = SepsisEnvironment(), np.random.default_rng(seed)
    for episode in range(episodes):
        context, _ = environment.reset(seed=seed + episode)
        ended = False
        while not ended:
            (probabilities,) = policy.probabilities(np.asarray(context)[None])
            context, _, ended, _, _ = environment.step(int(rng.choice(25, p=probabilities)))


SPEED = Speed(
    case=f"Episodes of a network under a rule over {TRAINED} episodes",
    ours=by_poela,
    alternative=by_loop,
    alternative_name="a loop over the Gymnasium environment",
    alternative_part=LOOPED,
    floor=simulator_alone,
    floor_name="the simulator under uniform actions",
    sizes=(1_000, 2_000, 4_000),
    large=(5_000, 10_000, 20_000),
)
