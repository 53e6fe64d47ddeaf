"""The Q-networks behind the CartPole logs: trained once with Stable-Baselines3, saved from beginner to expert.

The package carries the result, so this need not be run again: python -m poela_experiments.cartpole_logs FILE
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from poela.core.arrays import Float32Array
from poela.core.errors import PoelaError
from poela.core.files import atomic_file
from poela.core.registry import how_to_install
from poela.simulators.cartpole import STEPS, CartPole, CartPoleBehavior, QNetworks
from poela.simulators.episodes import run

EVERY = 1000  # steps of training between checkpoints
MASTERY = 195.0  # mean steps of the expert, at which training ends
KEPT = 8
MOST_STEPS = 100_000


def train_checkpoints(seed: int = 1, most_steps: int = MOST_STEPS) -> QNetworks:
    """Train a deep Q-network until it balances for 195 of 200 steps; keep eight, from the first to the last.

    They are evenly spaced among those saved every 1000 steps. Training runs on Gymnasium's own CartPole, where the
    limit of steps counts as a truncation, which the learner bootstraps through.
    """
    try:
        import gymnasium
        from stable_baselines3 import DQN
    except ImportError:
        raise PoelaError(f"training CartPole agents needs Stable-Baselines3: {how_to_install('dqn')}") from None

    saved: list[list[Float32Array]] = []

    def keep(variables: dict[str, Any], _: dict[str, Any]) -> bool:
        learner = variables["self"]
        if learner.num_timesteps % EVERY:
            return True
        parameters = learner.q_net.q_net.state_dict().values()
        saved.append([parameter.detach().cpu().numpy().astype(np.float32) for parameter in parameters])
        return mean_steps(QNetworks.of([saved[-1]])) < MASTERY

    learner = DQN(
        "MlpPolicy",
        gymnasium.make("CartPole-v1", max_episode_steps=STEPS),
        learning_rate=5e-4,
        batch_size=64,
        buffer_size=50_000,
        learning_starts=1000,
        target_update_interval=250,
        train_freq=4,
        exploration_fraction=0.2,
        policy_kwargs={"net_arch": [64, 64]},
        seed=seed,
        device="cpu",
    )
    learner.learn(most_steps, callback=keep)
    if mean_steps(QNetworks.of([saved[-1]])) < MASTERY:
        raise PoelaError(f"the learner is no expert after {most_steps} steps of training: try another seed")
    return QNetworks.of([saved[index] for index in np.linspace(0, len(saved) - 1, KEPT).round().astype(int)])


def mean_steps(networks: QNetworks, episodes: int = 200) -> float:
    """How long the networks' logging policy balances on average."""
    return float(run(CartPole(), CartPoleBehavior(networks), episodes, seed=1).lengths.mean())


def main(path: Path) -> None:
    """Train and write the checkpoints to a file."""
    with atomic_file(path) as temporary:
        temporary.write_bytes(train_checkpoints().to_bytes())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
