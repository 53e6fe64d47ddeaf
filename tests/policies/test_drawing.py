"""What is handed out is what was judged: draws follow the propensities, and belong to the case alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.handed_out import HandedOut
from scipy.stats import chi2, kstest

import poela
from poela import InputError, read_logs
from poela.core.draws import uniform_of, uniforms
from poela.data import decision_rows
from poela.data.decided import not_context
from poela.evaluation.rollouts import compare
from poela.simulators.registry import simulate
from poela.simulators.tumor import TumorBehavior, TumorGrowth

ACTIONS = ("left", "middle", "right")


def people(n: int, seed: int) -> pa.Table:
    """Single decisions with an id, by a coin of three sides; the right one depends on age."""
    rng = np.random.default_rng(seed)
    age, taken = rng.normal(size=n), rng.integers(3, size=n)
    columns = {"id": [f"p{row}" for row in range(n)], "age": age, "ward": rng.choice(["a", "b"], n)}
    outcome = (taken == np.digitize(age, [-0.5, 0.5])) * 1.0
    return pa.table({**columns, "action": np.array(ACTIONS)[taken], "reward": outcome})


@pytest.fixture(scope="module")
def policy() -> Any:
    logs = read_logs(people(600, 0), context=["age", "ward"])
    logs = logs.with_propensities(np.full((600, 3), 1 / 3))
    path = list(poela.FittedQ(rule=poela.AnyAction()).fit_path(logs, seed=0))
    return path[3].policy  # a mild one: nothing is sure


def propensities(table: pa.Table) -> Any:
    return np.stack([table[f"propensity_{name}"].to_numpy() for name in ACTIONS], axis=1)


def test_hashed_numbers_are_uniform_and_independent() -> None:
    n = 20_000
    found = uniforms("c0ffee", ((f"case {place // 20}", str(place % 20)) for place in range(n)))
    assert found.min() >= 0
    assert found.max() < 1
    assert kstest(found, "uniform").pvalue > 0.01
    by_step = found.reshape(-1, 20)
    assert np.abs(np.corrcoef(by_step.T) - np.eye(20)).max() < 5 / np.sqrt(n / 20)
    assert len(np.unique(found)) == n
    assert uniform_of("a", "b", "c") != uniform_of("b", "a", "c")


def test_drawn_actions_follow_their_propensities(policy: Any) -> None:
    """Over 5,000 cases, by tenths of each propensity: the counts are those of independent draws (chi-square)."""
    decided = policy.decide(people(5000, 1), case="id")
    chances = propensities(decided)
    np.testing.assert_allclose(chances.sum(axis=1), 1, atol=1e-12)
    assert len(np.unique(chances.round(6))) > 100  # cases differ
    for place, name in enumerate(ACTIONS):
        taken, chance = np.array(decided["action"].to_pylist()) == name, chances[:, place]
        group = np.digitize(chance, np.quantile(chance, np.linspace(0, 1, 11)[1:-1]))
        parts = [group == number for number in range(10)]
        assert min(chance[part].sum() for part in parts) > 5  # the approximation is fine
        off = [(taken[part].sum() - chance[part].sum()) ** 2 / (chance * (1 - chance))[part].sum() for part in parts]
        assert chi2.sf(sum(off), 10) > 0.01
        assert sum(off) > chi2.ppf(0.01, 10)  # nor are they spread out evenly


def test_neither_order_nor_company_nor_parts_change_a_draw(
    policy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, rng = people(400, 2), np.random.default_rng(0)
    plain = policy.decide(table, case="id").to_pylist()
    rows = rng.permutation(400)
    mixed = table.take(pa.array(rows)).select(["reward", "ward", "id", "age", "action"])
    assert policy.decide(mixed, case="id").select(list(plain[0])).to_pylist() == [plain[row] for row in rows]
    assert policy.decide(table.slice(17, 3), case="id").to_pylist() == plain[17:20]
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=50)
    monkeypatch.setattr(decision_rows, "PART_ROWS", 64)
    assert policy.decide(tmp_path / "rows.parquet", case="id").to_pylist() == plain
    named = table.rename_columns(["case", *table.column_names[1:]])
    found = policy.decide(named).to_pylist()  # a column that is called so needs no word
    assert [row["action"] for row in found] == [row["action"] for row in plain]
    numbered = policy.decide(table.drop_columns(["id"]))
    assert numbered["row"].to_pylist() == list(range(1, 401))
    again = policy.decide(tmp_path / "rows.parquet", keep=["id"])  # numbers go on from part to part
    assert again["action"].to_pylist() == numbered["action"].to_pylist() != [row["action"] for row in plain]


def test_a_case_without_steps_has_a_draw_for_each_of_its_rows(policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table = people(1, 3).take(pa.array(np.zeros(300, int)))
    decided = policy.decide(table, case="id")
    seed, chances = policy.content_hash[:16], propensities(decided)[0]
    expected = [
        ACTIONS[int(np.searchsorted(np.cumsum(chances), uniform_of(seed, "p0", step), side="right"))]
        for step in range(300)
    ]
    assert decided["action"].to_pylist() == expected
    assert set(expected) == set(ACTIONS)
    monkeypatch.setattr(decision_rows, "PART_ROWS", 7)
    assert policy.decide(table, case="id")["action"].to_pylist() == expected


def test_seeds_policies_and_files_have_draws_of_their_own(policy: Any, tmp_path: Path) -> None:
    table = people(300, 4)
    policy.save(tmp_path / "policy")
    loaded = poela.load_policy(tmp_path / "policy")
    assert loaded.content_hash == policy.content_hash
    assert loaded.decide(table, case="id").equals(policy.decide(table, case="id"))
    first, second = (policy.decide(table, case="id", seed=seed)["action"].to_pylist() for seed in (0, 1))
    assert first != second
    logs = read_logs(people(600, 0), context=["age", "ward"]).with_propensities(np.full((600, 3), 1 / 3))
    other: Any = list(poela.FittedQ(rule=poela.AnyAction()).fit_path(logs, seed=0))[4].policy
    assert other.content_hash != policy.content_hash


def test_decisions_with_outcomes_are_the_next_log(policy: Any) -> None:
    table = people(200, 5)
    decided = policy.decide(table, case="id", keep=["reward"])
    assert decided.column_names[:4] == ["id", "reward", "age", "ward"]
    assert decided.column_names[4:10] == ["action", *(f"propensity_{name}" for name in ACTIONS), "defer", "policy"]
    logs = read_logs(decided, episode="id", step=None)
    assert logs.schema is not None
    assert logs.schema.columns == ("age", "ward")
    order = np.argsort(table["id"].to_numpy(zero_copy_only=False))
    np.testing.assert_array_equal(logs.all_propensities, policy.probabilities(table)[order])
    assert [logs.action_names[code] for code in logs.actions] == decided["action"].take(pa.array(order)).to_pylist()


def test_other_tables_are_read_as_before() -> None:
    columns = ["age", "policy", "note", "similar", "action", "reward"]
    assert poela.LogLayout().resolve(columns).context == ("age", "policy", "note", "similar")
    assert not_context([*columns, "defer"], ["action"]) == ()
    named = poela.LogLayout(context=("similar",)).resolve([*columns, "defer", "propensity_a"])
    assert named.context == ("similar",)


def test_columns_of_the_context_may_be_called_as_those_of_decisions() -> None:
    rng = np.random.default_rng(0)
    table = pa.table({"distance": rng.normal(size=90), "action": rng.integers(0, 2, 90), "reward": rng.normal(size=90)})
    clone: Any = poela.Clone(rule=poela.AnyAction()).fit(read_logs(table), seed=0)
    decided = clone.decide(table)
    assert "distance" not in decided.column_names  # under this rule there is none, and the feature is not taken for it
    np.testing.assert_array_equal(decided["propensity_1"], clone.probabilities(table)[:, 1])
    with pytest.raises(InputError, match="column 'policy' is called as"):
        clone.decide(table.append_column("policy", pa.array([1] * 90)), keep=["policy"])


def test_cases_must_have_names(policy: Any) -> None:
    table = people(4, 0)
    with pytest.raises(InputError, match="column 'name' is missing"):
        policy.decide(table, case="name")
    nameless = table.set_column(0, "id", pa.array(["a", None, "", "d"]))
    with pytest.raises(InputError, match=r"column 'id' is missing in 2 rows, first row 2: name every case"):
        policy.decide(nameless, case="id")


def test_acting_by_decisions_is_acting_by_the_policy() -> None:
    """Tumor episodes in which every month is decided by `decide`, from all rows so far; and by the policy itself."""
    simulator, practice = TumorGrowth(), TumorBehavior()
    path = list(poela.FittedQ(history=1, rule=poela.AnyAction()).fit_path(simulate("tumor", episodes=100, seed=0)))
    policy: Any = path[len(path) // 2].policy
    handed = HandedOut(policy.decide, simulator, practice)
    likeliest = HandedOut(lambda rows: policy.decide(rows, likeliest=True, unproven=True), simulator, practice)
    found = compare({"own": policy, "handed": handed, "likeliest": likeliest}, simulator, episodes=200)
    same, other = found.difference("handed", "own"), found.difference("likeliest", "own")
    assert abs(same.value) < 3 * same.standard_error
    assert abs(other.value) > 5 * other.standard_error  # so the test can tell
    assert same.standard_error < 1.0
