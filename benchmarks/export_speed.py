"""One decision by an exported graph at the size of the sepsis cohort, beside the policy itself.

OMP_NUM_THREADS=1 python benchmarks/export_speed.py

Contexts as in `nearest_actions.py`: 117,000 logged steps of 13, correlated features, 25 actions. The graph answers one
context at a time under onnxruntime with one thread; so does the policy. "cover" keeps a thinned set of contexts
(`include_contexts="cover"`), "logged propensities" adds the search for the nearest logged context of all.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from nearest_actions import logs_of

from poela.data.trajectories import Trajectories
from poela.eligibility.rules import Eligibility
from poela.learners.consensus import Consensus
from poela.networks.modules import NetworkShape
from poela.policies.network import NetworkPolicy
from poela.serving.export import export_onnx

QUESTIONS = 200


def milliseconds(ask: Callable[[Any], Any], contexts: Any) -> str:
    """Median and 99th percentile of asking one context at a time, and the median of processor time."""
    wall, processor = [], []
    for context in contexts:
        started = time.perf_counter(), time.process_time()
        ask(context[None])
        wall.append(1000 * (time.perf_counter() - started[0]))
        processor.append(1000 * (time.process_time() - started[1]))
    return f"{np.median(wall):6.2f} ms, p99 {np.percentile(wall, 99):6.2f} ms, processor {np.median(processor):6.2f} ms"


def session(policy: Any, folder: Path, include_contexts: str) -> Any:
    """The exported graph, ready to be asked by one thread."""
    export_onnx(policy, folder / "policy.onnx", include_contexts=include_contexts, overwrite=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(folder / "policy.onnx", options)


def network_policy(logs: Trajectories, radius: str) -> NetworkPolicy:
    """A network under a radius rule over these logs."""
    network = NetworkShape("mlp", logs.n_features, logs.n_actions, (32, 32)).build(seed=0)
    rule = Eligibility(radius=radius, scale="standard").fit(logs)
    names = {"feature_names": logs.feature_names, "action_names": logs.action_names}
    return NetworkPolicy(network=network, eligibility=rule, **names)


def main() -> None:
    """Print one line for each number of features, policy and set of contexts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=117_000)
    parser.add_argument("--features", type=int, nargs="+", default=[8, 44])
    parser.add_argument("--actions", type=int, default=25)
    parser.add_argument("--radius", default="q100")
    asked = parser.parse_args()
    for features in asked.features:
        logs = logs_of(asked.steps // 13 * 13, features, asked.actions)
        policy = network_policy(logs, asked.radius)
        rule = policy.eligibility
        even = logs.with_propensities(np.full((logs.n_steps, logs.n_actions), 1 / logs.n_actions))
        propensities = replace(Consensus(sharpness=(2.0,)).fit(even), eligibility=rule)
        questions = logs.contexts[:QUESTIONS] + np.float32(0.01)
        print(f"{features} features, radius {rule.radius:.3g}")
        print(f"  the policy itself               {milliseconds(policy.probabilities, questions)}")
        with tempfile.TemporaryDirectory() as folder:
            for what, one, contexts in (
                ("network", policy, "all"),
                ("network", policy, "cover"),
                ("logged propensities", propensities, "all"),
                ("logged propensities", propensities, "cover"),
            ):
                graph = session(one, Path(folder), contexts)
                size = (Path(folder) / "policy.onnx").stat().st_size / 2**20
                speed = milliseconds(lambda rows, graph=graph: graph.run(None, {"contexts": rows}), questions)
                print(f"  {what + ', ' + contexts:30}  {speed}  {size:6.1f} MiB")


if __name__ == "__main__":
    main()
