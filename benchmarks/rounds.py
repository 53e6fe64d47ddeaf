"""What rounds show: learn, act by what is recommended, log, and learn again, at one error level over all rounds.

    python benchmarks/rounds.py tumor-3x667 tumor-5x400 --logs 16 --jobs 16 --minutes 30 --out docs/results/rounds
    python benchmarks/rounds.py --list
    python benchmarks/rounds.py --table docs/results/rounds

Each log of a kind begins with episodes of the simulator's logging policy. `poela.learn` learns from all logs so far,
after the round before; what it recommends makes the next log (or the logging policy goes on, where nothing is
recommended), until the declared number of rounds is reached. Shown is the sum of what the rounds have shown, at 95%
over all of them; true is what the last policy gains over the first practice, by 20,000 roll-outs. Where nothing is to
be gained, a log ends with its first claim, which is false. `KIND:NAME+NAME` learns by others than fittedq. Seeds
begin at 31,000, where nothing was chosen. Rows go to OUT/KIND.jsonl as they are made; those that are there are not
made again.
"""

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from claims import KINDS as NULL_KINDS
from shown_gain import tumor_points
from stored_rows import made_by

import poela
from poela.data.trajectories import Trajectories
from poela.evaluation.rollouts import true_value
from poela.simulators.episodes import run
from poela.simulators.registry import source

FIRST_SEED = 31_000
APART = 1000  # seeds of the logs of one row
ROLL_OUTS = 20_000


class Kind(NamedTuple):
    """So many rounds of so many episodes, of a simulator or where nothing is to be gained; points for one unit."""

    rounds: int
    episodes: int
    simulator: str | None
    points: Callable[[], float] = lambda: 1.0
    null: str = ""


KINDS: dict[str, Kind] = {
    "tumor-3x667": Kind(3, 667, "tumor", tumor_points),
    "tumor-5x400": Kind(5, 400, "tumor", tumor_points),
    "tumor-1x2000": Kind(1, 2000, "tumor", tumor_points),
    "clinic-3x700": Kind(3, 700, "clinic"),
    "clinic-1x2100": Kind(1, 2100, "clinic"),
    "null-arms-2": Kind(3, 400, None, null="arms-2"),
    "null-steps-3": Kind(3, 200, None, null="steps-3"),
}


def logs_of(kind: Kind, policy: Any, seed: int) -> Trajectories:
    """A log of the simulator's logging policy (None), or of a policy that was recommended."""
    if kind.simulator is None:
        return NULL_KINDS[kind.null].logs(kind.episodes, seed)
    origin = source(kind.simulator)
    return origin.collect(kind.episodes, seed) if policy is None else run(origin.simulator, policy, kind.episodes, seed)


def carried_out(name: str, seed: int) -> dict[str, Any]:
    """One staircase."""
    base, _, learners = name.partition(":")
    kind = KINDS[base]
    started = time.process_time()
    logs: list[Trajectories] = []
    by: list[str] = []
    study, acting, maker, rounds = None, None, "practice", []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(1, kind.rounds + 1):
            logs.append(logs_of(kind, acting, APART * seed + number))
            by.append(maker)
            study = poela.learn(
                logs,
                out=f"{folder}/{number}",
                learners=learners.split("+") if learners else ["fittedq"],
                backend="inline",
                logged_by=by,
                after=f"{folder}/{number - 1}" if number > 1 else None,
                rounds=kind.rounds if number == 1 else None,
            )
            claimed = not study.keeps_logging_policy
            rounds.append(study.gain.low if claimed and study.gain is not None else 0.0)
            if claimed:
                acting, maker = study.policy, f"{folder}/{number}"
            if claimed and kind.simulator is None:
                break
        seconds = time.process_time() - started
        points = kind.points()
        row = {"seed": seed, "rounds": [points * (one or 0.0) for one in rounds], "shown": points * sum(rounds)}
        row |= {"claims": sum(one > 0 for one in rounds), "cpu": round(seconds, 1), "true": 0.0, **made_by()}
        if kind.simulator is not None and acting is not None:
            origin = source(kind.simulator)
            values = [true_value(one, origin.simulator, ROLL_OUTS, seed=1).value for one in (acting, origin.behavior)]
            row["true"] = points * (values[0] - values[1])
    return row


HEAD = "| kind | logs | logs with a claim | above the truth | shown | least | true | by round | cpu |\n|" + "---|" * 9


def table(name: str, rows: list[dict[str, Any]]) -> str:
    """One row of Markdown."""
    if not rows:
        return f"| {name} | 0 |" + " |" * 7
    false = sum(row["shown"] > row["true"] for row in rows)
    longest = max(len(row["rounds"]) for row in rows)
    each = [[row["rounds"][place] for row in rows if place < len(row["rounds"])] for place in range(longest)]
    by_round = ", ".join(f"{np.mean(values):.2f}" for values in each)
    shown, true = (np.mean([row[what] for row in rows]) for what in ("shown", "true"))
    least, cpu = min(row["shown"] for row in rows), np.mean([row["cpu"] for row in rows])
    claims = sum(row["claims"] > 0 for row in rows)
    cells = (name, len(rows), claims, false, f"{shown:.2f}", f"{least:.2f}", f"{true:.2f}", by_round, f"{cpu:.0f}")
    return "| " + " | ".join(map(str, cells)) + " |"


def stored(file: Path) -> list[dict[str, Any]]:
    """The rows of a kind so far, by seed."""
    lines = file.read_text().splitlines() if file.exists() else []
    return sorted(map(json.loads, lines), key=lambda row: row["seed"])


def main() -> None:
    """Carry out, or print what was."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--logs", type=int, default=16)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no other log after so long")
    parser.add_argument("--out", type=Path, default=Path("rounds"))
    parser.add_argument("--table", type=Path, metavar="FOLDER")
    asked = parser.parse_args()
    if asked.list:
        print("\n".join(KINDS))
        return
    if asked.table:
        print(HEAD)
        for file in sorted(one for one in asked.table.glob("*.jsonl") if one.stem.partition(".")[0] in KINDS):
            print(table(file.stem, stored(file)))
        return
    asked.out.mkdir(parents=True, exist_ok=True)
    file_of = {name: asked.out / f"{name.replace(':', '.')}.jsonl" for name in asked.kinds}
    known = {name: {row["seed"] for row in stored(file_of[name])} for name in asked.kinds}
    seeds = range(FIRST_SEED, FIRST_SEED + asked.logs)
    waiting = [(name, seed) for seed in seeds for name in asked.kinds if seed not in known[name]]
    end = time.monotonic() + 60 * asked.minutes
    with ProcessPoolExecutor(asked.jobs) as pool:
        running = {}
        while waiting or running:
            while waiting and len(running) < asked.jobs and time.monotonic() < end:
                task = waiting.pop(0)
                running[pool.submit(carried_out, *task)] = task
            if not running:
                break
            done = next(as_completed(running))
            name, _ = running.pop(done)
            with file_of[name].open("a") as file:
                file.write(json.dumps(done.result()) + "\n")
    print(HEAD)
    for name in asked.kinds:
        print(table(name, stored(file_of[name])), flush=True)


if __name__ == "__main__":
    main()
