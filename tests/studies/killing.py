"""Run as a script: forks studies, kills them with signal 9 at random moments, and resumes each to its end.

With `writing` as a third word the moments lie among the calls that write files, one in each part of the way.

One process imports everything once and forks for every attempt, so that ten kills take seconds. Moments are counted in
calls of functions, so that they do not depend on how busy the machine is. Prints one line for
each kill: whether the resumed table and choice are those of the study that was never interrupted, whether finished runs
were kept, which files are left over, and how many were half written when it was killed.
"""

import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # for a script, the root of the repository is not on the path

from tests.robustness.moments import WRITING, Calls

from poela.core.temporary import TEMPORARY
from poela.data.trajectories import Trajectories
from poela.studies.candidates import grid
from poela.studies.learning import learn
from poela.studies.store import MARK

RESULTS = ("table.parquet", "choice.json")


def logs() -> Trajectories:
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, 120)
    rewards = actions + rng.normal(size=120)
    return Trajectories(rng.normal(size=(120, 2)), actions, rewards, np.arange(0, 121, 3), np.full((120, 2), 0.5))


def study(out: Path) -> None:
    tiny: dict[str, list[Any]] = {
        "steps": [10],
        "warm_start_steps": [2],
        "hidden": [(4,)],
        "checkpoints": [2],
        "device": ["cpu"],
    }
    candidates = [*grid("poela", radius=["q50"], **tiny), *grid("pocrm", **tiny)]
    learn(logs(), candidates=candidates, folds=2, out=out, resume=True, backend="inline")


def killed_at(moment: int, out: Path, within: tuple[str, ...] = ()) -> bool:
    """Start the study in a forked process that kills itself at this call; whether it came to that."""
    child = os.fork()
    if child == 0:
        with Calls(moment, within=within):
            study(out)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def results(out: Path) -> list[bytes]:
    return [(out / name).read_bytes() for name in RESULTS]


def main(directory: Path, kills: int, within: tuple[str, ...] = ()) -> None:
    torch.set_num_threads(1)
    study(directory / "warm")  # whatever is slow the first time
    with Calls(within=within) as calls:
        study(directory / "whole")
    moments = random.Random(0)
    reach = calls.counted * 9 // 10  # a busy machine draws fewer bars, and so makes fewer calls
    for number in range(kills):
        out = directory / f"killed-{number}"
        # One in each part of the way, so that all of it is met.
        moment = 1 + (reach * number + moments.randrange(reach)) // kills
        if not killed_at(moment, out, within):
            print("it ended before")
        half = len(list(out.rglob(f"{TEMPORARY}*")))
        finished_before = {path: path.stat().st_mtime_ns for path in out.glob("runs/*.safetensors")}
        study(out)
        redone = any(path.stat().st_mtime_ns != when for path, when in finished_before.items())
        same = results(out) == results(directory / "whole")
        left = [path.name for path in out.rglob(".*") if path.name != MARK]
        print("same" if same else "DIFFERENT", "REDONE" if redone else "kept", left, half, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), WRITING if "writing" in sys.argv[3:] else ())
