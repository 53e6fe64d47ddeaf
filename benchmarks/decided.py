"""What `poela decide` hands out, acted step by step: is it worth what the study has shown?

    python benchmarks/decided.py --logs 10 --episodes 400

For each log: the gain that is shown, the true gain of `study.policy`, and that of the actions which the command writes
into its file, asked at every step about all rows so far (deferred cases are decided as before). Then the share of logs
in which the last is above the shown gain, and the mean difference of the two true gains with its standard error.
"""

import argparse
import contextlib
import io
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import poela
from poela.cli import main as command_line
from poela.core.policy import Memoryless
from poela.evaluation.rollouts import compare
from poela.simulators.episodes import Noise
from poela.simulators.registry import Source
from poela.simulators.registry import clinic as clinic_source
from poela.simulators.registry import dosing as dosing_source
from poela.simulators.registry import tumor as tumor_source

Decide = Callable[[pa.Table], pa.Table]


class OneStep:
    """One of three actions for each case; the best depends on two features, and practice hardly heeds them."""

    feature_names, action_names, horizon = ("age", "risk"), ("none", "small", "large"), 1

    def reset(self, n: int, noise: Noise) -> Any:
        """Fresh cases."""
        return noise.normal(2)

    def contexts(self, state: Any) -> Any:
        """What is known of them."""
        return state.astype(np.float32)

    def step(self, state: Any, actions: Any, noise: Noise) -> tuple[Any, Any, Any]:
        """What comes of it."""
        means = np.stack([np.zeros(len(state)), state[:, 0], 0.5 * state[:, 1]], axis=1)
        rewards = means[np.arange(len(state)), actions] + noise.normal(1)[:, 0]
        return state, rewards, np.ones(len(state), bool)

    @staticmethod
    def source() -> Source:
        """Logs by practice."""
        return Source(OneStep(), Practice(), Practice())


class Practice(Memoryless):
    """More is given to those at risk."""

    def probabilities(self, contexts: Any) -> Any:
        """[N, 3]."""
        lean = 0.3 * np.tanh(np.asarray(contexts, np.float64)[:, 1])
        return np.stack([(1 - lean) / 3, np.full(len(lean), 1 / 3), (1 + lean) / 3], axis=1)


SOURCES: dict[str, Callable[[], Source]] = {
    "tumor": tumor_source,
    "clinic": clinic_source,
    "one step": OneStep.source,
    "dosing": dosing_source,
}
LEARNERS = {"dosing": None}  # its usual ones; the others: fitted Q, which takes seconds


@dataclass(frozen=True)
class HandedOut:
    """A policy that does what a file of decisions says; cases that are deferred are left to practice."""

    decide: Decide
    simulator: Any
    practice: Any

    def probabilities(self, contexts: Any) -> Any:
        """Of loose contexts: those of a first step."""
        return self.actor(len(contexts)).probabilities(contexts)

    def along(self, trajectories: Any) -> Any:
        """Not asked for."""
        raise NotImplementedError

    def actor(self, n: int) -> "Acting":
        """Acts in n episodes at once."""
        return Acting(self, self.practice.actor(n))

    def sample(self, contexts: Any, rng: np.random.Generator) -> Any:
        """Real-valued actions of one step."""
        decided = self.decide(_table(self.simulator.feature_names, [contexts], []))
        practised = self.practice.sample(contexts, rng)
        columns = [decided[name].to_numpy() for name in self.simulator.action_names]
        return np.where(np.asarray(decided["defer"])[:, None], practised, np.stack(columns, axis=1))

    def log_density(self, contexts: Any, actions: Any) -> Any:
        """Not needed for a true value."""
        return np.zeros(len(contexts))


@dataclass
class Acting:
    """Running episodes: what was seen and done so far goes into the table that is decided about."""

    policy: HandedOut
    practice: Any
    seen: list[Any] = field(default_factory=list)
    done: list[Any] = field(default_factory=list)

    def probabilities(self, contexts: Any) -> Any:
        """All on the action that is handed out."""
        simulator = self.policy.simulator
        self.seen.append(np.array(contexts))
        names = np.array(simulator.action_names)
        table = _table(simulator.feature_names, self.seen, [names[actions] for actions in self.done])
        decided = self.policy.decide(table).slice(len(contexts) * len(self.done))
        given, left = np.array(decided["action"].to_pylist(), object), np.asarray(decided["defer"])
        handed = np.stack([[str(one) == str(name) for one in given] for name in names], axis=1).astype(float)
        return np.where(left[:, None], self.practice.probabilities(contexts), handed)

    def record(self, actions: Any) -> None:
        """What was done."""
        self.done.append(np.array(actions))
        self.practice.record(actions)


def _table(features: tuple[str, ...], seen: list[Any], done: list[Any]) -> pa.Table:
    """All rows so far, step by step; the action of the last step is yet to come."""
    n, steps = len(seen[0]), len(seen)
    contexts = np.concatenate(seen)
    acted = [name for names in done for name in names.tolist()] + [None] * n
    named = {name: contexts[:, place] for place, name in enumerate(features)}
    keys = {"episode": np.tile(np.arange(n), steps), "step": np.repeat(np.arange(steps), n)}
    return pa.table({**keys, **named, **({"action": acted} if done else {})})


def by_command(study: Path) -> Decide:
    """Decisions as the command line writes them."""

    def decide(table: pa.Table) -> pa.Table:
        with tempfile.TemporaryDirectory() as folder:
            rows, out = Path(folder) / "rows.parquet", Path(folder) / "decisions.csv"
            pq.write_table(table, rows)
            with contextlib.redirect_stdout(io.StringIO()):
                code = command_line(["decide", str(study), "--rows", str(rows), "--out", str(out), "--no-similar"])
            if code:
                raise SystemExit(f"poela decide ended with {code}")
            text = pyarrow.csv.ConvertOptions(column_types={"action": pa.string()}, strings_can_be_null=True)
            return pyarrow.csv.read_csv(out, convert_options=text)

    return decide


def measured(name: str, episodes: int, seed: int, acted: int) -> tuple[float, float, float, float] | None:
    """Shown, true of the policy, true of what is handed out, and the error of the last two's difference.

    None where nothing is recommended.
    """
    source = SOURCES[name]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study"
        study = poela.learn(source.collect(episodes, seed), learners=LEARNERS.get(name, ["fittedq"]), out=path)
        if study.keeps_logging_policy or study.gain is None or study.gain.low is None:
            return None
        handed = HandedOut(by_command(path), source.simulator, source.behavior)
        policies = {"policy": study.policy, "handed out": handed, "practice": source.behavior}
        found = compare(policies, source.simulator, acted, seed)
        apart = found.difference("handed out", "policy")
        gains = [found.difference(one, "practice").value for one in ("policy", "handed out")]
        return study.gain.low, gains[0], gains[1], apart.standard_error


def main(arguments: list[str]) -> None:
    """Print a row for each log, and what they come to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=2, help="of each kind")
    parser.add_argument("--episodes", type=int, default=400, help="in each log")
    parser.add_argument("--acted", type=int, default=1000, help="episodes that are acted")
    parser.add_argument("--only", choices=list(SOURCES), nargs="+", default=list(SOURCES))
    options = parser.parse_args(arguments)
    print("| logs | seed | shown | true of study.policy | true of what decide hands out | handed out − policy |")
    print("|---|---|---|---|---|---|")
    for name in options.only:
        rows = []
        for seed in range(options.logs):
            row = measured(name, options.episodes, seed, options.acted)
            if row is None:
                print(f"| {name} | {seed} | - | - | - | - |", flush=True)
                continue
            rows.append(row)
            shown, own, handed, error = row
            cells = f"{shown:+.3f} | {own:+.3f} | {handed:+.3f} | {handed - own:+.3f} ± {error:.3f}"
            print(f"| {name} | {seed} | {cells} |", flush=True)
        if rows:
            kept = np.mean([handed >= shown for shown, _, handed, _ in rows])
            off = np.mean([handed - own for _, own, handed, _ in rows])
            error = np.sqrt(np.sum([one[3] ** 2 for one in rows])) / len(rows)
            print(f"| {name} | all | kept in {kept:.0%} | | | {off:+.3f} ± {error:.3f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
