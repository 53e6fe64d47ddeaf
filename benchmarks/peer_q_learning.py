"""Discrete BCQ and CQL by d3rlpy on the logs in a file, as JSON; runs in an environment of its own.

Only poela's simulator is imported here (its source is on the path), to roll out what d3rlpy has learned.
"""

import json
import sys
import time
from typing import Any

import d3rlpy
import numpy as np
import torch
from d3rlpy.algos import DiscreteBCQConfig, DiscreteCQLConfig
from d3rlpy.models import VectorEncoderFactory
from d3rlpy.optimizers import AdamFactory

from poela.core.policy import Memoryless
from poela.evaluation.rollouts import true_value
from poela.simulators.tumor import TumorGrowth, normalised


class Learned(Memoryless):
    """d3rlpy's greedy policy."""

    def __init__(self, algorithm: Any) -> None:
        self._algorithm = algorithm

    def probabilities(self, contexts: Any) -> Any:
        """[N, 2]."""
        return np.eye(2)[self._algorithm.predict(np.asarray(contexts, np.float32))]


def main() -> None:
    """Train both on the logs, and say what they are worth and how fast they were."""
    torch.set_num_threads(1)
    logs, settings = np.load(sys.argv[1], allow_pickle=False), json.loads(sys.argv[2])
    dataset = d3rlpy.dataset.MDPDataset(
        logs["contexts"], logs["actions"][:, None], logs["rewards"][:, None].astype(np.float32), logs["last"]
    )
    common = {
        "learning_rate": settings["learning_rate"],
        "optim_factory": AdamFactory(weight_decay=settings["weight_decay"]),
        "batch_size": settings["batch_size"],
        "gamma": settings["discount"],
        "target_update_interval": round(1 / settings["target_rate"]),
        "encoder_factory": VectorEncoderFactory(list(settings["hidden"])),
        "observation_scaler": d3rlpy.preprocessing.StandardObservationScaler(),
    }
    algorithms = {
        "BCQ": DiscreteBCQConfig(action_flexibility=settings["threshold"], share_encoder=False, **common),
        "CQL": DiscreteCQLConfig(alpha=settings["conservatism"], **common),
    }
    found = {}
    for name, config in algorithms.items():
        d3rlpy.seed(settings["seed"])
        algorithm = config.create(device="cpu:0")
        algorithm.build_with_dataset(dataset)
        started = time.process_time()
        algorithm.fit(
            dataset,
            n_steps=settings["steps"],
            n_steps_per_epoch=settings["steps"],
            show_progress=False,
            logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
        )
        seconds = time.process_time() - started
        value = true_value(Learned(algorithm), TumorGrowth(markov=True), settings["roll_outs"], settings["seed"])
        found[name] = {"value": normalised(value.value), "seconds": seconds}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
