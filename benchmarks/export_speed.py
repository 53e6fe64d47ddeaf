"""One decision by an exported graph, beside the policy itself.

    python benchmarks/bench.py export_speed

Contexts as in `nearest_actions.py`. The graph answers one context at a time under onnxruntime with one thread; so does
the policy.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Speed, Work
from nearest_actions import logs_of

from poela.data.trajectories import Trajectories
from poela.eligibility.rules import Eligibility
from poela.networks.modules import NetworkShape
from poela.policies.network import NetworkPolicy
from poela.serving.export import export_onnx

QUESTIONS = 200


def network_policy(logs: Trajectories, radius: float | str) -> NetworkPolicy:
    """A network under a radius rule over these logs."""
    network = NetworkShape("mlp", logs.n_features, logs.n_actions, (32, 32)).build(seed=0)
    rule = Eligibility(radius=radius, scale="standard").fit(logs)
    names = {"feature_names": logs.feature_names, "action_names": logs.action_names}
    return NetworkPolicy(network=network, eligibility=rule, **names)


def _asked(logs: Trajectories) -> Any:
    return logs.contexts[:QUESTIONS] + np.float32(0.01)


def by_graph(steps: int) -> Work:
    """The exported graph, asked by one thread."""
    import onnxruntime

    logs = logs_of(steps)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        export_onnx(network_policy(logs, 1.0), Path(folder) / "policy.onnx", include_contexts="all")
        graph = onnxruntime.InferenceSession(Path(folder) / "policy.onnx", options)
    return lambda: [graph.run(None, {"contexts": context[None]}) for context in _asked(logs)]


def by_policy(steps: int) -> Work:
    """The policy in Python."""
    logs = logs_of(steps)
    policy = network_policy(logs, 1.0)
    policy.probabilities(logs.contexts[:1])  # which builds the searches
    return lambda: [policy.probabilities(context[None]) for context in _asked(logs)]


def bare_products(steps: int) -> Work:
    """Products of each context with all logged ones."""
    logs = logs_of(steps)
    return lambda: [logs.contexts @ context for context in _asked(logs)]


SPEED = Speed(
    case=f"Logged steps behind the rule, {QUESTIONS} decisions one by one",
    ours=by_graph,
    alternative=by_policy,
    alternative_name="the policy itself",
    floor=bare_products,
    floor_name="bare product of each context with all logged ones",
    sizes=(10_000, 20_000, 40_000),
    large=(30_000, 60_000, 117_000),
)
