"""Ascent on minibatches beside ascent on the whole log: objectives on the training log, and true values by roll-outs.

    OMP_NUM_THREADS=1 python benchmarks/minibatch.py [--tasks sepsis] [--data-sets 0 1]

Five data sets of the tumor task (values on its scale of 0 to 100) and of sepsis. Minibatches take four times
as many steps. Both begin with the same warm start, whose time counts for the whole log alone.
"""

import argparse
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from poela.data.trajectories import Trajectories
from poela.evaluation.rollouts import true_value
from poela.learners.active import crm_objective
from poela.learners.policy_gradient import POELA, PolicyGradient
from poela.policies.network import NetworkPolicy
from poela.simulators.registry import simulate, source
from poela.simulators.tumor import normalised

TASKS: dict[str, tuple[int, dict[str, Any], PolicyGradient]] = {
    "tumor": (1000, {}, POELA(device="cpu", checkpoints=1)),
    "sepsis": (2000, {"hidden": False}, POELA(steps=300, device="cpu", checkpoints=1)),
}
BATCH, MORE_STEPS = 250, 4


def objective(policy: NetworkPolicy, logs: Trajectories, learner: PolicyGradient) -> float:
    """What was to be maximised, from the policy's probabilities."""
    chances = policy.probabilities(logs.contexts)[np.arange(logs.n_steps), logs.actions]
    with np.errstate(divide="ignore"):
        log_weights = np.add.reduceat(np.log(chances / logs.logged_propensities), logs.offsets[:-1])
    returns = torch.tensor(logs.returns(learner.discount))
    return float(crm_objective(torch.tensor(log_weights), returns, learner.truncation, learner.variance_penalty))


def main() -> None:
    """Learn both ways, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="*", choices=TASKS, default=[*TASKS])
    parser.add_argument("--data-sets", nargs="*", type=int, default=range(5))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    for name, (episodes, options, whole) in ((task, TASKS[task]) for task in asked.tasks):
        some = replace(whole, batch_episodes=BATCH, steps=whole.steps * MORE_STEPS)
        gaps = []
        for seed in asked.data_sets:
            logs = simulate(name, episodes=episodes, seed=seed, **options)
            told = []
            for learner in (whole, some):
                started = time.process_time()
                policy = learner.fit(logs, seed=seed)
                assert isinstance(policy, NetworkPolicy)
                spent = time.process_time() - started
                value = true_value(policy, source(name, **options).simulator, 20_000, seed=1).value
                told.append((normalised(value) if name == "tumor" else value, objective(policy, logs, learner), spent))
            gaps.append(told[1][0] - told[0][0])
            both = [f"value {value:7.3f}, objective {goal:7.3f}, {spent:4.1f} s" for value, goal, spent in told]
            print(f"{name} {seed}: whole log {both[0]}; minibatches {both[1]}", flush=True)
        print(f"{name}: minibatches - whole log, mean {np.mean(gaps):+.3f}, at worst {min(gaps):+.3f}", flush=True)


if __name__ == "__main__":
    main()
