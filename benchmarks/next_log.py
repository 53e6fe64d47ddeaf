"""Whether the next log tells what `poela plan study/` says it will: effective cases, designed from a pilot and logged.

    python benchmarks/next_log.py --logs 6 --out docs/results/rounds/next-log.jsonl
    python benchmarks/next_log.py --table docs/results/rounds/next-log.jsonl

A pilot of 400 tumor episodes teaches and judges. For each rung that the plan names, and each share of cases in which
the recommended rung acts, the next log is drawn with as many cases as shall make 40 of them effective, and the rung
(that of the first fold) is weighed in it by balanced weights. Seeds begin at 51,000, where nothing was chosen.
"""

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import poela
from poela.evaluation.balanced import Logger, balanced
from poela.evaluation.weights import log_weights
from poela.rounds.next_log import plan_next
from poela.simulators.episodes import run
from poela.simulators.registry import source
from poela.stats.weights import effective_share

FIRST_SEED, PILOT, MOST = 51_000, 400, 3000


def drawn(acting: Any, share: float, cases: int, seed: int) -> Any:
    """The next log: some cases by the rung that acts, the others as before."""
    origin = source("tumor")
    own = round(share * cases)
    logs, loggers = [], []
    if own < cases:
        logs.append(origin.collect(cases - own, seed))
        loggers.append(Logger("practice", origin.behavior))
    if own:
        logs.append(run(origin.simulator, acting, own, seed + 1))
        loggers.append(Logger("study", acting))
    return balanced(logs, loggers).logs


def carried_out(seed: int) -> list[dict[str, Any]]:
    """One pilot, and what was drawn after it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pilot = source("tumor").collect(PILOT, seed)
        study = poela.learn(pilot, candidates=[poela.Candidate("fittedq")], backend="inline")
        plan = plan_next(study, by="policy")
        (logging,) = plan.logging
        rows = []
        points = {study.name_of(point): point for point in study.points}
        for target in logging.targets:
            policy = study.fold_policy(points[target.policy], 0)
            for cases in (target.alone, *target.shares):
                if cases.verified is None or cases.verified > MOST:
                    continue
                size = int(np.ceil(cases.verified))
                weights = log_weights(policy, drawn(study.policy, cases.share, size, 10 * seed)).episodes
                found = size * effective_share(weights)
                row = {"seed": seed, "rung": target.policy, "pilot": round(target.ess, 1), "share": cases.share}
                rows.append({**row, "cases": size, "planned": plan.enough, "effective": round(found, 1)})
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Effective cases as logged, for 40 as planned, by share and by how many the pilot has."""
    lines = ["| effective in the pilot | share by the rung | logs | median | 10% | 90% |", "|" + "---|" * 6]
    for low, high in ((15, 25), (25, 1000)):
        for share in sorted({row["share"] for row in rows}):
            some = [row["effective"] for row in rows if row["share"] == share and low <= row["pilot"] < high]
            if some:
                ends = " | ".join(f"{number:.0f}" for number in np.quantile(some, (0.5, 0.1, 0.9)))
                lines.append(f"| {low} to {high} | {share:.0%} | {len(some)} | {ends} |")
    return "\n".join(lines)


def main() -> None:
    """Carry out, or print what was."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=6)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, metavar="FILE")
    asked = parser.parse_args()
    if asked.table is not None:
        print(table([json.loads(line) for line in asked.table.read_text().splitlines()]))
        return
    rows: list[dict[str, Any]] = []
    for seed in range(FIRST_SEED, FIRST_SEED + asked.logs):
        rows += (own := carried_out(seed))
        if asked.out is not None:
            with asked.out.open("a") as file:
                file.writelines(json.dumps(row) + "\n" for row in own)
    print(table(rows))


if __name__ == "__main__":
    main()
