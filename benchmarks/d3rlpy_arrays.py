"""d3rlpy trains on our arrays: its imitation and BCQ on tumor logs, evaluated by us.

d3rlpy is installed into an environment of its own (needs a package index), made where it is missing:

OMP_NUM_THREADS=1 python benchmarks/d3rlpy_arrays.py [--environment DIRECTORY] [--episodes 300] [--steps 1000]
"""

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import poela
from poela.core.policy import Memoryless
from poela.simulators.registry import simulate

MARK = "trained: "  # before the line of the answer, since d3rlpy prints too


class Learned(Memoryless):
    """The greedy policy of d3rlpy's algorithm."""

    def __init__(self, algorithm: Any, n_actions: int) -> None:
        self._algorithm, self._n_actions = algorithm, n_actions

    def probabilities(self, contexts: Any) -> Any:
        """[N, A]."""
        return np.eye(self._n_actions)[self._algorithm.predict(np.asarray(contexts, np.float32))]


def train(path: str, steps: int) -> None:
    """Where d3rlpy is: make its data set of our arrays, train on it, evaluate what came of it."""
    import d3rlpy

    logs = poela.read_logs(path)
    dataset = d3rlpy.dataset.MDPDataset(**logs.to_mdp_arrays())
    episodes = [episode.compute_return() for episode in dataset.episodes]
    assert np.allclose(episodes, logs.returns(), atol=1e-4)
    assert dataset.dataset_info.action_size == logs.n_actions
    configs = {"DiscreteBC": d3rlpy.algos.DiscreteBCConfig(), "DiscreteBCQ": d3rlpy.algos.DiscreteBCQConfig()}
    for name, config in configs.items():
        d3rlpy.seed(0)
        algorithm = config.create(device="cpu:0")
        silent = d3rlpy.logging.NoopAdapterFactory()
        algorithm.fit(dataset, steps, steps, show_progress=False, logger_adapter=silent)
        policy = Learned(algorithm, logs.n_actions)
        same = float((policy.probabilities(logs.contexts).argmax(axis=1) == logs.actions).mean())
        estimate = poela.evaluate(policy, logs, smoothing=0.01)
        print(MARK + json.dumps({"learner": name, "as logged": same, "value": estimate.value, "ess": estimate.ess}))


def main() -> None:
    """Write logs, train on them in d3rlpy's environment, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environment", type=Path, default=Path(tempfile.gettempdir()) / "poela-d3rlpy")
    parser.add_argument("--episodes", type=int, default=300)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--train", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        train(options.train, options.steps)
        return
    from compare_d3rlpy import python_with_d3rlpy

    python = python_with_d3rlpy(options.environment)
    with tempfile.TemporaryDirectory() as folder:
        import pyarrow.parquet as pq

        path = str(Path(folder) / "logs.parquet")
        pq.write_table(simulate("tumor", episodes=options.episodes).to_table(), path)
        answer = subprocess.run(
            [python, str(Path(__file__).resolve()), "--train", path, "--steps", str(options.steps)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(Path(poela.__file__).parents[1])},
        )
    for line in answer.stdout.splitlines():
        if line.startswith(MARK):
            print(line.removeprefix(MARK))


if __name__ == "__main__":
    main()
