"""What `poela decide` hands out, acted step by step: is it worth what the study has shown?

    python benchmarks/decided.py --logs 10 --jobs 2 --out decided/
    python benchmarks/decided.py --only tumor dosing --episodes 400 --learners fittedq+rules --out decided/
    python benchmarks/decided.py --table decided/

A study is made of each log. Then new cases are decided about as a hospital would: at every step a CSV file with all
rows so far goes into the command, what it writes is done, and the next step follows (deferred cases are decided as
before). Beside the gain that the study has shown stand the true gain of what was handed out and that of `study.policy`,
over the same cases with the same luck. Rows go to OUT as they are made, and those that are there are not made again.
"""

import argparse
import contextlib
import io
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from claims import interval
from handed_out import Decide, HandedOut
from stored_rows import add_flags, carry_out, commit, rows_in, seeds

import poela
from poela.cli import main as command_line
from poela.core.policy import Memoryless
from poela.evaluation.rollouts import compare
from poela.simulators.episodes import Noise
from poela.simulators.registry import Source
from poela.simulators.registry import clinic as clinic_source
from poela.simulators.registry import dosing as dosing_source
from poela.simulators.registry import tumor as tumor_source


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
FIRST_SEED = 60_000  # where no setting was chosen
SIZES = {"tumor": 400, "clinic": 2000, "one step": 600, "dosing": 600}


def by_command(study: Path) -> Decide:
    """Decisions as the command line writes them, from a CSV file into a CSV file."""

    def decide(table: pa.Table) -> pa.Table:
        with tempfile.TemporaryDirectory() as folder:
            rows, out = Path(folder) / "rows.csv", Path(folder) / "decisions.csv"
            pyarrow.csv.write_csv(table, rows)
            with contextlib.redirect_stdout(io.StringIO()):
                code = command_line(["decide", str(study), "--rows", str(rows), "--out", str(out), "--no-similar"])
            if code:
                raise SystemExit(f"poela decide ended with {code}")
            text = pyarrow.csv.ConvertOptions(column_types={"action": pa.string()}, strings_can_be_null=True)
            return pyarrow.csv.read_csv(out, convert_options=text)

    return decide


def measured(name: str, seed: int, episodes: int, learners: str, acted: int) -> dict[str, Any]:
    """What is shown, what the policy and what is handed out are truly worth; no more where nothing is recommended."""
    source, started = SOURCES[name](), time.process_time()
    chosen = None if learners == "default" or name == "dosing" else learners.split("+")
    row: dict[str, Any] = {"kind": name, "seed": seed, "commit": commit()}
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study"
        study = poela.learn(source.collect(episodes, seed), learners=chosen, out=path, backend="inline")
        if study.keeps_logging_policy or study.gain is None or study.gain.low is None:
            return row | {"cpu": time.process_time() - started}
        handed = HandedOut(by_command(path), source.simulator, source.behavior)
        policies = {"policy": study.policy, "handed out": handed, "practice": source.behavior}
        found = compare(policies, source.simulator, acted, seed, batch=acted)
        own, given = (found.difference(one, "practice") for one in ("policy", "handed out"))
        apart = found.difference("handed out", "policy")
        return row | {
            "name": study.chosen_name,
            "shown": study.gain.low,
            "policy": own.value,
            "policy_error": own.standard_error,
            "handed": given.value,
            "handed_error": given.standard_error,
            "apart": apart.value,
            "apart_error": apart.standard_error,
            "cpu": time.process_time() - started,
        }


def tables(rows: list[dict[str, Any]]) -> list[str]:
    """A line for each log, and what the logs of each kind come to."""
    own, given = "true: `study.policy`", "true: what `decide` hands out"
    lines = [f"| logs | seed | policy | shown | {own} | {given} | the second less the first |", "|---" * 7 + "|"]
    sums = [
        "",
        "| logs | claims | handed out at least what was shown (95%) | handed out less policy |",
        "|---" * 4 + "|",
    ]
    for kind in [*SOURCES, "all"]:
        some = [row for row in rows if row["kind"] == kind or kind == "all"]
        claims = [row for row in some if "shown" in row]
        lines += [_line(row) for row in sorted(some, key=lambda row: row["seed"])] if kind != "all" else []
        if not some:
            continue
        kept = sum(row["handed"] >= row["shown"] for row in claims)
        low, high = interval(kept, len(claims)) if claims else (0.0, 1.0)
        scale = [row["apart"] / row["apart_error"] for row in claims if row["apart_error"] > 0]
        off = np.mean([row["apart"] for row in claims]) if claims else 0.0
        error = np.sqrt(np.sum([row["apart_error"] ** 2 for row in claims])) / max(len(claims), 1)
        apart = f"{off:+.3f} ± {error:.3f}" if kind != "all" else f"{np.mean(scale or [0.0]):+.2f} errors on average"
        apart = apart if scale else "-"
        share = f"{kept} of {len(claims)} ({low:.0%} to {high:.0%})"
        sums.append(f"| {kind} | {len(claims)} of {len(some)} | {share} | {apart} |")
    return lines + sums


def _line(row: dict[str, Any]) -> str:
    if "shown" not in row:
        return f"| {row['kind']} | {row['seed']} | as before | - | - | - | - |"
    own, given, apart = (f"{row[name]:+.3f} ± {row[f'{name}_error']:.3f}" for name in ("policy", "handed", "apart"))
    return f"| {row['kind']} | {row['seed']} | {row['name']} | {row['shown']:+.3f} | {own} | {given} | {apart} |"


def main(arguments: list[str]) -> None:
    """Measure what has no row yet, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_flags(parser, "decided")
    parser.add_argument("--episodes", type=int, help="in each log; default: as many as its kind needs to claim a gain")
    parser.add_argument("--acted", type=int, default=1000, help="new cases that are decided about")
    parser.add_argument("--learners", default="fittedq+rules", help="NAME+NAME, or default; doses have their own")
    parser.add_argument("--only", choices=list(SOURCES), nargs="+", default=list(SOURCES))
    asked = parser.parse_args(arguments)
    if asked.table is None:
        own = seeds(FIRST_SEED if asked.first is None else asked.first, asked.logs, asked.shard)
        sizes = {kind: asked.episodes or SIZES[kind] for kind in asked.only}
        tasks = [(kind, seed, sizes[kind], asked.learners, asked.acted) for kind in asked.only for seed in own]
        for row in carry_out(tasks, measured, asked.out, asked.shard, asked.jobs, asked.minutes):
            print(_line(row), flush=True)
    print("\n".join(tables(rows_in(asked.table or asked.out))))


if __name__ == "__main__":
    main(sys.argv[1:])
