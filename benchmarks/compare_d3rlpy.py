"""Our BCQ and CQL beside d3rlpy's: what the policies are worth on the Markov tumor task, and steps per second.

d3rlpy is installed into an environment of its own (needs a package index), made where it is missing:

OMP_NUM_THREADS=1 python benchmarks/compare_d3rlpy.py [--environment DIRECTORY] [--out docs/results]
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

import numpy as np
import torch

import poela
from poela.behavior.clone import CloneBehavior
from poela.evaluation.rollouts import true_value
from poela.learners.q_learning import BCQ, CQL, QLearning
from poela.simulators.episodes import run
from poela.simulators.tumor import TumorBehavior, TumorGrowth, normalised
from poela_experiments.frame.results import Cell, Report, ResultTable, with_error

PEER = ("d3rlpy==2.8.1", "scipy", "pyarrow")
SEEDS = 5
EPISODES = 1000
# The same for both; where d3rlpy copies the target network every so many steps, ours follows it at the inverse rate.
COMMON: dict[str, Any] = {
    "steps": 3000,
    "batch_size": 100,
    "learning_rate": 3e-4,
    "weight_decay": 1e-3,
    "discount": 0.99,
    "target_rate": 0.005,
    "hidden": (32, 32),
}
THRESHOLD, CONSERVATISM, ROLL_OUTS = 0.1, 1.0, 2000
# d3rlpy trains its imitator beside Q; ours is a behavior model, trained first on batches of about as many steps.
IMITATOR = CloneBehavior(hidden=(32, 32), learning_rate=1e-3, steps=1000, batch_episodes=4, device="cpu")
SIMULATOR = TumorGrowth(markov=True)


def python_with_d3rlpy(directory: Path) -> str:
    """The interpreter of an environment with d3rlpy, installed there if need be."""
    python = directory / "bin" / "python"
    if not python.exists():
        venv.create(directory, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PEER]
        subprocess.run(install, check=True)
    return str(python)


def theirs(python: str, logs: poela.Trajectories, seed: int) -> dict[str, dict[str, float]]:
    """Value and seconds of d3rlpy's learners."""
    last = np.zeros(logs.n_steps)
    last[logs.offsets[1:] - 1] = 1
    settings = {**COMMON, "threshold": THRESHOLD, "conservatism": CONSERVATISM, "roll_outs": ROLL_OUTS, "seed": seed}
    source = str(Path(poela.__file__).parents[1])
    with tempfile.TemporaryDirectory() as folder:
        arrays = Path(folder) / "logs.npz"
        np.savez(arrays, contexts=logs.contexts, actions=logs.actions, rewards=logs.rewards, last=last)
        script = str(Path(__file__).with_name("peer_q_learning.py"))
        command = [python, script, str(arrays), json.dumps(settings)]
        answer = subprocess.run(
            command, check=True, capture_output=True, text=True, cwd=folder, env={**os.environ, "PYTHONPATH": source}
        )
    result: dict[str, dict[str, float]] = json.loads(answer.stdout.splitlines()[-1])
    return result


def ours(logs: poela.Trajectories, seed: int) -> dict[str, dict[str, float]]:
    """Value and seconds of our learners, and the seconds that the behavior model of BCQ took before."""
    started = time.process_time()
    behavior = IMITATOR.fit(logs, seed)
    imitating = time.process_time() - started
    learners: dict[str, QLearning] = {
        "BCQ": BCQ(threshold=THRESHOLD, checkpoints=1, device="cpu", **COMMON),
        "CQL": CQL(conservatism=CONSERVATISM, checkpoints=1, device="cpu", **COMMON),
    }
    found = {}
    for name, learner in learners.items():
        started = time.process_time()
        policy = learner.fit(logs, seed, behavior=behavior)
        seconds = time.process_time() - started
        value = true_value(policy, SIMULATOR, ROLL_OUTS, seed)
        before = imitating if name == "BCQ" else 0.0
        found[name] = {"value": normalised(value.value), "seconds": seconds, "before": before}
    return found


def row(name: str, seed: int, mine: dict[str, float], peer: dict[str, float]) -> dict[str, Cell]:
    """One learner on one data set."""
    steps = COMMON["steps"]
    return {
        "learner": name,
        "seed": seed,
        "our value": mine["value"],
        "d3rlpy's value": peer["value"],
        "our steps / s": steps / mine["seconds"],
        "d3rlpy's steps / s": steps / peer["seconds"],
        "ratio": peer["seconds"] / mine["seconds"],
        "ratio with behavior model": peer["seconds"] / (mine["seconds"] + mine["before"]),
    }


def summary(name: str, rows: list[dict[str, Any]]) -> dict[str, Cell]:
    """All seeds of one learner: do the values agree within two standard errors, and how much faster is ours?"""
    own = [item for item in rows if item["learner"] == name]
    mine, peer = ([item[key] for item in own] for key in ("our value", "d3rlpy's value"))
    error = float(np.sqrt((np.var(mine, ddof=1) + np.var(peer, ddof=1)) / len(own)))
    difference = float(np.mean(mine) - np.mean(peer))
    return {
        "learner": name,
        "our value": with_error(mine),
        "d3rlpy's value": with_error(peer),
        "difference": difference,
        "two standard errors": 2 * error,
        "agree": abs(difference) <= 2 * error,
        "our steps / s": float(np.mean([item["our steps / s"] for item in own])),
        "d3rlpy's steps / s": float(np.mean([item["d3rlpy's steps / s"] for item in own])),
        "ratio": float(np.mean([item["ratio"] for item in own])),
        "with behavior model": float(np.mean([item["ratio with behavior model"] for item in own])),
    }


def main() -> None:
    """Print and write the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environment", type=Path, default=Path(tempfile.gettempdir()) / "poela-d3rlpy")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    python = python_with_d3rlpy(options.environment)
    rows: list[dict[str, Any]] = []
    for seed in range(SEEDS):
        logs = run(SIMULATOR, TumorBehavior(), EPISODES, seed=(seed, 0))
        peer, mine = theirs(python, logs, seed), ours(logs, seed)
        rows += [row(name, seed, mine[name], peer[name]) for name in mine]
        print(json.dumps(rows[-2:]), flush=True)
    notes = (
        f"Markov tumor logs of {EPISODES} episodes, {SEEDS} seeds (logs and networks); true values by {ROLL_OUTS} "
        "roll-outs, normalised: uniform random 0, best schedule found 100.",
        f"Both: {COMMON['steps']} steps of batch {COMMON['batch_size']}, hidden layers {COMMON['hidden']}, standard "
        f"inputs, Adam {COMMON['learning_rate']:g}, discount {COMMON['discount']:g}; BCQ's threshold {THRESHOLD:g} "
        f"on an imitated behavior, CQL's weight {CONSERVATISM:g}. d3rlpy copies its target network every 200 steps.",
        "Steps per second of processor time, one thread, alternating in the same run; the last column adds the time of "
        "the behavior model to ours (d3rlpy trains its imitator within its steps).",
    )
    command = "OMP_NUM_THREADS=1 python benchmarks/compare_d3rlpy.py"
    tables = (
        ResultTable(
            "summary",
            "BCQ and CQL beside d3rlpy 2.8.1",
            [summary(name, rows) for name in ("BCQ", "CQL")],
            command,
            notes,
        ),
        ResultTable("seeds", "Seed by seed", rows, command),
    )
    print(Report("d3rlpy", tables).write(options.out))


if __name__ == "__main__":
    main()
