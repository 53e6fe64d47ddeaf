"""The pieces of the robots' table: one log, one learner, one seed each, so that they can be made side by side."""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from poela.core.arrays import FloatArray
from poela.core.errors import PoelaError
from poela.core.files import atomic_file
from poela.data.trajectories import Trajectories
from poela.evaluation.evaluate import evaluate
from poela.evaluation.weights import log_weights
from poela.learners.continuous import ContinuousClone, ContinuousPOELA
from poela.learners.implicit_q import IQL
from poela.learners.learner import Learner
from poela.stats.weights import effective_sample_size
from poela_experiments.frame.kept import Part
from poela_experiments.frame.run import Run
from poela_experiments.frame.settings import Size
from poela_experiments.mujoco_avoidance import avoidance
from poela_experiments.mujoco_logs import ENVIRONMENTS, LEVELS, Episodes, Sampler, roll_out, shipped_policy

LOGGING, CLONE, PLAIN, PENALISED, RIVAL = "logging policy", "clone", "POELA, β = 0", "POELA, β > 0", "IQL"
PEERS = ("BCQ", "CQL")
AVOIDING = "step weights"
PEER = Path(__file__).with_name("d3rlpy_peer.py")
INTERPRETER = "POELA_D3RLPY_PYTHON"  # the Python of an environment that has d3rlpy
NEEDS = f"BCQ and CQL need d3rlpy: set {INTERPRETER} to the Python of an environment with it"


@dataclass(frozen=True)
class RobotLog:
    """One log; made once and kept in a folder, which does not count among what it is."""

    robot: str
    level: str
    seed: int
    episodes: int
    folder: Path = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        """As tables have it."""
        return f"{self.robot} {self.level} {self.seed}"

    def made(self) -> Episodes:
        """Its episodes, from its file where there is one."""
        file = self.folder / f"{self.name.replace(' ', '-')}-{self.episodes}.npz"
        if not file.exists():
            sample = shipped_policy(self.robot, self.level).sample
            made = roll_out(self.robot, sample, self.episodes, seed=self.seed)
            with atomic_file(file) as temporary, temporary.open("wb") as handle:
                np.savez(handle, **vars(made))
        arrays = np.load(file, allow_pickle=False)
        return Episodes(**{name: arrays[name] for name in arrays.files})

    def logs(self) -> Trajectories:
        """As learners take them, with the density of what was drawn."""
        made = self.made()
        densities = shipped_policy(self.robot, self.level).log_density(made.contexts, made.actions)
        return Trajectories(made.contexts, made.actions, made.rewards, made.offsets, log_densities=densities)

    def fresh(self, policy: Sampler, episodes: int) -> FloatArray:
        """The returns of a policy [episodes], from starts that no log has."""
        return roll_out(self.robot, policy, episodes, seed=10_000 + self.seed).returns


@dataclass(frozen=True)
class Task:
    """One piece of the table: a learner on a log, and the function that makes it."""

    log: RobotLog
    learner: str
    make: Callable[..., dict[str, Any]]
    arguments: tuple[Any, ...]

    @property
    def part(self) -> Part:
        """As the frame takes it."""
        return partial(self.make, *self.arguments)

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.learner} {self.log.name}"


def logs_of(run: Run) -> list[RobotLog]:
    """Every log of a run."""
    cells = product(ENVIRONMENTS, LEVELS, range(run.size.seeds))
    folder = run.out / "logs"
    return [RobotLog(robot, level, run.seed + seed, run.size.episodes, folder) for robot, level, seed in cells]


def tasks_of(run: Run) -> Iterator[Task]:
    """All pieces, those that take longest first."""
    size = run.size
    logs = logs_of(run)
    for peer, log in product(PEERS, logs):
        yield Task(log, peer, peer_piece, (log, peer, tuple(size.hidden), size.peer_steps, size.roll_outs))
    for (name, learner), log in product(learners_of(size).items(), logs):
        # Judged on the episodes of the next seed, from which it did not learn.
        other = replace(log, seed=run.seed + (log.seed - run.seed + 1) % size.seeds)
        yield Task(log, name, learned_piece, (log, other, learner, size.roll_outs))
    for log in logs:
        if log.level == "medium":
            yield Task(log, AVOIDING, avoidance_piece, (log, dict(size.avoiding)))
        yield Task(log, LOGGING, logging_piece, (log,))


def learners_of(size: Size) -> dict[str, Learner]:
    """Ours, by their columns."""
    same: dict[str, Any] = {"hidden": tuple(size.hidden), "device": "cpu"}
    poela = ContinuousPOELA(**size.poela, **same)
    return {
        CLONE: ContinuousClone(**size.clone, **same),
        PLAIN: replace(poela, distance_penalty=0.0),
        PENALISED: replace(poela, distance_penalty=size.penalty),
        RIVAL: IQL(**size.iql, **same),
    }


def logging_piece(log: RobotLog) -> dict[str, Any]:
    """The value of the policy that made the log: the mean of its episodes."""
    made = log.made()
    return {"value": float(made.returns.mean()), "steps": len(made.rewards), "fell": float(made.fell.mean())}


def learned_piece(log: RobotLog, other: RobotLog, learner: Learner, roll_outs: int) -> dict[str, Any]:
    """What one of ours learns: its return by roll-outs, and what another log says of it."""
    logs: Any = log.logs()
    policy = learner.fit(logs, seed=log.seed)
    held_out = other.logs()
    estimate = evaluate(policy, held_out, interval=None)
    ratios = log_weights(policy, held_out).log_ratios
    return {
        "value": float(log.fresh(policy.sample, roll_outs).mean()),
        "episode ess": estimate.ess,
        "step ess": effective_sample_size(ratios) / len(ratios),
        "estimate": estimate.value,
        "verdict": estimate.verdict,
    }


def avoidance_piece(log: RobotLog, settings: dict[str, Any]) -> dict[str, Any]:
    """Objective and return on the way, where step weights are normalised by their sum."""
    roll_outs = settings["roll_outs"]
    points = avoidance(log.logs(), log.seed, **{name: settings[name] for name in settings if name != "roll_outs"})
    return {"points": [{**at, "value": float(log.fresh(policy.sample, roll_outs).mean())} for at, policy in points]}


def peer_piece(log: RobotLog, learner: str, hidden: tuple[int, ...], steps: int, roll_outs: int) -> dict[str, Any]:
    """What d3rlpy learns, in an environment of its own, rolled out here."""
    settings = {"learner": learner, "hidden": hidden, "steps": steps, "seed": log.seed}
    with _peer(log.made(), settings) as (about, sample):
        return {"value": float(log.fresh(sample, roll_outs).mean()), **about}


@contextmanager
def _peer(made: Episodes, settings: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Sampler]]:
    python = os.environ.get(INTERPRETER)
    if not python:
        raise PoelaError(NEEDS)
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "said").open("w+") as said:
        path = str(Path(folder) / "logs.npz")
        np.savez(path, **peer_arrays(made))
        command = [python, str(PEER), path, json.dumps(settings)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, cwd=folder
        ) as process:
            ask, answer = process.stdin, process.stdout
            assert ask is not None
            assert answer is not None
            told = answer.readline()
            if not told:
                said.seek(0)
                last = said.read().strip().splitlines()[-1:]
                raise PoelaError(f"d3rlpy could not train {settings['learner']}: {' '.join(last)}")
            width = made.actions.shape[1]

            def sample(contexts: FloatArray, rng: np.random.Generator) -> FloatArray:
                ask.write(f"{len(contexts)}\n".encode() + np.ascontiguousarray(contexts, float).tobytes())
                ask.flush()
                return np.frombuffer(answer.read(8 * len(contexts) * width)).reshape(len(contexts), width)

            yield json.loads(told), sample
            ask.close()


def peer_arrays(made: Episodes) -> dict[str, Any]:
    """As d3rlpy's data set takes them: actions as the environment clipped them, ends apart from episodes cut short."""
    last = np.zeros(len(made.rewards), np.float32)
    last[made.offsets[1:] - 1] = 1
    fell = np.zeros_like(last)
    fell[made.offsets[1:][made.fell] - 1] = 1
    return {
        "observations": made.contexts.astype(np.float32),
        "actions": np.clip(made.actions, -1, 1).astype(np.float32),
        "rewards": made.rewards.astype(np.float32),
        "terminals": fell,
        "timeouts": last - fell,
    }
