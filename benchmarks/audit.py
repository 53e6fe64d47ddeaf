"""How often the audit finds something in clean random tables of many kinds, and whether it finds each of the traps.

    python benchmarks/audit.py --tables 100 --first 1000 --out audit
    python benchmarks/audit.py --table docs/results/audit

Tables are clean by construction: actions are drawn with the probabilities that are logged (or hidden), from what was
known before, and outcomes come after. Each kind has random sizes, columns and effects. A trap is a clean table with one
slip. Rows are stored as they are made, and tables by kind printed from them.
"""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import softmax

from poela.data.tables import read_logs
from poela.data.trajectories import Trajectories
from poela.simulators.registry import simulate
from poela.studies.audit import audit
from poela.studies.findings_of_audit import Audit

Columns = dict[str, Any]
Row = dict[str, Any]
Rng = np.random.Generator
FIRST_SEED = 1000  # limits were chosen with seeds below


def one_step(
    rng: Rng,
    rows: int | None = None,
    actions: int = 2,
    *,
    smooth: float = 0.0,
    prognosis: float = 0.5,
    logged: str = "all",
    outcome: Callable[[Rng, NDArray[Any]], NDArray[Any]] | None = None,
) -> Columns:
    """A table of one decision in each row; `smooth`: how much actions depend on the context."""
    n = rows or int(rng.integers(200, 4000))
    width = int(rng.integers(2, 12))
    x = rng.normal(size=(n, width)) @ rng.normal(size=(width, width)) / np.sqrt(width)
    scores = rng.normal(scale=0.5, size=actions) + smooth * x @ rng.normal(size=(width, actions)) / np.sqrt(width)
    chances = 0.9 * softmax(scores * np.ones((n, 1)), axis=1) + 0.1 / actions
    taken = (chances.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=actions - 1)
    effects = rng.normal(scale=0.3, size=actions)[taken]
    signal = prognosis * x[:, 0] + effects
    rewards = signal + rng.normal(size=n) if outcome is None else outcome(rng, signal)
    table: Columns = {f"x{place}": column for place, column in enumerate(x.T)}
    names = np.array(["rest", "treat", "wait", "watch", "walk"][:actions])
    table |= {"action": names[taken], "reward": rewards}
    if logged == "all":
        table |= {f"propensity_{name}": column for name, column in zip(names, chances.T, strict=True)}
    elif logged == "taken":
        table["propensity"] = chances[np.arange(n), taken]
    return table


def with_text(rng: Rng) -> Columns:
    """Wards, diagnoses and ages, with gaps at random."""
    table = one_step(rng, smooth=float(rng.choice([0.0, 1.0])))
    n = len(table["reward"])
    ward, diagnosis = rng.integers(0, 5, n), rng.integers(0, 60, n)
    table["reward"] = table["reward"] + rng.normal(size=5)[ward] + 0.2 * rng.normal(size=60)[diagnosis]
    table["ward"] = pa.array(np.array(["a", "b", "c", "d", "e"])[ward], mask=rng.random(n) < 0.1)
    table["diagnosis"] = [f"d{code}" for code in diagnosis]
    table["lactate"] = pa.array(rng.gamma(2, size=n).round(1), mask=rng.random(n) < rng.uniform(0.01, 0.5))
    return table


def with_whole_numbers(rng: Rng) -> Columns:
    """Ages, scores, incomes and hours, by which people decide, and of which outcomes depend in bends; hidden."""
    n = int(rng.integers(300, 4000))
    age, score = rng.integers(18, 95, n), rng.poisson(6, n)
    income, hour = rng.lognormal(10, 0.7, n).round(), rng.integers(0, 24, n)
    logit = 0.04 * (age - 50) + 0.2 * (score - 6) + 0.5 * np.sin(hour / 4)
    treat = rng.random(n) < 0.05 + 0.9 / (1 + np.exp(-logit))
    rewards = 0.02 * np.abs(age - 60) - 0.2 * score + (age > 65) + 0.3 * treat + rng.normal(size=n)
    return {
        "age": age, "score": score, "income": income, "hour": hour, "action": treat.astype(int), "reward": rewards
    }  # fmt: skip


def with_telling_gaps(rng: Rng) -> Columns:
    """A test that is done where cases are severe, as is the treatment."""
    table = one_step(rng, smooth=1.5, logged=str(rng.choice(["all", "taken", "none"])), prognosis=1.0)
    severe = table["x0"] + 0.3 * rng.normal(size=len(table["x0"]))
    table["test"] = pa.array(rng.normal(size=len(severe)), mask=severe < 0.3)
    return table


def with_dates(rng: Rng) -> Columns:
    """People with their dates of birth, who were admitted some days before they were seen, and seen before that."""
    table = one_step(rng, smooth=float(rng.choice([0.0, 1.0])), prognosis=float(rng.choice([0.5, 2.0])))
    n = len(table["reward"])
    visit = np.datetime64("2024-01-01") + rng.integers(0, 500, n)
    birth = np.datetime64("1950-01-01") + rng.integers(0, 15_000, n)
    table |= {"birth_date": birth, "admitted": visit - rng.integers(0, 9, n), "visit_date": visit}
    return table | {"last_seen": pa.array(visit - rng.integers(1, 400, n), mask=rng.random(n) < 0.4)}


def with_gaps_of_the_severe(rng: Rng) -> Columns:
    """The same test, of which outcomes tell who had it, as severe cases do badly whatever is done."""
    table = one_step(rng, smooth=0.5, prognosis=float(rng.uniform(1, 1.8)))
    severe = table["x0"] / table["x0"].std() + rng.uniform(0.2, 0.6) * rng.normal(size=len(table["x0"]))
    limit = np.quantile(severe, rng.uniform(0.3, 0.7))
    table["test"] = pa.array(rng.normal(size=len(severe)), mask=severe < limit)
    return table


def at_sites(rng: Rng, *, hidden: bool) -> Columns:
    """Sites that differ in what they do and in whom they see, by a name or by a number."""
    n, sites = int(rng.integers(300, 4000)), int(rng.integers(4, 40))
    site, severity = rng.integers(0, sites, n), rng.normal(size=n)
    chance = 0.1 + 0.8 / (1 + np.exp(-rng.normal(size=sites)[site] - 0.5 * severity))
    treat = rng.random(n) < chance
    rewards = rng.normal(scale=0.3, size=sites)[site] - severity + 0.3 * treat + rng.normal(size=n)
    named = site if rng.random() < 0.5 else [f"site {number}" for number in site]
    table = {"site": named, "severity": severity, "action": treat.astype(int), "reward": rewards}
    return table if hidden else table | {"propensity_0": 1 - chance, "propensity_1": chance}


def in_clusters(rng: Rng) -> Columns:
    """Patients with several stays and one action for all of them; the patient is named."""
    units = int(rng.integers(80, 300))
    patient = np.repeat(np.arange(units), rng.integers(1, 12, units))
    n, trait = len(patient), rng.normal(size=units)
    treat = (rng.random(units) < 0.5)[patient]
    rewards = trait[patient] + 0.2 * treat + rng.normal(size=n)
    return {
        "patient": patient, "age": trait[patient].round(2), "x": rng.normal(size=n), "action": treat.astype(int),
        "reward": rewards, "propensity_0": np.full(n, 0.5), "propensity_1": np.full(n, 0.5),
    }  # fmt: skip


def several_steps(rng: Rng, *, hidden: bool) -> Columns:
    """Episodes of several decisions with traits and a state that actions move."""
    episodes, steps = int(rng.integers(100, 600)), int(rng.integers(2, 8))
    age: NDArray[Any] = rng.integers(20, 80, episodes)
    state: NDArray[Any] = rng.normal(size=episodes)
    last: NDArray[Any] = np.zeros(episodes)
    rows = []
    for step in range(steps):
        logit = 0.8 * state + 0.02 * (age - 50) + 1.5 * last * hidden
        chance = 0.1 + 0.8 / (1 + np.exp(-logit))
        treat = rng.random(episodes) < chance
        rows.append((np.arange(episodes), np.full(episodes, step), age, state, last, treat, chance))
        state = 0.8 * state - 0.3 * treat + 0.5 * rng.normal(size=episodes)
        last = 1.0 * treat
    stay, step_of, ages, states, lasts, taken, chances = (np.concatenate(part) for part in zip(*rows, strict=True))
    rewards = np.where(step_of == steps - 1, -np.tile(state, steps), 0.0)
    table = {"episode": stay, "step": step_of, "age": ages, "state": states, "last": lasts}
    table |= {"action": taken.astype(int), "reward": rewards}
    return table if hidden else table | {"propensity_0": 1 - chances, "propensity_1": chances}


def doses(rng: Rng, *, hidden: bool) -> Columns:
    """Amounts around what the context asks for."""
    n, spread = int(rng.integers(300, 3000)), float(rng.uniform(0.3, 1.5))
    x, y = rng.normal(size=(2, n))
    dose = x + spread * rng.normal(size=n)
    density = -0.5 * np.square((dose - x) / spread) - np.log(spread) - 0.5 * np.log(2 * np.pi)
    table = {"x": x, "y": y, "dose": dose, "reward": y - np.square(dose - x - y) + rng.normal(size=n)}
    return table if hidden else table | {"log_density": density}


def rare(rng: Rng, signal: NDArray[Any]) -> NDArray[Any]:
    """Two deaths in a hundred, or so."""
    return np.where(rng.random(len(signal)) < 1 / (1 + np.exp(4 - signal)), -1.0, 0.0)


def skewed(rng: Rng, signal: NDArray[Any]) -> NDArray[Any]:
    """Costs, many of them 0."""
    costs = np.exp(signal + rng.normal(size=len(signal)))
    return np.where(rng.random(len(signal)) < 0.7, -costs, 0.0)


KINDS: dict[str, Callable[[Rng], Columns]] = {
    "two arms": one_step,
    "five arms": lambda rng: one_step(rng, actions=5),
    "few rows": lambda rng: one_step(rng, rows=150),
    "text and gaps": with_text,
    "gaps that go with severity": with_telling_gaps,
    "gaps of the severe": with_gaps_of_the_severe,
    "dates": with_dates,
    "whole numbers, hidden": with_whole_numbers,
    "sites": lambda rng: at_sites(rng, hidden=False),
    "sites, hidden": lambda rng: at_sites(rng, hidden=True),
    "strong prognosis": lambda rng: one_step(rng, prognosis=4.0, smooth=0.5),
    "skewed": lambda rng: one_step(rng, outcome=skewed, smooth=0.5),
    "rare events": lambda rng: one_step(rng, outcome=rare, prognosis=1.5),
    "smooth propensities": lambda rng: one_step(rng, smooth=2.0, actions=3),
    "propensity of the action taken": lambda rng: one_step(rng, smooth=1.0, actions=4, logged="taken"),
    "hidden propensities": lambda rng: one_step(rng, smooth=2.0, actions=3, logged="none"),
    "clusters": in_clusters,
    "several steps": lambda rng: several_steps(rng, hidden=False),
    "several steps, hidden": lambda rng: several_steps(rng, hidden=True),
    "doses": lambda rng: doses(rng, hidden=False),
    "doses, hidden": lambda rng: doses(rng, hidden=True),
}
ORIGIN = "2000-01-01"  # from which days of dates count; else those of one decision are all 0
NAMED: dict[str, Any] = {"clusters": {"cluster": "patient"}, "dates": {"origin": ORIGIN}}
SIMULATED = ("tumor", "clinic", "sepsis", "dosing")


def clean_logs(kind: str, seed: int) -> Trajectories:
    """A clean table of a kind, read as `poela learn` reads it."""
    if kind in SIMULATED:
        return simulate(kind, episodes=300, seed=seed)
    columns = KINDS[kind](np.random.default_rng(seed))
    return read(columns, **NAMED.get(kind, {}))


def read(columns: Columns, **names: Any) -> Trajectories:
    """A table as `poela learn` reads it."""
    if "dose" in columns:
        names |= {"action": ["dose"], "log_density": "log_density" if "log_density" in columns else None}
    logs: Trajectories = read_logs(pa.table(columns), for_learning=True, **names)
    return logs


def amount_of_arm(rng: Rng) -> Trajectories:
    """A trial with the amount behind the arm."""
    table = one_step(rng, 1500, 3)
    table["amount"] = np.select([table["action"] == "treat", table["action"] == "wait"], [100.0, 250.0], 0.0)
    table["amount"] += np.where(table["amount"] > 0, rng.normal(scale=5, size=1500).round(1), 0)
    return read(table)


def payment_after_outcome(rng: Rng) -> Trajectories:
    """A payment that is made for the outcome."""
    table = one_step(rng, 1500, outcome=lambda rng, signal: 1.0 * (rng.random(len(signal)) < 0.3 + 0.1 * (signal > 0)))
    return read(table | {"paid": table["reward"] * rng.uniform(80, 120, 1500)})


def an_id(rng: Rng) -> Trajectories:
    """A number for each row."""
    return read(one_step(rng, 800) | {"subject": rng.permutation(800) + 1000})


def exchanged_propensities(rng: Rng) -> Trajectories:
    """The propensity columns of two arms, each called by the other's name."""
    table = one_step(rng, 1500, smooth=1.0)
    names = ("propensity_rest", "propensity_treat")
    return read(table | {names[0]: table[names[1]], names[1]: table[names[0]]})


def cluster_not_named(rng: Rng) -> Trajectories:
    """An action for each patient, and nobody says so."""
    return read(in_clusters(rng))


def filled_after_decision(rng: Rng) -> Trajectories:
    """A cell that is filled in for the treated alone."""
    table = one_step(rng, 1500, smooth=1.0, logged="none")
    return read(table | {"site": pa.array(rng.normal(size=1500), mask=table["action"] != "treat")})


def late_column(rng: Rng) -> Trajectories:
    """A score that was measured after the outcome, and tells nine tenths of it."""
    table = one_step(rng, 1500, smooth=0.5)
    outcome = table["reward"]
    return read(table | {"score": outcome + rng.normal(scale=outcome.std() / 3, size=1500)})


def repeated_outcome(rng: Rng) -> Trajectories:
    """The score of a stay in each of its rows, though it came once."""
    table, lengths = one_step(rng, 1500), rng.integers(1, 4, 700)
    stay = np.repeat(np.arange(700), lengths)[:1500]
    score = rng.normal(size=700)[stay]
    return read(
        {name: column[: len(stay)] for name, column in table.items()} | {"episode": stay, "reward": score}, step="rows"
    )


def coded_outcome(rng: Rng) -> Trajectories:
    """-999 where the outcome is not known, for one case in fifty."""
    table = one_step(rng, 1500)
    return read(table | {"reward": np.where(rng.random(1500) < 0.02, -999.0, table["reward"])})


def adherence_of_three(rng: Rng) -> Trajectories:
    """A trial of three arms that logs the chance of the arm taken, and how well each was followed afterwards."""
    table = one_step(rng, 1500, 3, logged="none")
    arm = rng.integers(0, 3, 1500)
    followed = np.array([0.8, 0.6, 0.4])[arm] + rng.normal(scale=0.2, size=1500)
    drawn = {"action": np.array(["rest", "treat", "wait"])[arm], "propensity": np.full(1500, 1 / 3)}
    return read(table | drawn | {"followed": followed})


def date_after_decision(rng: Rng) -> Trajectories:
    """Two visits of 300 people, with the day on which a result came: for some after the visit."""
    person, visit = np.repeat(np.arange(300), 2), np.tile([0, 1], 300)
    day = np.datetime64("2024-03-01") + 30 * visit + rng.integers(0, 400, 300)[person]
    came = day + rng.integers(-9, 2, 600)
    treat = rng.integers(0, 2, 600)
    table = {"person": person, "day": day, "came": came, "x": rng.normal(size=600), "action": treat}
    table |= {"reward": rng.normal(size=600), "propensity_0": np.full(600, 0.5), "propensity_1": np.full(600, 0.5)}
    return read(table, episode="person", step="day")


def filled_above_a_value(rng: Rng) -> Trajectories:
    """A cell that is filled in for half of those who did well, of whom everything is measured."""
    table = one_step(rng, 1500, smooth=0.5, logged=str(rng.choice(["all", "none"])))
    well = table["reward"] > np.quantile(table["reward"], rng.uniform(0.3, 0.6))
    return read(table | {"note": pa.array(rng.normal(size=1500), mask=~(well & (rng.random(1500) < 0.5)))})


def _visits(rng: Rng) -> tuple[Columns, NDArray[Any]]:
    table = one_step(rng, 1200)
    visit = np.datetime64("2024-01-01") + rng.integers(0, 500, 1200)
    return table | {"visit_date": visit}, visit + rng.integers(20, 60, 1200)


def date_of_outcome(rng: Rng) -> Trajectories:
    """Single decisions, with the day on which the outcome came."""
    table, later = _visits(rng)
    return read(table | {"outcome_date": later}, context=["x0", "x1", "visit_date", "outcome_date"], origin=ORIGIN)


def later_date(rng: Rng) -> Trajectories:
    """The same under a name that says nothing."""
    table, later = _visits(rng)
    return read(table | {"entered": later}, context=["x0", "x1", "visit_date", "entered"], origin=ORIGIN)


# How each is made, what it may be called, and which columns are to blame.
TRAPS: dict[str, tuple[Callable[[Rng], Trajectories], tuple[str, ...], tuple[str, ...]]] = {
    "amount behind the arm": (amount_of_arm, ("filled", "action"), ("amount",)),
    "payment after the outcome": (payment_after_outcome, ("outcome",), ("paid",)),
    "an id": (an_id, ("id",), ("subject",)),
    "exchanged propensities": (exchanged_propensities, ("propensities",), ()),
    "cluster not named": (cluster_not_named, ("cluster",), ("patient",)),
    "filled in after the decision": (filled_after_decision, ("filled",), ("site",)),
    "nine tenths of the outcome": (late_column, ("prognosis", "propensities"), ("score",)),
    "a date after the decision": (date_after_decision, ("date",), ("came",)),
    "filled in above a value": (filled_above_a_value, ("filled",), ("note",)),
    "the date of the outcome": (date_of_outcome, ("date",), ("outcome_date",)),
    "a date after that of the visit": (later_date, ("date",), ("entered",)),
    "an outcome repeated in each row": (repeated_outcome, ("repeated",), ()),
    "a code for no outcome": (coded_outcome, ("code",), ()),
    "adherence in a trial of three arms": (adherence_of_three, ("propensities", "action"), ("followed",)),
}
DATES = ("a date after the decision", "the date of the outcome", "a date after that of the visit")
HARMLESS = ("an id", "nine tenths of the outcome", *DATES)  # which may not void weights


def is_found(result: Audit, kinds: tuple[str, ...], columns: tuple[str, ...]) -> bool:
    """Whether a finding of one of these kinds blames these columns."""
    return any(finding.kind in kinds and finding.columns == columns for finding in result.findings)


def row_of(kind: str, seed: int) -> Row:
    """What an audit of a clean table, or of a trap, finds there."""
    if kind in TRAPS:
        make, known_as, columns = TRAPS[kind]
        result = audit(make(np.random.default_rng(seed)))
        return {"found": is_found(result, known_as, columns)}
    result = audit(clean_logs(kind, seed))
    return {"findings": [str(finding) for finding in result.findings], "void": bool(result.problem)}


def table(rows: Sequence[Row]) -> str:
    """Markdown: a line for each kind of clean table and each trap."""
    lines = ["| clean tables of | tables | with findings | that void weights |", "|---|---|---|---|"]
    of = {kind: [row for row in rows if row["task"][0] == kind] for kind in (*KINDS, *SIMULATED, *TRAPS)}
    clean = [row for kind in (*KINDS, *SIMULATED) for row in of[kind]]
    for name, some in [*((kind, of[kind]) for kind in (*KINDS, *SIMULATED)), ("all of them", clean)]:
        void, found = sum(row["void"] for row in some), sum(bool(row["findings"]) for row in some)
        lines += [f"| {name} | {len(some)} | {found} | {void} |"] * bool(some)
    lines += ["", "| trap | tables | found |", "|---|---|---|"]
    return "\n".join(
        [*lines, *(f"| {name} | {len(of[name])} | {sum(row['found'] for row in of[name])} |" for name in TRAPS)]
    )


def main() -> None:
    """Audit what has no row yet, and print the tables of all rows."""
    from stored_rows import add_flags, carry_out, rows_in, seeds  # type: ignore[import-not-found]  # beside this file

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=100, help="clean tables in all, the kinds in turn")
    parser.add_argument("--traps", type=int, default=10, help="tables of each trap")
    add_flags(parser, "audit")
    options = parser.parse_args()
    if options.table is None:
        first, kinds = FIRST_SEED if options.first is None else options.first, (*KINDS, *SIMULATED)
        tasks = [(kinds[seed % len(kinds)], seed) for seed in seeds(first, options.tables, options.shard)]
        tasks += [(trap, seed) for seed in seeds(first, options.traps, options.shard) for trap in TRAPS]
        for row in carry_out(tasks, row_of, options.out, options.shard, options.jobs, options.minutes):
            if odd := row.get("findings"):
                print(f"{row['task']}: {'; '.join(odd)}", flush=True)
    print(table(rows_in(options.out if options.table is None else options.table)))


if __name__ == "__main__":
    main()
