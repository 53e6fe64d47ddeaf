"""Run as a script: kills with signal 9, at random moments, a process that overwrites a policy, or ends a study, again
and again; prints what is found after each kill.

The child overwrites all the time, so nearly every kill falls inside a write; each line says how many files were half
written then, so that the test knows it has hit what it aims at.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from poela.core.temporary import TEMPORARY
from poela.data.trajectories import Trajectories
from poela.learners.policy_gradient import POCRM
from poela.policies.storage import load_policy
from poela.studies.candidates import Candidate
from poela.studies.learning import learn
from poela.studies.selection import Selection
from poela.studies.study import Study

TINY: dict[str, Any] = {"steps": 4, "warm_start_steps": 1, "hidden": (64, 64), "checkpoints": 2, "device": "cpu"}
SELECTIONS = (Selection("sntis", "final"), Selection("sntis", "best", min_ess=1e6))  # a policy, and none


def logs() -> Trajectories:
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, 120)
    return Trajectories(
        rng.normal(size=(120, 2)), actions, actions * 1.0, np.arange(0, 121, 3), propensities=np.full((120, 2), 0.5)
    )


def killed(work: Callable[[int], None], after: float) -> None:
    child = os.fork()
    if child == 0:
        turn = 0
        while True:
            work(turn)
            turn += 1
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def policies(directory: Path, kills: int, moments: random.Random) -> None:
    train = logs()
    known = [POCRM(**TINY).fit(train, seed=seed) for seed in (0, 1)]
    expected = [policy.probabilities(train.contexts) for policy in known]
    known[0].save(directory / "policy")
    for _ in range(kills):
        killed(lambda turn: known[turn % 2].save(directory / "policy", overwrite=True), moments.uniform(0.0, 0.05))
        half = sum(path.name.startswith(TEMPORARY) for path in (directory / "policy").iterdir())
        found = load_policy(directory / "policy").probabilities(train.contexts)
        whole = any(np.array_equal(found, one) for one in expected)
        print("policy", "whole" if whole else "BROKEN", half)


def study(out: Path, turn: int) -> None:
    candidates = [Candidate("pocrm", TINY)]
    settings: dict[str, Any] = {"restarts": 1, "out": out, "resume": True, "backend": "inline"}
    learn(logs(), candidates=candidates, selection=SELECTIONS[turn % 2], **settings)


def studies(directory: Path, kills: int, moments: random.Random) -> None:
    out = directory / "study"
    document = out / "policy" / "poela-policy.json"
    ends = []
    for turn in (0, 1):
        study(out, turn)
        ends.append((out / "choice.json").read_bytes())
    for _ in range(kills):
        killed(lambda turn: study(out, turn), moments.uniform(0.0, 0.2))
        half = sum(path.name.startswith(TEMPORARY) for path in out.rglob("*"))
        opened = Study.open(out)
        sound = not (out / "choice.json").exists() or (out / "choice.json").read_bytes() in ends
        if opened.result is not None:  # an end that is told of is whole: the policy is there, or there is none
            sound &= document.exists() == (opened.result.chosen is not None)
        if document.exists():
            load_policy(out / "policy")
        print("study", "whole" if sound else "BROKEN", half)
    study(out, 0)
    print("study", "whole" if (out / "choice.json").read_bytes() == ends[0] else "BROKEN", 0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    policies(Path(sys.argv[1]), int(sys.argv[2]), random.Random(0))
    studies(Path(sys.argv[1]), int(sys.argv[2]), random.Random(1))
