"""Run as a script: forks `poela learn`, sends each a signal, one in each part of the way, and prints what came of it.

One process imports everything once and forks for every attempt, so that a dozen interruptions take seconds. Moments are
counted in calls of functions, so that they do not depend on how busy the machine is. Prints one line of JSON for each:
the exit code, standard error, and what is left in the study's folder.
"""

import json
import os
import random
import signal
import sys
import tempfile
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # for a script, the root of the repository is not on the path

from tests.robustness.moments import Calls

from poela.cli import main
from poela.core import progress
from poela.core.interruption import deferred_signals
from poela.studies import learning  # noqa: F401  so that no attempt spends its time on imports

RESUMED = 5  # every so many attempts are resumed to their end
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def learn(logs: Path, candidates: Path, out: Path) -> list[str]:
    given = [
        "--candidates",
        str(candidates),
        "--folds",
        "2",
        "--restarts",
        "1",
        "--backend",
        "inline",
        "--choose-by",
        "sntis",
    ]
    return ["learn", str(logs), "--out", str(out), *given]


def attempt(arguments: list[str], moment: int | None, sent: signal.Signals) -> tuple[int, str, int]:
    """Run the command in a child, with the bar shown at once, signalled at this call; its exit code, standard error,
    and how many calls it made.
    """
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
            progress.PATIENCE_SECONDS = 0.0
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(errors.fileno(), 2)
            with (
                deferred_signals()
            ):  # what Python itself does with a signal, before `main` and after it, is not the question
                with Calls(moment, sent) as calls:
                    code = main(arguments)
                os.write(writing, str(calls.counted).encode())
                os._exit(code)
        os.close(writing)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        calls_made = int(os.read(reading, 20) or 0)
        os.close(reading)
        errors.seek(0)
        return status, errors.read().decode(errors="replace"), calls_made


def run(directory: Path, attempts: int) -> None:
    torch.set_num_threads(1)
    logs, candidates = directory / "logs.parquet", directory / "candidates.toml"
    main(["simulate", "hidden-branch", "--episodes", "60", "--out", str(logs)])
    candidates.write_text(
        '[[grid]]\nlearner = "pocrm"\nsteps = 30\nwarm_start_steps = 10\nhidden = [[4]]\ndevice = "cpu"\n'
        "variance_penalty = [0.1]\n"
    )
    main(learn(logs, candidates, directory / "warm"))  # here, since whatever is slow the first time is then inherited
    whole = attempt(learn(logs, candidates, directory / "whole"), None, signal.SIGINT)[2]
    moments, reach = random.Random(0), whole * 9 // 10  # after that nearly everything is written
    for number in range(attempts):
        out = directory / f"study-{number}"
        sent = SIGNALS[number % len(SIGNALS)]
        moment = 1 + (reach * number + moments.randrange(reach)) // attempts
        code, errors, _ = attempt(learn(logs, candidates, out), moment, sent)
        outcome = {"code": code, "errors": errors}
        outcome["left"] = [path.name for path in out.rglob(".*") if path.name != ".poela-study"]
        if number % RESUMED == 0:
            outcome["resumed"] = attempt([*learn(logs, candidates, out), "--resume"], None, sent)[0]
            outcome["same"] = (out / "choice.json").read_bytes() == (directory / "whole" / "choice.json").read_bytes()
        print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]))
