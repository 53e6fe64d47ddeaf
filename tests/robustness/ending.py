"""Run as a script: programs that call `poela.learn` are ended by a signal while training rows lie on the disk.

One process imports everything once and forks for each. Prints one line of JSON for each: how the program ended, and
which files were left.
"""

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from poela.data.trajectories import Trajectories
from poela.studies.candidates import Candidate
from poela.studies.learning import learn

GONE = os.WEXITED | os.WNOHANG | os.WNOWAIT  # whether a child has ended, without taking its end
LONG = {"steps": 10**6, "warm_start_steps": 1, "hidden": (4,), "device": "cpu"}


def study(**settings: Any) -> None:
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, 120)
    logs = Trajectories(
        rng.normal(size=(120, 2)), actions, actions * 1.0, np.arange(0, 121, 3), propensities=np.full((120, 2), 0.5)
    )
    learn(logs, restarts=1, backend="inline", **settings)


def own_handler() -> None:
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(7))


def ended(prepare: Callable[[], object], place: Path | None, sent: signal.Signals, scratch: str) -> None:
    here = Path(tempfile.gettempdir())
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        prepare()
        try:
            study(candidates=[Candidate("pocrm", LONG)], out=place)
        except KeyboardInterrupt:
            os._exit(8)
        os._exit(0)
    while not (found := list(here.glob(scratch))) and os.waitid(os.P_PID, child, GONE) is None:
        time.sleep(0.01)
    os.kill(child, sent)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    left = [str(path.relative_to(here)) for path in here.rglob("*.npy")]
    own = [path.name for path in here.glob("poela-*")]
    print(json.dumps({"code": code, "left": left, "own": own, "found": len(found)}), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    tempfile.tempdir = sys.argv[1]
    out = Path(sys.argv[1]) / "study"
    in_study, in_own = "study/.scratch/0/material.json", "poela-*/.scratch/0/material.json"
    ended(lambda: None, out, signal.SIGTERM, in_study)
    ended(lambda: None, None, signal.SIGTERM, in_own)
    ended(own_handler, None, signal.SIGTERM, in_own)
    ended(lambda: None, None, signal.SIGINT, in_own)
    ended(lambda: None, None, signal.SIGKILL, in_own)
    study(learners=["fittedq"])
    print(json.dumps({"own": [path.name for path in Path(sys.argv[1]).glob("poela-*")]}))
