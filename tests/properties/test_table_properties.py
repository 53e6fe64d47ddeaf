"""Any table: what a log taught is all that decides how later rows are read, whatever their order and their file."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.data.log_files import SOURCES

import poela
from poela import InputError, LogLayout, load_policy, read_logs
from poela.data.schema import TableSchema

NULLS = {"nan", "null", "na", "n/a", "#n/a", "-nan", "none", "true", "false", "inf", "-inf", "infinity", "-infinity"}
WORDS: st.SearchStrategy[str] = st.text(
    st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=6
).filter(lambda word: not any(map(str.isdigit, word)) and word.lower() not in NULLS)
NUMBERS = st.floats(-1e6, 1e6, width=32)
QUICK = settings(max_examples=25, suppress_health_check=list(HealthCheck))


@st.composite
def tables(draw: st.DrawFn, gaps: bool = True) -> pa.Table:
    """Rows of single decisions with a column of text and one of numbers, either with gaps."""
    n = draw(st.integers(6, 20))
    words = draw(st.lists(WORDS, min_size=2, max_size=4, unique=True))
    gap = [st.none()] if gaps else []
    texts = draw(st.lists(st.one_of(st.sampled_from(words), *gap), min_size=n - 2, max_size=n - 2)) + words[:2]
    numbers = [*draw(st.lists(st.one_of(NUMBERS, *gap), min_size=n - 2, max_size=n - 2)), 0.0, 1.0]
    return pa.table(
        {
            "case": [f"c{row}" for row in range(n)],
            "time": np.zeros(n, int),
            "ward": pa.array(texts, pa.string()),
            "lactate": pa.array(numbers, pa.float64()),
            "action": ["a", "b"] * (n // 2) + ["a"] * (n % 2),
            "reward": np.arange(n, dtype=float),
        }
    )


def propensities(found: pa.Table, policy: Any) -> Any:
    return np.stack([found[f"propensity_{name}"].to_numpy() for name in policy.action_names], axis=1)


def cloned(table: pa.Table) -> Any:
    logs = read_logs(table, episode="case", step="time")
    return poela.Clone(rule=poela.Radius(1.0, scale="standard"), steps=3).fit(logs, seed=0)


@QUICK
@given(table=tables(), kind=st.sampled_from(["csv", "parquet"]))
def test_from_a_file_to_decisions_nothing_is_lost(table: pa.Table, kind: str) -> None:
    policy = cloned(table)
    logs = read_logs(table, episode="case", step="time")
    rows = np.argsort(np.argsort(table["case"].to_numpy(zero_copy_only=False)))  # logs come in the order of ids
    with tempfile.TemporaryDirectory() as folder:
        policy.save(Path(folder) / "policy")
        found = load_policy(Path(folder) / "policy").decide(SOURCES[kind](table, Path(folder)))
    probabilities, stranded = policy.along(logs)[rows], policy.stranded(logs)[rows]
    np.testing.assert_allclose(propensities(found, policy)[~stranded], probabilities[~stranded], rtol=1e-6)
    np.testing.assert_array_equal(propensities(policy.decide(table), policy), policy.probabilities(table))
    assert not stranded.any()  # these very rows were logged


@QUICK
@given(table=tables(), seed=st.integers(0, 99), drawn=st.one_of(st.none(), st.integers(0, 99)))
def test_the_order_of_rows_and_columns_means_nothing(table: pa.Table, seed: int, drawn: int | None) -> None:
    rng = np.random.default_rng(seed)
    policy, rows = cloned(table), rng.permutation(table.num_rows)
    mixed = table.take(pa.array(rows)).select(list(rng.permutation(table.column_names)))
    plain, other = policy.decide(table, seed=drawn).take(pa.array(rows)), policy.decide(mixed, seed=drawn)
    same = ["case", "action", "defer", "eligible", "similar", "note"]
    assert plain.select(same).to_pylist() == other.select(same).to_pylist()
    np.testing.assert_allclose(propensities(plain, policy), propensities(other, policy), rtol=1e-6)


@QUICK
@given(table=tables(gaps=False), row=st.integers(0, 5), column=st.sampled_from(["ward", "lactate"]))
def test_a_gap_that_was_never_logged_is_refused(table: pa.Table, row: int, column: str) -> None:
    policy = cloned(table)
    values = [None if place == row else value for place, value in enumerate(table[column].to_pylist())]
    place = table.column_names.index(column)
    with pytest.raises(InputError, match=f"'{column}' is .* in 1 row, first row {row + 1}"):
        policy.decide(table.set_column(place, column, pa.array(values)))


@QUICK
@given(table=tables(), row=st.integers(0, 5))
def test_a_new_category_is_none_of_those_known_and_said(table: pa.Table, row: int) -> None:
    logs = read_logs(table, episode="case", step="time")
    values = ["0new0" if place == row else value for place, value in enumerate(table["ward"].to_pylist())]
    changed = table.set_column(2, "ward", pa.array(values, pa.string()))
    policy = cloned(table)
    assert policy.decide(changed)["note"].to_pylist()[row].count("ward: a category that was not logged") == 1
    later = read_logs(changed, layout=LogLayout(episode="case", step="time").fixed(logs))
    of_ward = [place for place, name in enumerate(logs.feature_names) if name.startswith("ward")]
    place = sorted(table["case"].to_pylist()).index(f"c{row}")
    assert not later.contexts[place, of_ward].any()
    others = np.delete(np.arange(table.num_rows), place)
    np.testing.assert_array_equal(later.contexts[others], logs.contexts[others])


@QUICK
@given(table=tables())
def test_a_schema_is_the_same_in_every_file_and_after_it(table: pa.Table) -> None:
    schema = read_logs(table, episode="case", step="time").schema
    assert schema is not None
    assert TableSchema.from_json(schema.to_json()) == schema
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("csv", "parquet", "pandas"):
            again = read_logs(SOURCES[kind](table, Path(folder)), episode="case", step="time")
            assert again.schema == schema
