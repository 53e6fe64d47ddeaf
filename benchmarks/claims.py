"""How often whole studies claim a gain that is not there, and what they show where there is one.

    python benchmarks/claims.py arms-2 arms-5 --learners fittedq --logs 60 --out claims/new
    python benchmarks/claims.py --list
    python benchmarks/claims.py --all --learners default --logs 200 --shard 0/8 --jobs 2 --out claims/new
    python benchmarks/claims.py --trials-kinds --logs 60 --jobs 16 --minutes 5 --out claims/trials
    python benchmarks/claims.py --table claims/old claims/new
    python benchmarks/claims.py --trials claims/trials

Every log is learned from as anybody would, by `poela.learn`. In most kinds of logs nothing is to be gained, so that all
claims are false; in the others those above the true gain of the policy as it is handed back. "trial" is the true gain
of the policy that is worth a trial, where one is handed out. Only public names are used: with PYTHONPATH at the sources
of another commit the same script measures that one. Seeds begin at 20,000, where no setting was chosen. Rows go to
OUT/KIND.LEARNERS.SHARD.jsonl as they are made, those that are there are not made again, and tables are made of them;
cpu is the processor time of learning, in seconds.
"""

import argparse
import fnmatch
import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import beta
from stored_rows import in_turn, made_by

import poela
from poela.data.trajectories import Trajectories
from poela.simulators.registry import simulate

FIRST_SEED = 20_000
FRESH = 100_000  # cases that tell what is true
NO_GAIN = "nothing to gain"


class Kind(NamedTuple):
    """How logs are made from a number of episodes and a seed, and what a policy truly gains (None: no policy does)."""

    logs: Callable[[int, int], Trajectories]
    episodes: int
    gain: Callable[[Any], float] | None = None


Draw = Callable[[np.random.Generator, Any, Any], Any]  # the rewards of contexts [n, d] and actions [n]


def one_step(
    actions: int,
    reward: Draw,
    episodes: int = 400,
    chances: Callable[[Any], Any] | None = None,
    worth: Callable[[Any, Any], Any] | None = None,
    *,
    hidden: bool = False,
) -> Kind:
    """One decision with three features; `worth(x, a)` is the mean reward where actions differ."""

    def practice(x: Any) -> Any:
        return np.full((len(x), actions), 1 / actions) if chances is None else chances(x)

    def logs(n: int, seed: int) -> Trajectories:
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(n, 3))
        mu = practice(x)
        a = (rng.random((n, 1)) > mu.cumsum(axis=1)).sum(axis=1).clip(max=actions - 1)
        return Trajectories(x, a, reward(rng, x, a), np.arange(n + 1), None if hidden else mu, actions)

    def gain(policy: Any) -> float:
        assert worth is not None
        x = np.random.default_rng(1).normal(size=(FRESH, 3))
        cases = Trajectories(x, np.zeros(FRESH, np.int64), np.zeros(FRESH), np.arange(FRESH + 1), n_actions=actions)
        values = np.stack([worth(x, np.full(FRESH, a)) for a in range(actions)], axis=1)
        return float(((policy.along(cases) - practice(x)) * values).sum(axis=1).mean())

    return Kind(logs, episodes, None if worth is None else gain)


def effect(
    size: float, actions: int, prognosis: float = 0.0, noise: Callable[..., Any] | None = None, **other: Any
) -> Kind:
    """An action is good where one feature is high, and another where another is."""
    worth = _merits(size, actions)

    def reward(rng: np.random.Generator, x: Any, a: Any) -> Any:
        return worth(x, a) + prognosis * x[:, 0] + (rng.normal(size=len(x)) if noise is None else noise(rng, len(x)))

    return one_step(actions, reward, worth=worth, **other)


def effect_on_rate(size: float, actions: int) -> Kind:
    """Yes or no, a third of yes where nothing is good."""
    merits = _merits(size, actions)

    def rate(x: Any, a: Any) -> Any:
        return 1 / (1 + 2 * np.exp(-merits(x, a)))

    return one_step(actions, lambda rng, x, a: 1.0 * (rng.random(len(x)) < rate(x, a)), worth=rate)


def _merits(size: float, actions: int) -> Callable[[Any, Any], Any]:
    merit = np.random.default_rng(2).normal(size=(3, actions)) / np.sqrt(3)
    return lambda x, a: size * (x * merit[:, a].T).sum(axis=1)


def several_steps(steps: int, size: float = 0.0, episodes: int = 200) -> Kind:
    """A trait of the case decides most of its outcome; each step pays `size` where the action fits what is seen."""

    def act(n: int, rng: np.random.Generator, policy: Any) -> tuple[Any, Any, Any]:
        trait, x = rng.normal(size=n), rng.normal(size=(n, steps, 2))
        x[:, :, 1] = trait[:, None] + 0.3 * x[:, :, 1]
        actor = None if policy is None else policy.actor(n)
        taken, paid = np.zeros((n, steps), np.int64), 0.5 * rng.normal(size=(n, steps))
        for t in range(steps):
            rows = np.full((n, 2), 0.5) if actor is None else actor.probabilities(x[:, t].astype(np.float32))
            taken[:, t] = rng.random(n) > rows[:, 0]
            if actor is not None:
                actor.record(taken[:, t])
            paid[:, t] += size * np.where(taken[:, t] == (x[:, t, 0] > 0), 0.5, -0.5)
        paid[:, -1] += trait
        return x, taken, paid

    def logs(n: int, seed: int) -> Trajectories:
        x, a, r = act(n, np.random.default_rng(seed), None)
        offsets = np.arange(0, n * steps + 1, steps)
        return Trajectories(x.reshape(-1, 2), a.ravel(), r.ravel(), offsets, np.full((n * steps, 2), 0.5))

    def gain(policy: Any) -> float:
        return float(act(FRESH // 5, np.random.default_rng(1), policy)[2].sum(axis=1).mean())

    return Kind(logs, episodes, gain if size else None)


def clusters(n: int, seed: int) -> Trajectories:
    """Five episodes of a patient, who has one action and one trait throughout."""
    rng = np.random.default_rng(seed)
    of = np.arange(n) // 5
    trait, action = rng.normal(size=of[-1] + 1)[of], rng.integers(0, 2, of[-1] + 1)[of]
    x = np.stack([trait + rng.normal(size=n), rng.normal(size=n)], axis=1)
    return Trajectories(x, action, trait + rng.normal(size=n), np.arange(n + 1), np.full((n, 2), 0.5), clusters=of)


def tumor_shuffled(n: int, seed: int) -> Trajectories:
    """Tumor logs whose returns belong to other episodes."""
    made = simulate("tumor", n, seed)
    rewards = np.zeros(made.n_steps)
    rewards[made.offsets[1:] - 1] = np.random.default_rng((seed, 1)).permutation(made.returns())
    return replace(made, rewards=rewards)


def clinic_without_effect(n: int, seed: int) -> Trajectories:
    """The clinic where treatments do nothing, not even harm."""
    made = simulate("clinic", n, seed, effect=0.0)
    seen = [column for column, name in enumerate(made.feature_names) if name != "side effects"]
    names = tuple(made.feature_names[column] for column in seen)
    return replace(made, contexts=made.contexts[:, seen], feature_names=names)


def _lean(scores: Any) -> Any:
    chance = 1 / (1 + np.exp(-scores))
    return np.stack([1 - chance, chance], axis=1)


def _softmax(scores: Any) -> Any:
    exponentials = np.exp(scores)
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def _two_of_four(x: Any) -> Any:
    return np.concatenate([_lean(x[:, 1]), np.zeros((len(x), 2))], axis=1)


def _noise(rng: np.random.Generator, x: Any, a: Any) -> Any:
    return rng.normal(size=len(x))


def _risky(rng: np.random.Generator, x: Any, a: Any) -> Any:
    """The first action pays 1 − Exp(1), the others nothing."""
    return np.where(a == 0, 1 - rng.exponential(size=len(x)), 0.0)


def _hidden_tail(rng: np.random.Generator, x: Any, a: Any) -> Any:
    """The second action is mostly a little better and rarely much worse; what contexts foresee hides that."""
    loss = rng.lognormal(-2.0, 2.0, size=len(x)) - 1  # of mean 0
    return 3 * x[:, :3].sum(axis=1) / np.sqrt(3) - a * loss + 0.1 * rng.normal(size=len(x))


KINDS: dict[str, Kind] = {
    "arms-2": one_step(2, _noise),
    "arms-5": one_step(5, _noise),
    "arms-30": one_step(30, _noise, episodes=1000),
    "ties": one_step(3, lambda rng, x, a: rng.integers(0, 3, len(x)).astype(float)),
    "risky": one_step(2, _risky),
    "risky-40/60": one_step(2, _risky, chances=lambda x: np.tile([0.4, 0.6], (len(x), 1))),
    "prognosis": one_step(3, lambda rng, x, a: 2 * x[:, 0] + rng.normal(size=len(x))),
    "skewed": one_step(3, lambda rng, x, a: rng.exponential(size=len(x))),
    "rare": one_step(3, lambda rng, x, a: 1.0 * (rng.random(len(x)) < 0.05), episodes=1000),
    "hidden-tail": one_step(2, _hidden_tail, chances=lambda x: np.tile([0.8, 0.2], (len(x), 1))),
    "clusters": Kind(clusters, 400),
    "steps-3": several_steps(3),
    "steps-8": several_steps(8),
    "clinic": Kind(clinic_without_effect, 300),
    "tumor-shuffled": Kind(tumor_shuffled, 200),
    "estimated-right": one_step(
        2, lambda rng, x, a: x[:, 0] + rng.normal(size=len(x)), chances=lambda x: _lean(x[:, 0]), hidden=True
    ),
    "estimated-wrong": one_step(
        2,
        lambda rng, x, a: x[:, 0] * x[:, 1] + rng.normal(size=len(x)),
        chances=lambda x: _lean(x[:, 0] * x[:, 1]),
        hidden=True,
    ),
    "harmful": one_step(
        4,
        lambda rng, x, a: np.where(a < 2, 0.0, -1.0) + rng.normal(size=len(x)),
        chances=_two_of_four,
    ),
    # Where there is something to gain.
    "effect-weak": effect(0.25, 5),
    "effect-prognosis": effect(0.4, 5, prognosis=2.0),
    "effect-strong": effect(0.8, 5),
    "effect-steps-3": several_steps(3, 0.4),
    "effect-skewed": effect(0.4, 3, noise=lambda rng, n: rng.exponential(size=n)),
    "effect-yes/no": effect_on_rate(0.5, 3),
    "effect-estimated": effect(0.5, 3, prognosis=1.0, chances=lambda x: _softmax(0.7 * x), hidden=True),
}
# Where "worth a trial" is put to the test: little to gain, or propensities that have to be estimated.
TRIALS = ("effect-weak", "effect-prognosis", "effect-steps-3", "effect-skewed", "effect-yes/no", "effect-estimated")


def carried_out(name: str, learners: str, episodes: int | None, seed: int) -> dict[str, Any]:
    """One study, and what is true."""
    kind = KINDS[name]
    warnings.simplefilter("ignore")
    logs = kind.logs(episodes or kind.episodes, seed)
    chosen = None if learners == "default" else learners.split("+")
    started = time.process_time()
    study = poela.learn(logs, learners=chosen, backend="inline", seed=seed)
    row: dict[str, Any] = {"kind": name, "learners": learners, "seed": seed, "episodes": logs.n_episodes}
    row["cpu"] = round(time.process_time() - started, 3)
    row |= made_by()
    if study.promising is not None:  # worth a trial: its true gain
        row["trial"] = 0.0 if kind.gain is None else kind.gain(study.promising)
    if study.keeps_logging_policy or study.gain is None or study.gain.low is None:
        return row
    return row | {
        "shown": study.gain.low,
        "estimated": study.gain.value,
        "true": 0.0 if kind.gain is None else kind.gain(study.policy),
        "policy": study.chosen_name,
        "verdict": study.estimate.verdict,
        "ess": study.estimate.ess,
    }


def rows_in(folder: Path) -> list[dict[str, Any]]:
    """Every row that a folder has, each log once."""
    rows = [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()]
    return list({(row["kind"], row["learners"], row["seed"]): row for row in rows}.values())


def tables(folders: Sequence[Path]) -> Iterator[str]:
    """A table for each folder, its kinds in the order of `KINDS`, and all kinds without a gain together."""
    for folder in folders:
        rows = rows_in(folder)
        yield f"{folder.name} ({', '.join(sorted({row['commit'] for row in rows}))})\n"
        yield "| kind | learners | logs | claims | above the truth | % (95% interval) | shown | true | cpu |"
        yield "|---|---|---|---|---|---|---|---|---|"
        for learners in sorted({row["learners"] for row in rows}):
            own = [row for row in rows if row["learners"] == learners]
            for kind in KINDS:
                if some := [row for row in own if row["kind"] == kind]:
                    yield _line(kind, learners, some)
            if null := [row for row in own if KINDS[row["kind"]].gain is None]:
                yield _line(NO_GAIN, learners, null)
        yield ""


def trials(folders: Sequence[Path]) -> Iterator[str]:
    """Of each kind with something to gain: how often a policy is worth a trial, and how often it is truly better.

    The last line has all kinds together. Where nothing is to be gained no policy is better: only counted.
    """
    rows = [row for folder in folders for row in rows_in(folder)]
    yield "| kind | logs | worth a trial | truly better | % (95% interval) | true gain | least |"
    yield "|---|---|---|---|---|---|---|"
    able = [kind for kind in KINDS if KINDS[kind].gain is not None]
    for kind in (*able, None):
        own = [row for row in rows if (row["kind"] in able if kind is None else row["kind"] == kind)]
        gains = [row["trial"] for row in own if "trial" in row]
        if not gains:
            continue
        better = sum(gain > 0 for gain in gains)
        low, high = interval(better, len(gains))
        share = f"{100 * better / len(gains):.1f} ({100 * low:.1f} to {100 * high:.1f})"
        cells = kind or "all", len(own), len(gains), better, share, f"{np.mean(gains):.4f}", f"{min(gains):.4f}"
        yield "| " + " | ".join(map(str, cells)) + " |"
    null = [row for row in rows if row["kind"] not in able]
    if null:
        yield f"\nWhere nothing is to be gained: {sum('trial' in row for row in null)} of {len(null)} logs.\n"


def _line(kind: str, learners: str, rows: Sequence[dict[str, Any]]) -> str:
    claims = [row for row in rows if "shown" in row]
    false = sum(row["shown"] > row["true"] for row in claims)
    low, high = interval(false, len(rows))
    shown, true = (sum(row[name] for row in claims) / len(rows) for name in ("shown", "true"))  # nothing where none is
    cpu = np.mean([row["cpu"] for row in rows])
    share = f"{100 * false / len(rows):.1f} ({100 * low:.1f} to {100 * high:.1f})"
    cells = kind, learners, len(rows), len(claims), false, share, f"{shown:.4f}", f"{true:.4f}", f"{cpu:.1f}"
    return "| " + " | ".join(map(str, cells)) + " |"


def interval(count: int, n: int) -> tuple[float, float]:
    """Clopper & Pearson's 95% interval of a rate.

    >>> [round(end, 3) for end in interval(0, 60)]
    [0.0, 0.06]
    """
    low = float(beta.ppf(0.025, count, n - count + 1)) if count else 0.0
    return low, float(beta.ppf(0.975, count + 1, n - count)) if count < n else 1.0


def main() -> None:
    """Carry out, or print what was."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND")
    parser.add_argument("--all", action="store_true", help="every kind")
    parser.add_argument("--null", action="store_true", help="every kind without a gain")
    parser.add_argument("--trials-kinds", action="store_true", help="six kinds with policies that are worth a trial")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--learners", default="fittedq", help="NAME+NAME, or default")
    parser.add_argument("--episodes", type=int)
    parser.add_argument("--logs", type=int, default=60)
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="the first seed")
    parser.add_argument("--shard", default="0/1", help="I/N: every N-th log from the I-th on")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="begin no further log after so long")
    parser.add_argument("--out", type=Path, default=Path("claims"))
    parser.add_argument("--table", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument(
        "--trials", type=Path, nargs="+", metavar="FOLDER", help="what policies worth a trial are worth"
    )
    asked = parser.parse_args()
    if asked.list or asked.table or asked.trials:
        print("\n".join(KINDS if asked.list else tables(asked.table) if asked.table else trials(asked.trials)))
        return
    named = [(name, fnmatch.filter(KINDS, name)) for name in asked.kinds]  # such as effect-*
    unknown = [name for name, own in named if not own]
    null = [kind for kind in KINDS if KINDS[kind].gain is None]
    groups = (asked.all, [*KINDS]), (asked.null, null), (asked.trials_kinds, [*TRIALS])
    groups += tuple((True, own) for _, own in named)
    kinds = [*dict.fromkeys(kind for wanted, own in groups if wanted for kind in own)]
    if unknown or not kinds:
        parser.error(f"there is no kind {unknown[0]!r}: see --list" if unknown else "name kinds of logs, or --all")
    place, shards = map(int, asked.shard.split("/"))
    asked.out.mkdir(parents=True, exist_ok=True)
    there = {(row["kind"], row["learners"], row["seed"]) for row in rows_in(asked.out)}
    left = [
        (kind, asked.learners, asked.episodes, seed)
        for seed in range(asked.first + place, asked.first + asked.logs, shards)
        for kind in kinds  # in turn, so that a run that is cut short has all of them
        if (kind, asked.learners, seed) not in there
    ]
    for _, row in in_turn(left, carried_out, asked.jobs, asked.minutes):
        file = f"{row['kind'].replace('/', '-')}.{asked.learners}.{place}-of-{shards}.jsonl"
        with (asked.out / file).open("a") as lines:
            lines.write(json.dumps(row) + "\n")
    print("\n".join(tables([asked.out])))


if __name__ == "__main__":
    main()
