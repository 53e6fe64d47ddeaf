"""Run as a script: kills with signal 9 a process that overwrites a policy, or ends a study, again and again; prints
what is found after each kill.

Moments are counted among the calls that write files: each of them for a policy, one in each part of the way for a
study. So every kill falls where something is written, and none depends on how busy the machine is. Each line says how
many files were half written then, so that the test knows it has hit what it aims at.
"""

import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # for a script, the root of the repository is not on the path

from tests.robustness.moments import WRITING, Calls

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


def killed(work: Callable[[int], object], moment: int) -> bool:
    """Do both turns in a child that kills itself at this call; whether it came to that."""
    child = os.fork()
    if child == 0:
        with Calls(moment, within=WRITING):
            for turn in (0, 1):
                work(turn)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def moments_of(work: Callable[[int], object], kills: int) -> list[int]:
    """One moment in each part of the way of both turns, which are done here once."""
    with Calls(within=WRITING) as calls:
        for turn in (0, 1):
            work(turn)
    rng, reach = random.Random(1), calls.counted * 9 // 10  # not quite to the end, which need not be at the same call
    return [1 + (reach * number + rng.randrange(reach)) // kills for number in range(kills)]


def policies(directory: Path) -> None:
    """At every single call that writes a policy over another."""
    train = logs()
    known = [POCRM(**TINY).fit(train, seed=seed) for seed in (0, 1)]
    expected = [policy.probabilities(train.contexts) for policy in known]
    known[1].save(directory / "policy")

    def work(turn: int) -> None:
        known[turn].save(directory / "policy", overwrite=True)

    with Calls(within=WRITING) as calls:
        work(0)
    known[1].save(directory / "policy", overwrite=True)
    for moment in range(1, calls.counted + 1):
        hit = killed(work, moment)
        half = sum(path.name.startswith(TEMPORARY) for path in (directory / "policy").iterdir())
        found = load_policy(directory / "policy").probabilities(train.contexts)
        whole = hit and any(np.array_equal(found, one) for one in expected)
        print("policy", "whole" if whole else "BROKEN", half)
        known[1].save(directory / "policy", overwrite=True)  # or what kills leave would make each way longer


def study(out: Path, turn: int) -> None:
    candidates = [Candidate("pocrm", TINY)]
    settings: dict[str, Any] = {"restarts": 1, "out": out, "resume": True, "backend": "inline"}
    learn(logs(), candidates=candidates, selection=SELECTIONS[turn % 2], **settings)


def studies(directory: Path, kills: int) -> None:
    out = directory / "study"
    document = out / "policy" / "poela-policy.json"
    ends = []
    for turn in (0, 1):
        study(out, turn)
        ends.append((out / "choice.json").read_bytes())
    for number, moment in enumerate(moments_of(lambda turn: study(out, turn), kills)):
        hit = killed(lambda turn: study(out, turn), moment)
        half = sum(path.name.startswith(TEMPORARY) for path in out.rglob("*"))
        opened = Study.open(out)
        sound = hit and (not (out / "choice.json").exists() or (out / "choice.json").read_bytes() in ends)
        if opened.result is not None:  # an end that is told of is whole: the policy is there, or there is none
            sound &= document.exists() == (opened.result.chosen is not None)
        if document.exists():
            load_policy(out / "policy")
        print("study", "whole" if sound else "BROKEN", half)
        study(out, 1 + number)
    study(out, 0)
    print("study", "whole" if (out / "choice.json").read_bytes() == ends[0] else "BROKEN", 0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    policies(Path(sys.argv[1]))
    studies(Path(sys.argv[1]), int(sys.argv[2]))
