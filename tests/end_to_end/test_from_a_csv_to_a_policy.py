"""As a user does it: a CSV with columns of its own, a study, its verdict on later logs, interruptions, and damage."""

import contextlib
import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from poela.cli import main
from poela.policies.saving import save_policy
from poela.studies.study import Study

# The command, stopped by itself as soon as a run is written: at this moment, however busy the machine is.
STOPPING = """
import os, signal, sys
from poela.cli import main
from poela.studies.store import Store

write_run = Store.write_run

def write_and_stop(*given):
    Store.write_run = write_run
    write_run(*given)
    os.kill(os.getpid(), signal.SIGSTOP)

Store.write_run = write_and_stop
sys.exit(main())
"""
COLUMNS = ["--episode", "patient", "--step", "visit", "--action", "drug", "--reward", "outcome"]
GRID = """
[[grid]]
learner = "poela"
radius = ["q50", 2.0]
steps = {steps}
warm_start_steps = 2
hidden = [[4]]
checkpoints = 2

[[grid]]
learner = "pocrm"
steps = {steps}
warm_start_steps = 2
hidden = [[4]]
checkpoints = 2
"""


@dataclass(frozen=True)
class Done:
    """What a command came to."""

    code: int
    out: str
    err: str


def poela(*arguments: object) -> Done:
    """Run a command in this process, which has imported everything already."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    return Done(code, out.getvalue(), err.getvalue())


def write_visits(path: Path, patients: int, seed: int, drugs: tuple[str, ...] = ("none", "low", "high")) -> Path:
    rng = np.random.default_rng(seed)
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["drug", "patient", "age", "visit", "pain", "outcome"])
        for patient in rng.permutation(patients):
            for visit in range(int(rng.integers(1, 5))):
                age, pain = rng.normal(size=2)
                drug = int(rng.integers(len(drugs)))
                outcome = float((drug > 0) == (pain > 0)) + 0.3 * rng.normal()
                lines.writerow([drugs[drug], f"p{patient}", f"{age:.3f}", visit, f"{pain:.3f}", f"{outcome:.3f}"])
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place with logs, a grid, and a finished study."""
    home = tmp_path_factory.mktemp("home")
    write_visits(home / "visits.csv", patients=80, seed=0)
    write_visits(home / "later.csv", patients=30, seed=1)
    (home / "grid.toml").write_text(GRID.format(steps=6))
    done = learn(home, home / "study", "--json")
    assert done.code == 0, done.err
    (home / "learned.json").write_text(done.out)
    return home


def learn(home: Path, out: Path, *more: object) -> Done:
    return poela(*arguments_of_learn(home, out), "--backend", "inline", *more)


def arguments_of_learn(home: Path, out: Path) -> list[str]:
    place = ["learn", str(home / "visits.csv"), "--out", str(out), *COLUMNS]
    return [*place, "--candidates", str(home / "grid.toml"), "--folds", "2", "--test", "0.2"]


def test_learning_prints_one_json_document(home: Path) -> None:
    document = json.loads((home / "learned.json").read_text())
    assert document["runs"] == document["runs_finished"] == 3 * 2
    assert document["propensities"].startswith("propensities: estimated")
    assert document["estimate"]["n_episodes"] == 16


def test_evaluating_on_later_visits(home: Path) -> None:
    done = poela("evaluate", home / "study", "--logs", home / "later.csv")
    assert done.code == 0, done.err
    assert "On 30 episodes" in done.out
    document = json.loads(poela("evaluate", home / "study", "--logs", home / "later.csv", "--json").out)
    assert document["estimate"]["n_episodes"] == 30
    assert document["caveat"] == ""


def test_looking_at_studies(home: Path) -> None:
    (listed,) = json.loads(poela("studies", "list", home, "--json").out)
    assert listed["study"] == str(home / "study")
    assert "verdict" in poela("studies", "list", home).out
    assert "Keep what you do" in poela("studies", "show", home / "study").out
    compared = json.loads(poela("studies", "compare", home / "study", home / "study", "--json").out)
    assert compared["same_test_logs"]


def test_later_logs_that_do_not_fit(home: Path, tmp_path: Path) -> None:
    unseen = write_visits(tmp_path / "unseen.csv", patients=20, seed=2, drugs=("none", "low", "prayer"))
    done = poela("evaluate", home / "study", "--logs", unseen)
    assert done.code == 2
    assert "'drug' lies outside the declared actions" in done.err
    assert "prayer" not in done.err
    missing = tmp_path / "missing.csv"
    missing.write_text((home / "later.csv").read_text().replace("pain", "ache", 1))
    done = poela("evaluate", home / "study", "--logs", missing)
    assert done.code == 2
    assert "'pain'" in done.err


def test_a_damaged_policy_is_refused(home: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy"
    study = Study.open(home / "study")  # so few visits show nothing to be better, or worth a trial
    assert study.promising is None
    save_policy(study.fold_policy(study.points[0], 0), policy)
    arrays = next(policy.glob("*.safetensors"))
    arrays.write_bytes(arrays.read_bytes()[:-4])
    done = poela("evaluate", policy, "--logs", home / "later.csv", *COLUMNS)
    assert done.code == 2
    assert "damaged or was changed" in done.err
    assert len(done.err.splitlines()) == 1


def test_resuming_finds_nothing_to_do(home: Path) -> None:
    before = (home / "study" / "table.parquet").read_bytes()
    done = learn(home, home / "study", "--resume", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out) == json.loads((home / "learned.json").read_text())
    assert (home / "study" / "table.parquet").read_bytes() == before
    assert learn(home, home / "study").code == 2


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_and_resumed(home: Path, tmp_path: Path, sent: signal.Signals) -> None:
    out = tmp_path / "study"
    command = [sys.executable, "-c", STOPPING, *arguments_of_learn(home, out), "--jobs", "1"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
    assert len(list(out.glob("runs/*.safetensors"))) == 1
    busy = learn(home, out, "--resume")
    assert (busy.code, busy.err.count("\n")) == (1, 1)
    assert "in use by another process" in busy.err
    process.send_signal(sent)
    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate(timeout=600)
    if sent == signal.SIGINT:
        assert process.returncode == 1
        assert "continue with --resume" in errors
    else:
        assert process.returncode == -signal.SIGKILL
    _wait_for_workers_to_leave(str(out).encode())
    unfinished = poela("evaluate", out, "--logs", home / "later.csv")
    assert (unfinished.code, unfinished.err.count("\n")) == (1, 1)
    assert "has come to no result yet: continue it with --resume" in unfinished.err
    assert learn(home, out, "--resume").code == 0
    for name in ("table.parquet", "choice.json"):
        assert (out / name).read_bytes() == (home / "study" / name).read_bytes()


def _wait_for_workers_to_leave(mark: bytes) -> None:
    """No worker outlives its parent; where there is no /proc, there is nothing to look at."""
    deadline = time.monotonic() + 600
    while (left := _running_with(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left


def _running_with(mark: bytes) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if mark in path.read_bytes():
                found.append(path.parent.name)
    return found
