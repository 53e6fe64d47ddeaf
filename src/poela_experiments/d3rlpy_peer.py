"""BCQ and CQL of d3rlpy for real-valued actions; runs by its path where d3rlpy is, and imports nothing of ours.

It is given arrays in a file and settings as JSON, trains, writes one JSON line, and then answers contexts with actions:
the number of contexts as a line, then their float64 values, on the standard input; the values of the actions come back.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

os.environ["TORCHDYNAMO_DISABLE"] = (
    "1"  # graphs on a GPU are captured, not compiled: that would take longer than it saves
)


def train(arrays: Any, settings: dict[str, Any]) -> tuple[Callable[[Any], Any], dict[str, Any]]:
    """What acts, by d3rlpy's algorithm with its own settings but for the size of networks; and how it was made."""
    import d3rlpy
    import torch
    from d3rlpy.models import VectorEncoderFactory
    from d3rlpy.torch_utility import TorchMiniBatch

    torch.set_num_threads(1)
    # One core is as fast with networks of this size, except where CQL weighs many actions.
    device = "cuda:0" if torch.cuda.is_available() and settings["learner"] == "CQL" else "cpu:0"
    seen = arrays["observations"]
    mean, deviation = seen.mean(axis=0), seen.std(axis=0) + 1e-3
    data = {
        name: torch.tensor(np.asarray(arrays[name], np.float32).reshape(len(seen), -1), device=device)
        for name in ("actions", "rewards", "terminals")
    }
    observations = torch.tensor(((seen - mean) / deviation).astype(np.float32), device=device)
    # Where an episode is cut short nothing is known of what comes next: d3rlpy leaves that step out too.
    rows = torch.tensor(np.flatnonzero(arrays["timeouts"] == 0), device=device)
    kind, networks = {
        "BCQ": (d3rlpy.algos.BCQConfig, ("actor", "critic", "imitator")),
        "CQL": (d3rlpy.algos.CQLConfig, ("actor", "critic")),
    }[settings["learner"]]
    hidden = {f"{name}_encoder_factory": VectorEncoderFactory(list(settings["hidden"])) for name in networks}
    config = kind(compile_graph=settings.get("graph", True), **hidden)
    d3rlpy.seed(settings["seed"])
    algorithm = config.create(device=device)
    algorithm.create_impl((seen.shape[1],), data["actions"].shape[1])
    ones = torch.ones(config.batch_size, 1, device=device)
    steps, first = settings["steps"], settings["steps"] // 3
    for step in range(steps):
        if step == first:  # the first steps make room, and capture what they do
            started = time.perf_counter()
        drawn = rows[torch.randint(len(rows), (config.batch_size,), device=device)]
        after = (drawn + 1).clamp(max=len(seen) - 1)
        batch = TorchMiniBatch(
            observations=observations[drawn],
            actions=data["actions"][drawn],
            rewards=data["rewards"][drawn],
            next_observations=observations[after],
            next_actions=data["actions"][after],
            returns_to_go=torch.zeros_like(ones),
            terminals=data["terminals"][drawn],
            intervals=ones.clone(),
            device=device,
        )
        algorithm.impl.update(batch, step)
    speed = (steps - first) / (time.perf_counter() - started)
    about = {"steps": steps, "steps / s": speed, "device": device}
    # BCQ draws candidates and takes the best one: what it predicts is random already, and it has no other policy.
    act = algorithm.predict if settings["learner"] == "BCQ" else algorithm.sample_action
    return lambda contexts: act(((contexts - mean) / deviation).astype(np.float32)), about


def answer(act: Callable[[Any], Any], width: int, inputs: Any, outputs: Any) -> None:
    """Answer until the input ends."""
    while line := inputs.readline():
        count = int(line)
        contexts = np.frombuffer(inputs.read(8 * count * width)).reshape(count, width)
        outputs.write(np.asarray(act(contexts), np.float64).tobytes())
        outputs.flush()


def main() -> None:
    """Train, tell, answer; what d3rlpy prints goes to the standard error."""
    outputs, sys.stdout = os.fdopen(os.dup(1), "wb"), sys.stderr
    os.dup2(2, 1)
    settings = json.loads(sys.argv[2])
    arrays = np.load(sys.argv[1], allow_pickle=False)
    try:
        act, about = train(arrays, settings)
    except Exception:
        if not settings.get("graph", True):
            raise
        # A failed capture spoils the process: once more without, in a new one.
        os.dup2(outputs.fileno(), 1)
        os.execv(sys.executable, [sys.executable, __file__, sys.argv[1], json.dumps({**settings, "graph": False})])
    outputs.write(json.dumps(about).encode() + b"\n")
    outputs.flush()
    answer(act, arrays["observations"].shape[1], sys.stdin.buffer, outputs)


if __name__ == "__main__":
    main()
