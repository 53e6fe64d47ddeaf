"""Train the policies whose logs the experiment `mujoco` learns from, with PPO of Stable-Baselines3.

It is no extra: pip install poela[mujoco] stable-baselines3==2.9.2 torch==2.13.0

Every `EVERY` steps the policy is kept; after training each is rolled out, stochastically. "random" is the untrained
network, "expert" the best one, "medium" the one whose return is nearest to half the way from random to expert.

OMP_NUM_THREADS=1 python benchmarks/mujoco_policies.py --robot hopper [--steps NUMBER] [--out DIRECTORY]
"""

import argparse
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from poela_experiments.mujoco_logs import ENVIRONMENTS, PpoPolicy, roll_out

SEED, COPIES, EVERY, ROLL_OUTS = 0, 32, 40_960, 20
STEPS = {"hopper": 800_000, "walker2d": 368_640}
MEDIUM = 1 / 2
SETTINGS: dict[str, Any] = {"n_steps": 64, "batch_size": 256, "n_epochs": 10, "gamma": 0.99, "gae_lambda": 0.95}


def arrays(model: PPO, normalised: VecNormalize) -> dict[str, np.ndarray]:
    """A Gaussian network as plain arrays: scaled observations, two tanh layers, means, one log deviation per action."""
    state = {name: value.detach().numpy().astype(np.float32) for name, value in model.policy.state_dict().items()}
    names = ("mlp_extractor.policy_net.0", "mlp_extractor.policy_net.2", "action_net")
    layers = {f"{kind}_{i}": state[f"{n}.{kind}"] for i, n in enumerate(names) for kind in ("weight", "bias")}
    running = normalised.obs_rms
    deviation = np.sqrt(running.var + normalised.epsilon)
    return {**layers, "mean": running.mean.copy(), "deviation": deviation, "log_std": state["log_std"]}


class Keeping(BaseCallback):
    """Keeps the policy every so many steps."""

    def __init__(self, normalised: VecNormalize, every: int = EVERY) -> None:
        super().__init__()
        self.kept: dict[int, dict[str, np.ndarray]] = {}
        self._normalised, self._every, self._started = normalised, every, time.time()

    def _on_rollout_start(self) -> None:
        if self.num_timesteps >= len(self.kept) * self._every:
            self.kept[self.num_timesteps] = arrays(self.model, self._normalised)
            recent = [episode["r"] for episode in self.model.ep_info_buffer]
            print(
                self.num_timesteps, np.mean(recent or [np.nan]).round(), round(time.time() - self._started), flush=True
            )

    def _on_step(self) -> bool:
        return True


def trained(environment: str, steps: int) -> dict[int, dict[str, np.ndarray]]:
    """The policies that were kept on the way, by their numbers of steps."""
    normalised = VecNormalize(DummyVecEnv([lambda: Monitor(gymnasium.make(environment))] * COPIES))
    model = PPO("MlpPolicy", normalised, seed=SEED, device="cpu", **SETTINGS)
    keeping = Keeping(normalised)
    model.learn(steps, keeping)
    return {**keeping.kept, model.num_timesteps: arrays(model, normalised)}


def chosen(robot: str, kept: dict[int, dict[str, np.ndarray]]) -> dict[str, int]:
    """Which of them the levels are, by their numbers of steps."""
    values = {}
    for steps, parts in kept.items():
        returns = roll_out(robot, PpoPolicy.of(parts).sample, ROLL_OUTS, seed=SEED).returns
        values[steps] = float(returns.mean())
        print(f"{robot} after {steps} steps: {values[steps]:.0f}", flush=True)
    first, best = min(values), max(values, key=values.__getitem__)
    wanted = values[first] + MEDIUM * (values[best] - values[first])
    medium = min((steps for steps in values if steps < best), key=lambda steps: abs(values[steps] - wanted))
    return {"random": first, "medium": medium, "expert": best}


def main() -> None:
    """Train, choose, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robot", choices=ENVIRONMENTS, required=True)
    parser.add_argument("--steps", type=int, help="of training, instead of those of the policies that ship")
    parser.add_argument("--out", type=Path, default=Path("src/poela_experiments/data/mujoco"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    kept = trained(ENVIRONMENTS[options.robot], options.steps or STEPS[options.robot])
    options.out.mkdir(parents=True, exist_ok=True)
    for level, steps in chosen(options.robot, kept).items():
        np.savez(options.out / f"{options.robot}-{level}.npz", **kept[steps])
        print(f"{options.robot} {level}: {steps} steps")


if __name__ == "__main__":
    main()
