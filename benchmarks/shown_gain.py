"""What default studies claim, and whether it is true: many logs of many kinds whose truth is known.

    python benchmarks/shown_gain.py tumor tumor:poela tumor:pocrm --logs 20 --jobs 2 --out results/
    python benchmarks/shown_gain.py --list
    python benchmarks/shown_gain.py --table docs/results/shown-gain

For each scenario: how often a gain is claimed and how often that is above the truth (of the policy as it was judged,
and as it is handed back), what is shown and what is true, and what the policy worth a trial beside it truly gains.
Seeds begin at 6000, where no setting was chosen. Everything goes to OUT/NAME.json, from which the table is made again;
seconds are those of learning.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from stored_rows import in_turn, made_by

from poela.behavior.propensities import LoggedPropensities
from poela.core.files import write_json
from poela.core.policy import Memoryless
from poela.data.trajectories import Trajectories
from poela.eligibility.fitted import FittedEligibility
from poela.eligibility.rules import AnyAction
from poela.evaluation.rollouts import true_value
from poela.simulators.registry import simulate, source

FIRST_SEED = 6000
ROLL_OUTS = 20_000


class Scenario(NamedTuple):
    """How logs are made, what a policy (None: the logging policy) is truly worth, and what points one unit is."""

    logs: Callable[[int, int], Trajectories]
    truth: Callable[[Any], float]
    episodes: int
    points: float = 1.0
    behavior: str = "auto"


def simulated(
    name: str, episodes: int, points: float = 1.0, behavior: str = "auto", roll_outs: int = ROLL_OUTS, **options: Any
) -> Scenario:
    """Logs of a simulator of ours; policies that build on logged propensities are told those of the simulation."""
    origin = source(name, **options)

    def truth(policy: Any) -> float:
        if behavior == "auto" or policy is None:
            return true_value(policy or origin.behavior, origin.simulator, roll_outs, seed=1).value
        fresh = simulate(name, 300, 1, **options)
        acting = told_propensities(without_idle_rules(policy, fresh), origin.behavior)
        return true_value(acting, origin.simulator, roll_outs, seed=1).value

    return Scenario(lambda n, seed: simulate(name, n, seed, **options), truth, episodes, points, behavior)


class Plain(Memoryless):
    """A logging policy of plain contexts, asked at contexts that history features follow."""

    def __init__(self, behavior: Any, n_features: int) -> None:
        self.behavior, self.n_features = behavior, n_features

    def probabilities(self, contexts: Any) -> Any:
        """[N, A]."""
        return self.behavior.probabilities(contexts[:, : self.n_features])


def replaced(policy: Any, change: Callable[[Any], Any]) -> Any:
    """A policy, or a part of one, with all parts of it changed that `change` does not give back as they are."""
    changed = change(policy)
    if changed is not policy:
        return changed
    if isinstance(policy, tuple):
        return tuple(replaced(part, change) for part in policy)
    if not is_dataclass(policy) or isinstance(policy, type):
        return policy
    parts = {field.name: getattr(policy, field.name) for field in fields(policy) if field.init}
    others = {name: replaced(part, change) for name, part in parts.items()}
    return replace(policy, **{name: part for name, part in others.items() if part is not parts[name]})


def without_idle_rules(policy: Any, logs: Trajectories) -> Any:
    """The policy without rules that bar nothing along other logs: roll-outs need not measure all those distances."""
    anything = AnyAction().fit(logs)

    def change(part: Any) -> Any:
        return anything if isinstance(part, FittedEligibility) and part.along(logs).mask.all() else part

    return replaced(policy, change)


def told_propensities(policy: Any, behavior: Any) -> Any:
    """The policy, with the simulation's logging policy in the place of the propensities that cases bring."""

    def change(part: Any) -> Any:
        return Plain(behavior, part.n_features) if isinstance(part, LoggedPropensities) else part

    return replaced(policy, change)


def shuffled(episodes: int) -> Scenario:
    """Tumor logs whose returns were dealt out anew: no policy is better than any other."""

    def logs(n: int, seed: int) -> Trajectories:
        made = simulate("tumor", n, seed)
        rewards = np.zeros(made.n_steps)
        rewards[made.offsets[1:] - 1] = np.random.default_rng((seed, 1)).permutation(made.returns())
        return replace(made, rewards=rewards)

    return Scenario(logs, lambda policy: 0.0, episodes)


def clinic_without_effect(episodes: int) -> Scenario:
    """The clinic where treatments do nothing, not even harm: the feature that would show side effects is left out."""

    def logs(n: int, seed: int) -> Trajectories:
        made = simulate("clinic", n, seed, effect=0.0)
        seen = [column for column, name in enumerate(made.feature_names) if name != "side effects"]
        names = tuple(made.feature_names[column] for column in seen)
        return replace(made, contexts=made.contexts[:, seen], feature_names=names)

    return Scenario(logs, lambda policy: 0.0, episodes)


def one_step(episodes: int, actions: int, rate: Callable[[Any, Any], Any], chances: Callable[[Any], Any]) -> Scenario:
    """Yes/no outcomes of one decision: `rate(x, a)` [n], and the logging policy `chances(x)` [n, A]."""

    def contexts(n: int, rng: np.random.Generator) -> Any:
        return rng.normal(size=(n, 3))

    def logs(n: int, seed: int) -> Trajectories:
        rng = np.random.default_rng(seed)
        x = contexts(n, rng)
        mu = chances(x)
        a = (rng.random((n, 1)) > mu.cumsum(axis=1)).sum(axis=1).clip(max=actions - 1)
        return Trajectories(x, a, 1.0 * (rng.random(n) < rate(x, a)), np.arange(n + 1), mu, actions)

    def truth(policy: Any) -> float:
        x = contexts(200_000, np.random.default_rng(1))
        rows = chances(x) if policy is None else _along(policy, x, actions)
        rates = np.stack([rate(x, np.full(len(x), a)) for a in range(actions)], axis=1)
        return float((rows * rates).sum(axis=1).mean())

    return Scenario(logs, truth, episodes, 100.0)


def _along(policy: Any, x: Any, actions: int) -> Any:
    logs = Trajectories(x, np.zeros(len(x), np.int64), np.zeros(len(x)), np.arange(len(x) + 1), n_actions=actions)
    return policy.along(logs)


def _softmax(scores: Any) -> Any:
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def rare() -> Scenario:
    """34 actions, half a percent of yes."""
    rng = np.random.default_rng(3)
    merit, habit = 0.4 * rng.normal(size=(3, 34)), 0.4 * rng.normal(size=(3, 34))
    return one_step(
        5000,
        34,
        lambda x, a: 1 / (1 + np.exp(5.5 - (x * merit[:, a].T).sum(axis=1))),
        lambda x: _softmax(x @ habit),
    )


def optimal() -> Scenario:
    """The logging policy takes the two best actions alike, and never the others."""
    rng = np.random.default_rng(4)
    merit = rng.normal(size=(3, 2))

    def rate(x: Any, a: Any) -> Any:
        good = 1 / (1 + np.exp(-(x @ merit[:, 0])))
        return np.where(a < 2, 0.2 + 0.6 * good, 0.1)

    def chances(x: Any) -> Any:
        lean = 1 / (1 + np.exp(-x[:, 1]))
        return np.stack([lean, 1 - lean, 0 * lean, 0 * lean], axis=1)

    return one_step(500, 4, rate, chances)


def remembering(episodes: int, confounded: bool = False) -> Scenario:
    """Six steps; the logging policy repeats its last action with probability 0.7, and repeating is what pays.

    Contexts do not show the last action, and propensities are not logged, so models of single steps are wrong. Where it
    is `confounded`, the first decision too repeats one that no log shows, and is paid for it: weights would have to be
    wrong by a factor of 1.7, which is beyond what studies allow for.
    """
    steps = 6

    def act(n: int, rng: np.random.Generator, policy: Any) -> tuple[Any, Any, Any]:
        x = rng.normal(size=(n, steps, 2))
        actor = None if policy is None else policy.actor(n)
        last = rng.integers(2, size=n)
        taken, paid = np.zeros((n, steps), np.int64), np.zeros((n, steps))
        for t in range(steps):
            if actor is None:
                repeats = rng.random(n) < 0.7
                a = np.where(repeats, last, rng.integers(2, size=n))
            else:
                rows = actor.probabilities(x[:, t].astype(np.float32))
                a = (rng.random(n) > rows[:, 0]).astype(np.int64)
                actor.record(a)
            pays = 0.5 if t or confounded else 0.0
            paid[:, t] = np.where(a == last, pays, -pays) + 0.3 * rng.normal(size=n)
            taken[:, t], last = a, a
        return x, taken, paid

    def logs(n: int, seed: int) -> Trajectories:
        x, a, r = act(n, np.random.default_rng(seed), None)
        return Trajectories(x.reshape(-1, 2), a.ravel(), r.ravel(), np.arange(0, n * steps + 1, steps), n_actions=2)

    def truth(policy: Any) -> float:
        return float(act(ROLL_OUTS, np.random.default_rng(1), policy)[2].sum(axis=1).mean())

    return Scenario(logs, truth, episodes)


def tumor_points() -> float:
    """Normalised points for one unit of return: 0 is uniform random, 100 the best schedule found."""
    from poela.simulators.tumor import normalised

    return float(normalised(1.0) - normalised(0.0))


SCENARIOS: dict[str, Callable[[], Scenario]] = {
    "tumor": lambda: simulated("tumor", 2000, tumor_points()),
    "tumor-400": lambda: simulated("tumor", 400, tumor_points()),
    "shuffled": lambda: shuffled(200),
    "optimal": optimal,
    "rare": rare,
    "remembering": lambda: remembering(400),
    "remembering-confounded": lambda: remembering(400, confounded=True),
    "sepsis-harmless-hidden": lambda: simulated("sepsis", 200, variant="harmless", hidden=True),
    "sepsis-harmful": lambda: simulated(
        "sepsis", 15_000, behavior="logged", roll_outs=100_000, variant="harmful", hidden=False
    ),
    "sepsis-harmful-hidden": lambda: simulated("sepsis", 3000, variant="harmful", hidden=True),
    "clinic": lambda: simulated("clinic", 2000),
    "clinic-nothing": lambda: clinic_without_effect(300),
}


class Asked(NamedTuple):
    """Studies of one scenario by some learners (none: the default ones), as `NAME` or `NAME:LEARNER+LEARNER`."""

    name: str
    learners: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> "Asked":
        """What is asked on the command line."""
        name, _, learners = text.partition(":")
        return cls(name, tuple(filter(None, learners.split("+"))))

    def __str__(self) -> str:
        return "-".join((self.name, *self.learners))


def carried_out(asked: Asked, episodes: int | None, backend: str, seed: int) -> dict[str, Any]:
    """One study, and what is true."""
    from poela.studies.learning import learn

    scenario = SCENARIOS[asked.name]()
    started = time.monotonic()
    logs = scenario.logs(episodes or scenario.episodes, seed)
    study = learn(logs, learners=asked.learners or None, backend=backend, behavior=scenario.behavior, seed=seed)
    learned = time.monotonic() - started
    now, points = scenario.truth(None), scenario.points

    def gain(policy: Any) -> float:
        return points * (scenario.truth(policy) - now)

    found: dict[str, Any] = {"seed": seed, "seconds": learned, "answer": study.answer.headline, **made_by()}
    if study.promising is not None:
        found["promising"] = gain(study.promising)
    if study.keeps_logging_policy or study.gain is None or study.gain.low is None:
        return found
    return found | {
        "policy": study.chosen_name,
        "shown": points * study.gain.low,
        "estimated": points * study.gain.value,
        "true as judged": gain(study.exact_policy),
        "true as handed back": gain(study.policy),
        "verdict": study.estimate.verdict,
        "ess": study.estimate.ess,
        "sensitivity": study.gain.sensitivity,
    }


def table(name: str, rows: list[dict[str, Any]]) -> str:
    """One row of Markdown."""
    claims = [row for row in rows if "shown" in row]
    false = sum(row["shown"] > row["true as judged"] for row in claims)
    false_back = sum(row["shown"] > row["true as handed back"] for row in claims)

    def mean(column: str) -> str:
        values = [row[column] for row in claims]
        return f"{np.mean(values):.2f}" if values else ""

    least = f"{min(row['shown'] for row in claims):.2f}" if claims else ""
    hopes = [row["promising"] for row in rows if "promising" in row]
    trusted = sum(row["verdict"] == "trust" for row in claims)
    cells = [
        *(name, len(rows), len(claims), trusted, false, false_back),
        *(mean("shown"), least, mean("true as judged"), mean("true as handed back")),
        *(f"{np.mean(hopes):.2f}" if hopes else "", f"{np.mean([row['seconds'] for row in rows]):.0f}"),
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


HEAD = (
    "| scenario | logs | claims | trusted | above the truth (as judged) | (as handed back) | shown | least "
    "| true (as judged) | (as handed back) | worth a trial, true | seconds |\n|" + "---|" * 12
)


def main() -> None:
    """Carry out, or print what was."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--episodes", type=int)
    parser.add_argument("--logs", type=int, default=20)
    parser.add_argument("--backend", default="inline")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="begin no further log after so long")
    parser.add_argument("--out", type=Path, default=Path("shown-gain"))
    parser.add_argument("--table", type=Path, metavar="FOLDER", help="only print what the rows there come to")
    asked = parser.parse_args()
    if asked.list:
        print("\n".join(SCENARIOS))
        return
    if asked.table:
        print("\n".join([HEAD, *(table(file.stem, _rows(file)) for file in sorted(asked.table.glob("*.json")))]))
        return
    studies = [Asked.of(text) for text in asked.scenarios]
    rows = {one: _rows(asked.out / f"{one}.json") for one in studies}
    left = [
        (one, asked.episodes, asked.backend, seed)
        for seed in range(FIRST_SEED, FIRST_SEED + asked.logs)
        for one in studies  # in turn, so that a run that is cut short has all of them
        if seed not in {row["seed"] for row in rows[one]}
    ]
    for (one, *_), row in in_turn(left, carried_out, asked.jobs, asked.minutes):
        rows[one] = sorted([*rows[one], row], key=itemgetter("seed"))
        write_json(asked.out / f"{one}.json", {"scenario": str(one), "rows": rows[one]})
    print(HEAD)
    for one in studies:
        print(table(str(one), rows[one]), flush=True)


def _rows(file: Path) -> list[dict[str, Any]]:
    return list(json.loads(file.read_text())["rows"]) if file.exists() else []


if __name__ == "__main__":
    main()
