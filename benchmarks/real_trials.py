"""Is what is shown on real trials true? Learn on half of a randomised trial, ask the other half.

    pip install --no-deps causaldata==0.1.5
    python benchmarks/real_trials.py --logs 20 --out docs/results/real-trials
    python benchmarks/real_trials.py --table docs/results/real-trials

`halves`: half of the clusters (or people, `by person`) teach `poela.learn` with rules; the gain of
what it recommends is then estimated on the other half by means weighted by the shares of the draw (Hájek), with the
standard error over clusters; this file computes both with NumPy, without the library. The two halves of one trial do
not repeat it: splits overlap, and they say less than as many trials would. `no effect`: the whole trial with its arms
drawn anew by the same shares, so that outcomes cannot depend on them: the gain of every policy is exactly zero, and
each claim is false.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from stored_rows import Row, add_flags, carry_out, rows_in, seeds

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
FIRST_SEED, CHANCE = 40_000, 1.645


@dataclass(frozen=True)
class Trial:
    """Which columns play which part."""

    table: str
    action: str
    reward: str
    context: tuple[str, ...]
    cluster: str | None = None
    drawn_by: str | None = None  # who shares one draw, if not each person has an own one


TRIALS = {
    "incentives": Trial("incentives", "offer", "came", ("km", "age"), "village"),
    "incentives, less costs": Trial("incentives", "offer", "came - 0.25*paid", ("km", "age"), "village"),
    "incentives, by person": Trial("incentives", "offer", "came", ("km", "age")),
    "incentives, less costs, by person": Trial("incentives", "offer", "came - 0.25*paid", ("km", "age")),
    "insurance": Trial(
        "insurance",
        "default",
        "insured",
        ("age", "household", "rice", "disaster_prob", "male", "risk_averse", "literacy"),
        "hamlet",
        drawn_by="hamlet",
    ),
    "training": Trial("training", "training", "earned", ("age", "educ", "nodegree", "marr", "re74", "re75")),
}
KINDS = ("halves", "no effect")


def read(trial: Trial, table: Any) -> Any:
    """The trial as logs."""
    import warnings

    import poela

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", poela.PoelaWarning)
        return poela.read_logs(
            table,
            action=trial.action,
            reward=trial.reward,
            context=list(trial.context),
            cluster=trial.cluster,
            propensity=[column for column in table.columns if column.startswith("chance_")],
        )


def drawn_anew(trial: Trial, table: Any, rng: np.random.Generator) -> Any:
    """The same people and outcomes, with arms that had nothing to do with them."""
    arms = [column.removeprefix("chance_") for column in table.columns if column.startswith("chance_")]
    chances = np.cumsum(table[[f"chance_{arm}" for arm in arms]].to_numpy(), axis=1)
    units = (
        np.arange(len(table)) if trial.drawn_by is None else np.unique(table[trial.drawn_by], return_inverse=True)[1]
    )
    luck = rng.random(units.max() + 1)[units]
    drawn = np.minimum((luck[:, None] > chances).sum(axis=1), len(arms) - 1)
    return table.assign(**{trial.action: np.array(arms)[drawn]})


def halves(clusters: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two halves of the clusters."""
    names, own = np.unique(clusters, return_inverse=True)
    first = rng.permutation(len(names)) < len(names) / 2
    return np.flatnonzero(first[own]), np.flatnonzero(~first[own])


def plain_gain(
    probabilities: np.ndarray, actions: np.ndarray, chances: np.ndarray, rewards: np.ndarray, clusters: np.ndarray
) -> tuple[float, float]:
    """Weighted mean less plain mean, and the standard error of the difference over clusters.

    >>> chances, rewards = np.full((4, 2), 0.5), np.array([0.0, 0.0, 1.0, 1.0])
    >>> plain_gain(np.eye(2)[[1, 1, 1, 1]], np.array([0, 0, 1, 1]), chances, rewards, np.arange(4))[0]
    0.5
    """
    rows = np.arange(len(actions))
    weights = probabilities[rows, actions] / chances[rows, actions]
    value, now = np.average(rewards, weights=weights), rewards.mean()
    parts = weights / weights.mean() * (rewards - value) - (rewards - now)
    sums = np.bincount(np.unique(clusters, return_inverse=True)[1], parts)
    return float(value - now), float(
        np.sqrt(np.sum((sums - sums.mean()) ** 2) * len(sums) / (len(sums) - 1)) / len(rows)
    )


def measured(kind: str, name: str, seed: int) -> Row:
    """One split, or one set of arms drawn anew."""
    from examples.real_data import TABLES

    import poela

    started, rng, trial = time.process_time(), np.random.default_rng(seed), TRIALS[name]
    table = TABLES[trial.table]().reset_index(drop=True)
    if kind == "no effect":
        table = drawn_anew(trial, table, rng)
    logs = read(trial, table)
    clusters = np.arange(len(table)) if trial.cluster is None else table[trial.cluster].to_numpy()
    learning, asked = halves(clusters, rng) if kind == "halves" else (np.arange(len(table)), None)
    study = poela.learn(logs.take(learning), learners=["rules"], backend="inline", seed=seed)
    row: Row = {"kind": kind, "trial": name, "seed": seed, "answer": study.answer.kind}
    if not study.keeps_logging_policy:
        row |= {"shown": study.gain.low, "estimated": study.gain.value, "rule": str(study.rule)}
        if asked is not None:
            other = logs.take(asked)
            gain, error = plain_gain(
                study.policy.along(other), other.actions, other.propensities, other.rewards, clusters[asked]
            )
            row |= {"other": gain, "error": error}
    return row | {"cpu": time.process_time() - started}


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """Markdown."""
    split = [row for row in rows if row["kind"] == "halves"]
    yield "| trial | splits | changes | shown | other half | below the bound | by more than chance |"
    yield "|---|---|---|---|---|---|---|"
    for name in TRIALS:
        own = [row for row in split if row["trial"] == name]
        claims = [row for row in own if "shown" in row]
        digits = 0 if name == "training" else 3
        shown, other = (
            f"{np.mean([row[key] for row in claims]):+,.{digits}f}" if claims else "-" for key in ("shown", "other")
        )
        below = sum(row["other"] < row["shown"] for row in claims)
        surely = sum(row["other"] + CHANCE * row["error"] < row["shown"] for row in claims)
        yield f"| {name} | {len(own)} | {len(claims)} | {shown} | {other} | {below} | {surely} |"
    if len(split) == len(rows):
        return
    yield ""
    yield "| trial, arms drawn anew | times | false claims |"
    yield "|---|---|---|"
    for name in TRIALS:
        own = [row for row in rows if row["kind"] == "no effect" and row["trial"] == name]
        if own:
            yield f"| {name} | {len(own)} | {sum('shown' in row for row in own)} |"


def main(arguments: list[str]) -> None:
    """Measure what has no row yet, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trials", nargs="*", metavar="TRIAL", help=f"of {', '.join(TRIALS)}; default: all")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=[*KINDS])
    add_flags(parser, "real-trials")
    asked = parser.parse_args(arguments)
    if asked.table is None:
        own = seeds(FIRST_SEED if asked.first is None else asked.first, asked.logs, asked.shard)
        names = asked.trials or [*TRIALS]
        tasks = [(kind, name, seed) for seed in own for kind in asked.kinds for name in names]
        for _ in carry_out(tasks, measured, asked.out, asked.shard, asked.jobs, asked.minutes):
            pass
    print("\n".join(tables(rows_in(asked.table or asked.out))))


if __name__ == "__main__":
    main(sys.argv[1:])
