"""One step of the ascent, beside a plain PyTorch loop of the same objective and the bare matrix products.

    OMP_NUM_THREADS=1 python benchmarks/ascent_step.py [--json FILE]

Prints seconds of CPU time and ratios, for tumor logs from 20 to 2000 episodes at the start, for the largest of them
once the weights concentrate, and at sepsis size. The bare products are those of a forward and a backward pass over all
steps of the log where the rule leaves a choice. Ours is a mean over steps between two looks at the whole log and one
look, as in training.
"""

import argparse
import json
import math
import resource
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from poela.data.trajectories import Trajectories
from poela.learners.active import LOOK_EVERY, ActiveEpisodes, crm_objective
from poela.learners.policy_gradient import POCRM
from poela.learners.training_batch import TrainingBatch
from poela.networks.modules import Network
from poela.networks.stack import Stack
from poela.networks.training import train_steps
from poela.simulators.registry import simulate

PENALTY, TRUNCATION = 0.1, 1000.0
EPISODES = (20, 100, 500, 2000)
ROUNDS = 7
MORE_ROUNDS = 50  # where a step takes a millisecond


def seconds(works: list[Callable[[], None]], repeats: list[int], rounds: int) -> list[float]:
    """CPU time of each, in turns; the least of a few rounds, for the machine may be shared."""
    best = [math.inf] * len(works)
    for _ in range(rounds):
        for number, (work, often) in enumerate(zip(works, repeats, strict=True)):
            started = time.process_time()
            for _ in range(often):
                work()
            best[number] = min(best[number], (time.process_time() - started) / often)
    return best


def ours(logs: Trajectories, network: Network) -> Callable[[], None]:
    """A step as `PolicyGradient` takes it, under no rule; the networks stay as they are."""
    free = np.ones((logs.n_steps, logs.n_actions), np.bool_)
    stack = Stack([network])
    batch = TrainingBatch(logs, [free], stack, discount=1.0)
    active = ActiveEpisodes(batch, TRUNCATION)

    def loss(step: int) -> Tensor:
        return -crm_objective(active.log_weights(stack, step), batch.returns, TRUNCATION, PENALTY)

    steps = train_steps(stack, loss, name="ours", steps=sys.maxsize, learning_rate=0.0)
    return lambda: next(steps) and None


def plain(logs: Trajectories, network: Network) -> Callable[[], None]:
    """The same step as one would write it."""
    layers, contexts = network.layers, network.standardised(torch.tensor(logs.contexts))
    assert isinstance(layers, nn.Module)
    actions, returns = torch.tensor(logs.actions)[:, None], torch.tensor(logs.returns(1.0))
    log_propensities = torch.tensor(np.log(logs.logged_propensities))
    episode = torch.tensor(np.repeat(np.arange(logs.n_episodes), logs.lengths))
    optimizer = torch.optim.Adam(layers.parameters(), lr=0.0, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        chosen = torch.log_softmax(layers(contexts), dim=1).gather(1, actions)[:, 0].double()
        log_weights = torch.zeros(logs.n_episodes, dtype=torch.float64).index_add(0, episode, chosen - log_propensities)
        (-crm_objective(log_weights, returns, TRUNCATION, PENALTY)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def products(logs: Trajectories, network: Network) -> Callable[[], None]:
    """The matrix products of a forward and a backward pass."""
    widths = [logs.n_features, *network.shape.hidden, logs.n_actions]
    values: list[Tensor] = [torch.randn(logs.n_steps, width) for width in widths]
    weights = [torch.randn(before, after) for before, after in pairwise(widths)]

    def step() -> None:
        for layer, weight in enumerate(weights):
            _ = values[layer] @ weight
            _ = values[layer].T @ values[layer + 1]
            if layer:
                _ = values[layer + 1] @ weight.T

    return step


def sepsis_size() -> Trajectories:
    """117 thousand rows of 44 features and 25 actions, as the sepsis log of the paper has them."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(2, 13, size=16_700)
    n = int(lengths.sum())
    chances = rng.dirichlet(np.ones(25), size=n)
    actions = (chances.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=24)
    return Trajectories(
        rng.normal(size=(n, 44)), actions, rng.normal(size=n), np.cumsum([0, *lengths]), propensities=chances
    )


def learned(logs: Trajectories, hidden: tuple[int, ...], steps: int, warm_start_steps: int) -> Network:
    """The network of a policy after this many steps."""
    policy = POCRM(hidden=hidden, steps=steps, warm_start_steps=warm_start_steps, checkpoints=1, device="cpu").fit(logs)
    network = policy.network  # type: ignore[attr-defined]
    assert isinstance(network, Network)
    return network


def report(title: str, logs: Trajectories, network: Network, often: int) -> dict[str, Any]:
    """Time the three, print, and hand back what `bench.py` keeps."""
    works = [ours(logs, network), plain(logs, network), products(logs, network)]
    rounds = MORE_ROUNDS if logs.n_episodes < EPISODES[-1] else ROUNDS
    mine, theirs, bare = seconds(works, [LOOK_EVERY if often > 1 else 1, often, often], rounds)
    times = (f"{name} {1000 * own:7.2f} ms" for name, own in (("ours", mine), ("plain", theirs), ("products", bare)))
    ratios = f"ours / products {mine / bare:.2f}, plain / ours {theirs / mine:.2f}"
    print(f"{title:28} {logs.n_steps:7,} steps: {', '.join(times)}; {ratios}")
    return {
        "case": title,
        "size": logs.n_steps,
        "ours": mine,
        "alternative": theirs,
        "alternative_name": "a plain PyTorch loop",
        "floor": bare,
        "floor_name": "the matrix products of all steps",
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    """Time and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    tumors = [simulate("tumor", episodes=episodes, seed=0) for episodes in EPISODES]
    tumor, sepsis = tumors[-1], sepsis_size()
    rows = [
        *(report("tumor size, at the start", logs, learned(logs, (32, 32), 1, 500), often=5) for logs in tumors),
        report("tumor size, after 400 steps", tumor, learned(tumor, (32, 32), 400, 500), often=5),
        report("sepsis size, at the start", sepsis, learned(sepsis, (256, 256), 1, 1), often=1),
    ]
    if asked.json:
        found = {"benchmark": "ascent_step", "rows": rows, "exponent": None}
        asked.json.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
