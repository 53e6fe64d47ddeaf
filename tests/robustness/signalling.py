"""Run as a script: forks `poela learn`, sends each a signal at a random moment, and prints what came of it.

One process imports everything once and forks for every attempt, so that fifty interruptions take seconds. Prints one
line of JSON for each: the exit code, standard error, and what is left in the study's folder.
"""

import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import torch

from poela.cli import main
from poela.core import progress
from poela.core.interruption import orderly
from poela.studies import learning  # noqa: F401  so that no attempt spends its time on imports

RESUMED = 5  # every so many attempts are resumed to their end
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def learn(logs: Path, candidates: Path, out: Path) -> list[str]:
    given = ["--candidates", str(candidates), "--restarts", "2", "--backend", "inline", "--choose-by", "sntis"]
    return ["learn", str(logs), "--out", str(out), *given]


def attempt(arguments: list[str], after: float | None, sent: signal.Signals) -> tuple[int, str]:
    """Run the command in a child, with the bar shown at once, and signal it; its exit code and standard error."""
    ready, begin = os.pipe()
    with tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
            progress.PATIENCE_SECONDS = 0.0
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(errors.fileno(), 2)
            with orderly():  # what Python itself does with a signal, before `main` and after it, is not the question
                os.write(begin, b"x")
                os._exit(main(arguments))
        os.read(ready, 1)
        os.close(ready)
        os.close(begin)
        if after is not None:
            time.sleep(0.001 + after)
            os.kill(child, sent)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        errors.seek(0)
        return status, errors.read().decode(errors="replace")


def run(directory: Path, attempts: int) -> None:
    torch.set_num_threads(1)
    logs, candidates = directory / "logs.parquet", directory / "candidates.toml"
    main(["simulate", "hidden-branch", "--episodes", "60", "--out", str(logs)])
    candidates.write_text(
        '[[grid]]\nlearner = "pocrm"\nsteps = 30\nwarm_start_steps = 10\nhidden = [[4]]\ndevice = "cpu"\n'
        "variance_penalty = [0.1, 1.0]\n"
    )
    main(learn(logs, candidates, directory / "warm"))  # here, since whatever is slow the first time is then inherited
    started = time.monotonic()
    attempt(learn(logs, candidates, directory / "whole"), None, signal.SIGINT)
    whole = time.monotonic() - started
    moments = random.Random(0)
    for number in range(attempts):
        out = directory / f"study-{number}"
        sent = SIGNALS[number % len(SIGNALS)]
        code, errors = attempt(learn(logs, candidates, out), moments.uniform(0, whole), sent)
        outcome = {"code": code, "errors": errors}
        outcome["left"] = [path.name for path in out.rglob(".*") if path.name != ".poela-study"]
        if number % RESUMED == 0:
            outcome["resumed"] = attempt([*learn(logs, candidates, out), "--resume"], None, sent)[0]
            outcome["same"] = (out / "choice.json").read_bytes() == (directory / "whole" / "choice.json").read_bytes()
        print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]))
