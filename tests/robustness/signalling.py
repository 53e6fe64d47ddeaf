"""Run as a script: forks `poela learn`, sends each a signal at a random moment, and prints what came of it.

With `kill` as a third word the signal is 9, which nobody can answer, while files are written.

One process imports everything once and forks for every attempt, so that fifty interruptions take seconds. Moments are
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
from types import FrameType

import torch

from poela.cli import main
from poela.core import progress
from poela.core.interruption import orderly
from poela.core.temporary import TEMPORARY
from poela.studies import learning  # noqa: F401  so that no attempt spends its time on imports

RESUMED = 5  # every so many attempts are resumed to their end
SIGNALS = (signal.SIGINT, signal.SIGTERM)
WRITES = ("core/files.py", "core/temporary.py")  # where calls are counted for kills


def learn(logs: Path, candidates: Path, out: Path) -> list[str]:
    given = ["--candidates", str(candidates), "--restarts", "2", "--backend", "inline", "--choose-by", "sntis"]
    return ["learn", str(logs), "--out", str(out), *given]


class Calls:
    """Counts calls of functions, and signals this process at one of them."""

    def __init__(self, moment: int | None, sent: signal.Signals) -> None:
        self.moment, self.sent, self.counted = moment, sent, 0
        self._writing = sent == signal.SIGKILL  # only calls out of what writes files

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if self._writing and not frame.f_code.co_filename.endswith(WRITES):
            return
        if event in ("call", "c_call"):
            self.counted += 1
            if self.counted == self.moment:
                sys.setprofile(None)
                os.kill(os.getpid(), self.sent)


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
            calls = Calls(moment, sent)
            with orderly():  # what Python itself does with a signal, before `main` and after it, is not the question
                sys.setprofile(calls)
                code = main(arguments)
                sys.setprofile(None)
                os.write(writing, str(calls.counted).encode())
                os._exit(code)
        os.close(writing)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        calls_made = int(os.read(reading, 20) or 0)
        os.close(reading)
        errors.seek(0)
        return status, errors.read().decode(errors="replace"), calls_made


def killed(directory: Path, attempts: int, whole: int) -> None:
    """Kills while files are written: each study is looked at, some are resumed to what nobody killed came to."""
    moments = random.Random(1)
    expected = (directory / "whole" / "choice.json").read_bytes()
    for number in range(attempts):
        out = directory / f"killed-{number}"
        # One in each part of the way, so that all of it is met.
        moment = 1 + (whole * number + moments.randrange(whole)) // attempts
        given = learn(directory / "logs.parquet", directory / "candidates.toml", out)
        outcome: dict[str, object] = {"code": attempt(given, moment, signal.SIGKILL)[0]}
        outcome["half"] = len(list(out.rglob(f"{TEMPORARY}*")))
        outcome["shown"], outcome["said"], _ = attempt(["studies", "show", str(out)], None, signal.SIGINT)
        if number % RESUMED == 0:
            more = ["--resume"] if (out / "study.json").exists() else []
            outcome["resumed"] = attempt([*given, *more], None, signal.SIGINT)[0]
            outcome["same"] = (out / "choice.json").read_bytes() == expected
            outcome["left"] = [path.name for path in out.rglob(".*") if path.name != ".poela-study"]
        print(json.dumps(outcome), flush=True)


def run(directory: Path, attempts: int, kills: bool = False) -> None:
    torch.set_num_threads(1)
    logs, candidates = directory / "logs.parquet", directory / "candidates.toml"
    main(["simulate", "hidden-branch", "--episodes", "60", "--out", str(logs)])
    candidates.write_text(
        '[[grid]]\nlearner = "pocrm"\nsteps = 30\nwarm_start_steps = 10\nhidden = [[4]]\ndevice = "cpu"\n'
        "variance_penalty = [0.1, 1.0]\n"
    )
    main(learn(logs, candidates, directory / "warm"))  # here, since whatever is slow the first time is then inherited
    whole = attempt(learn(logs, candidates, directory / "whole"), None, signal.SIGINT)[2]
    if kills:
        writing = attempt(learn(logs, candidates, directory / "counted"), None, signal.SIGKILL)[2]
        killed(directory, attempts, writing)
        return
    moments = random.Random(0)
    for number in range(attempts):
        out = directory / f"study-{number}"
        sent = SIGNALS[number % len(SIGNALS)]
        code, errors, _ = attempt(learn(logs, candidates, out), moments.randint(1, whole), sent)
        outcome = {"code": code, "errors": errors}
        outcome["left"] = [path.name for path in out.rglob(".*") if path.name != ".poela-study"]
        if number % RESUMED == 0:
            outcome["resumed"] = attempt([*learn(logs, candidates, out), "--resume"], None, sent)[0]
            outcome["same"] = (out / "choice.json").read_bytes() == (directory / "whole" / "choice.json").read_bytes()
        print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]), kills="kill" in sys.argv[3:])
