"""Estimates by SCOPE-RL and OBP of the logs in a file, as JSON; runs in an environment of its own, without poela.

Both packages import simulators and deep learning that their estimators never touch, and that do not install beside a
current Python. So their estimator modules are imported alone, with empty stand-ins for what is missing.
"""

import importlib
import importlib.util
import json
import sys
from types import ModuleType
from typing import Any

import numpy as np


def bare_package(name: str) -> None:
    """A package whose modules can be imported while its own start-up code is not run."""
    package = ModuleType(name)
    if "." in name:
        parent, _, child = name.rpartition(".")
        package.__path__ = [f"{folder}/{child}" for folder in sys.modules[parent].__path__]
    else:
        found = importlib.util.find_spec(name)
        assert found is not None
        package.__path__ = list(found.submodule_search_locations or [])
    sys.modules[name] = package


def stand_in(name: str, **contents: Any) -> None:
    """An empty module with the names that are asked for."""
    module = ModuleType(name)
    module.__dict__.update(contents)
    sys.modules[name] = module


def scope_rl(logs: Any, discount: float) -> dict[str, float]:
    """SCOPE-RL's estimates of the whole horizon."""
    stand_in("gym", Env=object)
    stand_in("d3rlpy")
    stand_in("d3rlpy.preprocessing", ActionScaler=object)
    for name in ("scope_rl", "scope_rl.ope", "scope_rl.ope.discrete"):
        bare_package(name)
    peers = importlib.import_module("scope_rl.ope.discrete.basic_estimators")
    given = {
        "step_per_trajectory": int(logs["horizon"]),
        "action": logs["actions"],
        "reward": logs["rewards"],
        "pscore": logs["logged_propensities"],
        "evaluation_policy_action_dist": logs["probabilities"],
        "state_action_value_prediction": logs["q"],
        "gamma": discount,
    }
    names = {
        "is": "TrajectoryWiseImportanceSampling",
        "snis": "SelfNormalizedTIS",
        "pdis": "PerDecisionImportanceSampling",
        "cwpdis": "SelfNormalizedPDIS",
        "dr": "DoublyRobust",
        "wdr": "SelfNormalizedDR",
        "direct": "DirectMethod",
    }
    return {ours: float(getattr(peers, theirs)().estimate_policy_value(**given)) for ours, theirs in names.items()}


def obp(logs: Any) -> dict[str, float]:
    """OBP's estimates of the first step alone: it knows one-step decisions only."""
    stand_in("torch", Tensor=type("Tensor", (), {}))
    for name in ("obp", "obp.ope"):
        bare_package(name)
    peers = importlib.import_module("obp.ope.estimators")
    first = slice(0, None, int(logs["horizon"]))
    given = {
        "reward": logs["rewards"][first],
        "action": logs["actions"][first],
        "pscore": logs["logged_propensities"][first],
        "action_dist": logs["probabilities"][first][:, :, None],
        "estimated_rewards_by_reg_model": logs["q"][first][:, :, None],
        "position": np.zeros(len(logs["rewards"][first]), int),
    }
    names = {
        "is": "InverseProbabilityWeighting",
        "snis": "SelfNormalizedInverseProbabilityWeighting",
        "dr": "DoublyRobust",
        "wdr": "SelfNormalizedDoublyRobust",
        "direct": "DirectMethod",
    }
    return {ours: float(getattr(peers, theirs)().estimate_policy_value(**given)) for ours, theirs in names.items()}


if __name__ == "__main__":
    arrays = np.load(sys.argv[1], allow_pickle=False)
    discount = float(arrays["discount"])
    print(json.dumps({"scope_rl": scope_rl(arrays, discount), "obp": obp(arrays)}))
