"""Forbidden actions handed out: how many of 100,000 fuzzed decisions, by every door. There must be none.

    python benchmarks/forbidden.py --rows 500 --jobs 16 --minutes 20
    python benchmarks/forbidden.py --table docs/results/limits/forbidden

A log of 600 cases in which nobody with an allergy gets penicillin, no one under 30 gets surgery, and a column says
which actions are open. Every learner with a finite set of actions learns from it, with and without logged
propensities, by itself and blended with the logging policy. Its policies decide about random cases, many of them odd:
missing cells, categories and ages that were never logged, lists that are empty, name strangers or leave one action.
What is forbidden is worked out here from the raw cells, without the library. A door fails by a decision, or by any
probability above 0, for a forbidden action; and by a case in which nothing is allowed that is not deferred.
"""

import argparse
import json
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
from stored_rows import Row, add_flags, carry_out, rows_in, seeds

from poela.data.action_space import Box
from poela.data.tables import read_logs
from poela.data.trajectories import Trajectories
from poela.learners.registry import LEARNERS
from poela.policies.deciding import Deciding, decisions
from poela.policies.ruled import RuledPolicy
from poela.serving.decisions import Answering
from poela.serving.export import onnx_model
from poela.serving.pyfunc import PolicyModel
from poela.serving.source import PolicySource
from poela.studies.defaults import SUPPORTED
from poela.studies.logging_policy import find_logging_policy
from poela.studies.runs import ambition_path

ACTIONS = ("penicillin", "surgery", "wait")
FORBID = ("penicillin if allergy == 'yes'", "surgery if age < 30")
DECISIONS, COUNTS = ": decisions", ("forbidden", "not deferred")
QUICK: dict[str, Any] = {"steps": 4, "warm_start_steps": 2, "density_steps": 2, "checkpoints": 2, "hidden": (6,)}
QUICK |= {"device": "cpu", "history": 0, "temperatures": (1.0, 0.0)}


def open_by_hand(age: float, allergy: str | None, listed: str | None) -> list[bool]:
    """Which actions may be taken, by the raw cells of a case; what is not known may not be."""
    names = [] if listed is None else [name.strip() for name in listed.replace(";", ",").split(",")]
    forbidden = {"penicillin": allergy is None or allergy == "yes", "surgery": age < 30, "wait": False}
    return [name in names and not forbidden[name] for name in ACTIONS]


def log_of(seed: int, n: int = 600, known: bool = True) -> Trajectories:
    """A log that keeps to its limits; `known`: with the propensities of every action."""
    rng = np.random.default_rng(seed)
    age, allergy = rng.integers(18, 90, n), rng.choice(np.array(["yes", "no", None]), n, p=[0.25, 0.7, 0.05]).tolist()
    listed = np.where(rng.random(n) < 0.2, "wait;penicillin", "wait;penicillin;surgery").tolist()
    cells = zip(age.tolist(), allergy, listed, strict=True)
    shares = np.array([open_by_hand(*cell) for cell in cells]) * np.array([0.4, 0.2, 0.4])
    shares /= shares.sum(axis=1, keepdims=True)
    actions = (shares.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    # Penicillin and surgery look best, above all where they are forbidden.
    rewards = np.array([2.0, 1.0, 0.0])[actions] + 0.01 * age + rng.normal(size=n)
    columns: dict[str, Any] = {"age": age, "allergy": allergy, "open": listed, "reward": rewards}
    columns["action"] = np.array(ACTIONS)[actions]
    columns |= {f"propensity_{name}": shares[:, place] for place, name in enumerate(ACTIONS)} if known else {}
    return read_logs(pa.table(columns), forbid=FORBID, allowed="open")


def odd_cases(rng: np.random.Generator, n: int) -> dict[str, list[Any]]:
    """Cases such as no log has, beside usual ones."""
    ages = [18, 29, 29.999, 30, 55, 89, -1, 1e6, 30.000001]
    allergies = [None, "yes", "no", "Yes", "perhaps", "yes ", "no"]
    lists = ["wait;penicillin;surgery"] * 4 + ["wait,surgery", "penicillin", "surgery", "wait", "none", None, "Wait"]
    columns: dict[str, list[Any]] = {"age": ages, "allergy": allergies, "open": lists}
    return {name: [values[place] for place in rng.integers(0, len(values), n)] for name, values in columns.items()}


def policies_of(
    train: Trajectories, seed: int, learners: Sequence[str], under: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, RuledPolicy]]:
    """A policy of every learner, under the usual rule of studies and under none, and one blended with practice."""
    model = find_logging_policy((train, None, None), "auto", seed)
    train, behavior = model.parts[0] or train, model.model
    for name in learners:
        if LEARNERS[name].acts_in is Box:
            continue
        learner: Any = LEARNERS[name]()
        known = {field.name for field in fields(learner)}
        quick = {setting: value for setting, value in QUICK.items() if setting in known}
        for rule in under if "support" in known else [{}]:
            made = replace(learner, **quick, **{key: value for key, value in rule.items() if key in known})
            checkpoints = list(made.fit_path(train, seed=seed, behavior=behavior))
            yield name, checkpoints[-1].policy
            if not made.walks:
                yield f"{name}, blended", ambition_path(made, checkpoints, train, behavior)[4].policy


def by_doors(policy: RuledPolicy, cases: dict[str, list[Any]]) -> Iterator[tuple[str, Any, Any, Any]]:
    """What each door hands out: its name, actions (None: deferred), probabilities [N, A], and which were deferred."""
    rows = pa.table(cases)
    columns = [f"propensity_{name}" for name in ACTIONS]
    for likeliest in (False, True):
        decided = decisions(policy, rows, Deciding(likeliest=likeliest, similar=False))
        yield ("decide, likeliest" if likeliest else "decide"), *_of_table(decided, columns)
    named = pa.table(cases | {"case": list(range(len(rows)))})
    yield "MLflow", *_of_table(pa.Table.from_pandas(PolicyModel(policy).predict(named.to_pandas())), columns)
    yield "serve", *_served(policy, cases)
    yield "export", *_exported(policy, rows)


def _of_table(decided: Any, columns: list[str]) -> tuple[Any, Any, Any]:
    chances = np.stack([decided[name].to_numpy() for name in columns], axis=1)
    return decided["action"].to_pylist(), np.nan_to_num(chances), decided["defer"].to_numpy()


def _served(policy: RuledPolicy, cases: dict[str, list[Any]]) -> tuple[Any, Any, Any]:
    answering = Answering(PolicySource(policy, "fuzzed"))
    actions: list[Any] = [None] * len(cases["age"])
    chances, defer = np.zeros((len(actions), len(ACTIONS))), np.ones(len(actions), np.bool_)
    for start in range(0, len(actions), 100):
        some = range(start, min(start + 100, len(actions)))
        asked = [{"id": place, "features": {name: cases[name][place] for name in cases}} for place in some]
        asked = [one | ({"step": 0} if answering.form.wants_step else {}) for one in asked]
        (answers,) = answering.decided([answering.form.parsed(json.dumps({"cases": asked}).encode())])
        for place, answer in zip(some, answers, strict=True):
            actions[place], defer[place] = answer["action"], answer["defer"]
            chances[place] = [answer["propensities"][name] or 0.0 for name in ACTIONS]
    return actions, chances, defer


def _exported(policy: RuledPolicy, rows: Any) -> tuple[Any, Any, Any]:
    import onnxruntime

    from poela.core.errors import InputError

    try:
        graph, _ = onnx_model(policy, "all", {})
    except InputError:  # a class that has no graph
        return [None] * len(rows), np.zeros((len(rows), len(ACTIONS))), np.ones(len(rows), np.bool_)
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    contexts = policy.checked(rows)
    given = {"contexts": contexts, "steps": np.zeros(len(contexts), np.int64)}
    found = session.run(["probabilities", "defer"], {one.name: given[one.name] for one in session.get_inputs()})
    likeliest = np.where(found[0].sum(axis=1) > 0, found[0].argmax(axis=1), -1)
    return [None if one < 0 else ACTIONS[one] for one in likeliest], found[0], found[1]


def counted(
    rows: int,
    seed: int = 0,
    learners: Sequence[str] = tuple(LEARNERS),
    knowns: Sequence[bool] = (True, False),
    under: Sequence[Mapping[str, Any]] = (SUPPORTED, {}),
) -> Counter[str]:
    """Decisions by each door, forbidden ones, and cases in which nothing is allowed that were not deferred."""
    rng, found = np.random.default_rng(seed), Counter[str]()
    for known in knowns:
        train = log_of(seed, known=known)
        for _, policy in policies_of(train, seed, learners, under):
            cases = odd_cases(rng, rows)
            open_here = np.array([open_by_hand(*cell) for cell in zip(*cases.values(), strict=True)])
            for door, actions, chances, defer in by_doors(policy, cases):
                given = [place for place, action in enumerate(actions) if action is not None]
                found[f"{door}: decisions"] += len(actions)
                found[f"{door}: given"] += len(given)
                found["forbidden"] += sum(not open_here[place, ACTIONS.index(actions[place])] for place in given)
                found["forbidden"] += int((chances[~open_here] > 0).sum())
                found["not deferred"] += int((~open_here.any(axis=1) & ~defer).sum())
    return found


def row_of(kind: str, learner: str, known: bool, rows: int, seed: int) -> Row:
    """The counts of one learner."""
    warnings.simplefilter("ignore")
    return dict(counted(rows, seed, (learner,), (known,)))


def table(rows: list[Row]) -> str:
    """Decisions by each door, and what was forbidden."""
    found = Counter[str]()
    for row in rows:
        found.update({name: count for name, count in row.items() if name in COUNTS or name.endswith(DECISIONS)})
    doors = {name.removesuffix(DECISIONS): count for name, count in found.items() if name.endswith(DECISIONS)}
    lines = ["| door | decisions | an action given |", "|---|---|---|"]
    given = {door: sum(row.get(f"{door}: given", 0) for row in rows) for door in doors}
    lines += [f"| {door} | {count:,} | {given[door]:,} |" for door, count in sorted(doors.items())]
    lines.append(f"| all | {sum(doors.values()):,} | {sum(given.values()):,} |")
    none = f"{found['not deferred']:,} cases in which nothing is allowed were not deferred"
    return "\n".join([*lines, "", f"{found['forbidden']:,} forbidden actions; {none}; {len(rows)} learners."])


def main() -> None:
    """Count, and say so."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500, help="cases for each policy and door")
    add_flags(parser, "docs/results/limits/forbidden")
    parser.set_defaults(logs=1)
    asked = parser.parse_args()
    if asked.table is None:
        logs = seeds(asked.first or 0, asked.logs, asked.shard)
        names = [name for name in LEARNERS if LEARNERS[name].acts_in is not Box]
        every = [(known, name) for known in (True, False) for name in names]
        tasks = [("forbidden", name, known, asked.rows, seed) for seed in logs for known, name in every]
        for _ in carry_out(tasks, row_of, asked.out, asked.shard, asked.jobs, asked.minutes):
            pass
    print(table(rows_in(asked.table or asked.out)))


if __name__ == "__main__":
    main()
