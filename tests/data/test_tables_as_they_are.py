"""Tables as they come: text, gaps, dates, no episodes, rewards at the end, formulas; each rule by hand-made answers."""

import datetime
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.data.log_files import SOURCES

from poela import InputError, LogLayout, read_logs
from poela.data.checks import learning_problems
from poela.data.schema import TableSchema

KINDS = ["parquet", "csv", "csv.gz", "arrow", "pandas", "polars"]
STAYS: dict[str, Any] = {
    "stay": ["b", "a", "a", "b", "c"],
    "hour": [0, 4, 0, 4, 0],
    "ward": ["ICU", "surgery", "surgery", None, "ICU"],
    "lactate": [None, 3.0, 1.0, 2.0, None],
    "dose": ["low", "high", "low", "low", "high"],
    "reward": [0.0, 1.0, 0.0, 0.5, 2.0],
}
NAMES: dict[str, Any] = {"episode": "stay", "step": "hour", "action": "dose"}


def table(**changes: Any) -> pa.Table:
    return pa.table({name: column for name, column in {**STAYS, **changes}.items() if column is not None})


@pytest.mark.parametrize("kind", KINDS)
def test_text_and_gaps_become_features(kind: str, tmp_path: Path) -> None:
    logs = read_logs(SOURCES[kind](table(), tmp_path), **NAMES)
    assert logs.feature_names == ("ward=ICU", "ward=surgery", "ward missing", "lactate", "lactate missing")
    assert logs.contexts.tolist() == [
        [0, 1, 0, 1, 0],
        [0, 1, 0, 3, 0],
        [1, 0, 0, 2, 1],  # the median of 1, 2 and 3
        [0, 0, 1, 2, 0],
        [1, 0, 0, 2, 1],
    ]
    assert logs.notes == (
        "column 'ward' is text: a feature for each category, 2 in all",
        "column 'ward' is missing in 1 row (20.0%): a category of its own, marked by a feature",
        "column 'lactate' is missing in 2 rows (40.0%): filled with the median, marked by a feature",
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_value_is_carried_forward(kind: str, tmp_path: Path) -> None:
    changes = {"lactate": [1.0, None, 7.0, None, None]}  # stays: a 7, -; b 1, -; c -
    logs = read_logs(SOURCES[kind](table(**changes), tmp_path), **NAMES, missing="carry-forward", context=["lactate"])
    assert logs.contexts.tolist() == [[7, 0], [7, 0], [1, 0], [1, 0], [4, 1]]
    text = read_logs(SOURCES[kind](table(), tmp_path), **NAMES, missing="carry-forward", context=["ward"])
    assert text.feature_names == ("ward=ICU", "ward=surgery")
    assert text.contexts[3].tolist() == [1, 0]


def test_gaps_can_be_refused() -> None:
    with pytest.raises(InputError) as error:
        read_logs(table(), **NAMES, missing="refuse")
    assert [problem.split(":")[0] for problem in error.value.problems] == [
        "column 'lactate' is null, NaN or infinite in 2 rows, first row 1",
        "column 'ward' is missing in 1 row, first row 4",
    ]


def test_a_column_without_values_is_left_out() -> None:
    logs = read_logs(table(ward=pa.array([None] * 5, pa.string()), lactate=[1.0] * 5), **NAMES)
    assert logs.feature_names == ("lactate",)
    assert logs.notes == ("column 'ward' is without a value in any row: left out",)


@pytest.mark.parametrize("kind", KINDS)
def test_an_order_makes_text_a_number(kind: str, tmp_path: Path) -> None:
    source = SOURCES[kind](table(ward=["mid", "low", "high", "mid", "low"], lactate=None), tmp_path)
    logs = read_logs(source, **NAMES, ordinal={"ward": ["low", "mid", "high"]})
    assert (logs.feature_names, logs.contexts.ravel().tolist()) == (("ward",), [2, 0, 1, 1, 0])
    with pytest.raises(InputError, match="'ward' is none of the values that its order names in 1 row, first row 3"):
        read_logs(source, **NAMES, ordinal={"ward": ["low", "mid"]})


@pytest.mark.parametrize("kind", KINDS)
def test_codes_can_be_categories_and_are_the_same_in_every_kind_of_file(kind: str, tmp_path: Path) -> None:
    source = SOURCES[kind](table(ward=[3, 7, 7, 3, 10], lactate=None), tmp_path)
    logs = read_logs(source, **NAMES, category=["ward"])
    assert logs.feature_names == ("ward=10", "ward=3", "ward=7")
    assert logs.contexts.argmax(axis=1).tolist() == [2, 2, 1, 1, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_truths_are_0_and_1(kind: str, tmp_path: Path) -> None:
    logs = read_logs(SOURCES[kind](table(ward=[True, False, True, True, False], lactate=None), tmp_path), **NAMES)
    assert (logs.feature_names, logs.contexts.ravel().tolist()) == (("ward",), [1, 0, 1, 1, 0])


@pytest.mark.parametrize("kind", KINDS)
def test_dates_count_from_the_first_of_their_episode_or_from_an_origin(kind: str, tmp_path: Path) -> None:
    days = [datetime.datetime(2020, 1, day, hour) for day, hour in [(5, 0), (3, 12), (1, 0), (6, 6), (9, 0)]]
    source = SOURCES[kind](table(ward=days, lactate=None), tmp_path)
    logs = read_logs(source, **NAMES)
    assert (logs.feature_names, logs.contexts.ravel().tolist()) == (("ward days",), [0, 2.5, 0, 1.25, 0])
    again = read_logs(source, layout=LogLayout(**NAMES).fixed(logs))
    np.testing.assert_array_equal(again.contexts, logs.contexts)
    since = read_logs(source, **NAMES, origin="2019-12-31")
    assert since.contexts.ravel().tolist() == [1, 3.5, 5, 6.25, 9]


def test_later_tables_are_read_by_what_the_first_taught() -> None:
    first = read_logs(table(), **NAMES)
    layout = LogLayout(**NAMES).fixed(first)
    later = {"ward": ["morgue", "ICU", None, "ICU", "ICU"], "lactate": [9.0, None, 8.0, 8.0, 8.0]}
    logs = read_logs(table(**later), layout=layout)
    assert logs.feature_names == first.feature_names
    assert logs.contexts[:3].tolist() == [[0, 0, 1, 8, 0], [1, 0, 0, 2, 1], [0, 0, 0, 9, 0]]
    assert "column 'ward' has categories that the log did not have in 1 row: taken as none of them" in logs.notes
    assert not any("morgue" in note for note in logs.notes)
    assert LogLayout.from_json(layout.to_json()) == layout


def test_gaps_that_the_log_did_not_have_are_refused_later() -> None:
    layout = LogLayout(**NAMES).fixed(read_logs(table(ward=list("xyxyx"), lactate=[1.0, 2, 3, 4, 5]), **NAMES))
    with pytest.raises(InputError) as error:
        read_logs(table(), layout=layout)
    assert error.value.problems == (
        "column 'lactate' is null, NaN or infinite in 2 rows, first row 1: fill it in, or drop those episodes",
        "column 'ward' is missing in 1 row, first row 4: the log that taught this had none there: fill it in",
    )


def test_without_episodes_every_row_is_one() -> None:
    logs = read_logs(pa.table({"age": [3, 1, 2], "action": [1, 0, 1], "reward": [1, 2, 3]}))
    assert logs.offsets.tolist() == [0, 1, 2, 3]
    assert logs.rewards.tolist() == [1, 2, 3]
    assert logs.notes == ("there is no column of episodes: every row is an episode of one decision",)
    assert read_logs(table(hour=None, stay=None), action="dose").n_episodes == 5
    for almost in ("Episode", "steps"):
        with pytest.raises(InputError, match="column 'episode' is missing"):
            read_logs(pa.table({almost: [1, 2, 3], "age": [3, 1, 2], "action": [1, 0, 1], "reward": [1, 2, 3]}))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_may_stand_in_order(kind: str, tmp_path: Path) -> None:
    source = SOURCES[kind](table(hour=None, ward=None, lactate=[5.0, 4.0, 3.0, 2.0, 1.0]), tmp_path)
    logs = read_logs(source, episode="stay", step="rows", action="dose")
    assert logs.contexts.ravel().tolist() == [4, 3, 5, 2, 1]
    with pytest.raises(InputError, match=r"column 'step' is missing.* say step='rows'"):
        read_logs(source, episode="stay", action="dose")


@pytest.mark.parametrize("kind", KINDS)
def test_a_reward_at_the_end_is_0_before(kind: str, tmp_path: Path) -> None:
    logs = read_logs(SOURCES[kind](table(reward=[None, 7.0, None, 3.0, 1.0], ward=None), tmp_path), **NAMES)
    assert logs.rewards.tolist() == [0, 7, 0, 3, 1]
    assert "column 'reward' is blank in 2 rows before the end of their episodes: counted as 0" in logs.notes
    with pytest.raises(InputError, match="'reward' is null, NaN or infinite in 1 row, first row 4"):
        read_logs(SOURCES[kind](table(reward=[2.0, 7.0, None, None, 1.0]), tmp_path), **NAMES)


@pytest.mark.parametrize("kind", KINDS)
def test_a_reward_can_be_a_formula(kind: str, tmp_path: Path) -> None:
    columns = {"reward": None, "alive": [None, 1.0, None, 0.0, 1.0], "cost in $": [10.0, 20.0, 30.0, 40.0, 50.0]}
    logs = read_logs(SOURCES[kind](table(ward=None, **columns), tmp_path), **NAMES, reward="alive - 0.01*`cost in $`")
    np.testing.assert_allclose(logs.rewards, [-0.3, 0.8, -0.1, -0.4, 0.5])
    assert logs.feature_names == ("lactate", "lactate missing")  # what came of it is no context


@pytest.mark.parametrize(
    "formula",
    [
        "__import__('os').system('true')",
        "alive.real",
        "alive[0]",
        "(lambda: 1)()",
        "alive if 1 else 2",
        "alive ** 9",
        "alive; 1",
        "'a' * 9",
        "alive == 1",
        "f(alive)",
        "-" * 400 + "alive",
        "alive +",
        "1e999*alive",
        "alive # - cost",
    ],
)
def test_nothing_but_arithmetic_is_a_formula(formula: str) -> None:
    words = "is missing" if formula in ("alive.real", "alive if 1 else 2") else "reward= is no column and no formula"
    with pytest.raises(InputError, match=words):
        read_logs(table(alive=[1.0] * 5), **NAMES, reward=formula)


@pytest.mark.parametrize(
    ("formula", "first"),
    [
        ("ﬁ - fi", 9.0),
        ("2*µg", 8.0),
        ("μg + 0", 2.0),
        ("column_0_ - `a b`", -2.0),
        ("`a b`", 5.0),
        ("e\u0301 + 1", 8.0),
    ],
)
def test_columns_of_a_formula_are_those_that_it_spells(formula: str, first: float) -> None:
    values = {"ﬁ": 10.0, "fi": 1.0, "µg": 4.0, "μg": 2.0, "column_0_": 3.0, "a b": 5.0, "e\u0301": 7.0, "é": 0.0}
    logs = read_logs(table(**{name: [value] * 5 for name, value in values.items()}), **NAMES, reward=formula)
    assert logs.rewards.tolist() == [first] * 5


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["2020-01-01", "2020-01-02", "2020-13-x", "2020-01-04", None], "not a date or time, in 1 row, first row 3"),
        (["31/01/2020", "01/02/2020", "02/02/2020", "3/2/2020", "x"], "not a date or time, in 5 rows"),
        (["2020-01-01 08:00", "2020-01-02 08:00Z", "2020-01-02 08:00", "2020-01-02 08:00", None], "in 1 row, first"),
        (["1,234.5", "999", "1,000,000", "12", "x"], "is text, not a number, in 3 rows, first row 1"),
        (["1", None, None, None, "none"], "is text, not a number, in 1 row, first row 5"),
    ],
)
def test_slips_do_not_turn_dates_and_numbers_into_categories(
    cells: list[str | None], words: str, kind: str, tmp_path: Path
) -> None:
    source = SOURCES[kind](table(ward=cells), tmp_path)
    with pytest.raises(InputError, match=words):
        read_logs(source, **NAMES)
    kept = read_logs(source, **NAMES, category=["ward"])
    assert sum(name.startswith("ward=") for name in kept.feature_names) == len(set(cells) - {None})


def test_numbers_and_times_that_single_precision_merges_are_noted() -> None:
    def told(origin: str | None = None, **columns: Any) -> list[str]:
        logs = read_logs(table(ward=None, lactate=None, **columns), **NAMES, origin=origin)
        return [note for note in logs.notes if "single precision cannot tell apart" in note]

    assert len(told(x=[1e9, 1e9 + 1, 1e9 + 2, 1e9 + 3, 2e9])) == 1
    assert len(told(x=[1e5 + 1e-4 * row for row in range(5)])) == 1
    assert told(x=[1e5 + row for row in range(5)]) == told(x=[0.1, 0.2, 0.3, 1e30, -1e30]) == []
    minutes = [datetime.datetime(2024, 1, 1, 0, minute) for minute in range(5)]
    assert len(told("0001-01-01", x=minutes)) == 1
    assert told("2023-12-31", x=minutes) == told(x=minutes) == []


def test_an_overflow_is_not_told_as_a_division_alone() -> None:
    with pytest.raises(InputError, match=r"no number in 5 rows.*nor grow beyond all bounds"):
        read_logs(table(cost=[1e200] * 5), **NAMES, reward="cost*cost", context=["lactate"])


def test_a_formula_that_divides_by_0_and_a_column_called_like_a_formula() -> None:
    with pytest.raises(InputError, match="the formula of the reward is no number in 1 row, first row 3"):
        read_logs(table(cost=[1, 2, 0, 4, 5]), **NAMES, reward="1/cost", context=["lactate"])
    odd = table(ward=None, lactate=[1.0] * 5).rename_columns(["stay", "hour", "lactate", "dose", "a-b"])
    assert read_logs(odd, **NAMES, reward="a-b").rewards.tolist() == [0, 1, 0, 0.5, 2]
    with pytest.raises(InputError, match="'lactate' is named as reward and as context"):
        read_logs(table(), **NAMES, reward="reward - lactate", context=["lactate"])


def test_irregular_steps_are_told() -> None:
    times = {"hour": [0, 7, 0, 4, 0], "ward": None}
    assert any("2 gaps" in note or "of 2 gaps" in note for note in read_logs(table(**times), **NAMES).notes)
    assert not any("gaps between" in note for note in read_logs(table(ward=None), **NAMES).notes)


def test_constant_columns_are_left_out_for_learning() -> None:
    plain = {"ward": ["ICU"] * 5, "lactate": [1.0, 2.0, 3.0, 4.0, 5.0], "site": [7] * 5}
    assert read_logs(table(**plain), **NAMES).feature_names == ("ward=ICU", "lactate", "site")
    logs = read_logs(table(**plain), **NAMES, for_learning=True)
    assert logs.feature_names == ("lactate",)
    assert logs.notes[-1] == "columns 'ward', 'site' are the same in every row: left out"
    dates = table(ward=[datetime.date(2020, 1, day) for day in (1, 2, 3, 4, 5)], lactate=[1.0, 2.0, 3.0, 4.0, 5.0])
    alone = read_logs(dates.drop_columns(["stay", "hour"]), action="dose", for_learning=True)
    assert alone.notes[-1].endswith("(give an origin= to count days from a date)")


def test_too_many_categories_are_refused_without_a_word_of_them() -> None:
    n = 300
    columns = {"action": ["a", "b"] * (n // 2), "reward": np.zeros(n), "name": [f"SECRET-{row}" for row in range(n)]}
    with pytest.raises(InputError) as error:
        read_logs(pa.table(columns))
    assert "'name' has 300 different texts (at most 100 can be categories) in 300 rows" in str(error.value)
    assert "SECRET" not in str(error.value)


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_the_separator_and_decimal_commas_are_found(separator: str, tmp_path: Path) -> None:
    rows = [["episode", "step", "age", "action", "reward"], ["1", "0", "0,5", "a", "1,25"], ["1", "1", "2", "b", "-3"]]
    content = "\n".join(separator.join(row) for row in rows).encode()
    for name, written in (("logs.csv", content), ("logs.csv.gz", gzip.compress(content))):
        (tmp_path / name).write_bytes(written)
        logs = read_logs(tmp_path / name)
        assert (logs.contexts.ravel().tolist(), logs.rewards.tolist()) == ([0.5, 2], [1.25, -3])
        assert logs.notes[1] == "the decimals of the file follow a comma"


def test_schemas_survive_parts_and_files(tmp_path: Path) -> None:
    logs = read_logs(table(), **NAMES)
    assert logs.take([0, 2]).schema == logs.split((0.5, 0.5), seed=0)[1].schema == logs.schema
    assert logs.with_propensities(np.full(5, 0.5)).schema == logs.schema
    assert logs.with_history(1).schema is None
    back = read_logs(SOURCES["parquet"](logs.to_table(), tmp_path))
    assert (back.schema, back.feature_names) == (logs.schema, logs.feature_names)
    np.testing.assert_array_equal(back.contexts, logs.contexts)
    assert logs.schema is not None
    assert TableSchema.from_json(logs.schema.to_json()) == logs.schema


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"missing": "guess"}, "missing= must be refuse, indicator or carry-forward"),
        ({"ordinal": {"ward": ["low"]}}, "at least two different values"),
        ({"ordinal": "ward"}, "ordinal= must give columns"),
        *(
            ({"origin": text}, "origin= must be a date")
            for text in ("yesterday", "NaT", "now", "today", "-5", "2020", "99999-01-01", "2020-01-01T00:00Z", "")
        ),
        ({"category": ["wart"]}, r"'wart' is missing \(did you mean 'ward'"),
        ({"category": [3]}, "category= must name columns"),
    ],
)
def test_what_is_said_wrongly(said: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        read_logs(table(), **NAMES, **said)


def test_ids_that_never_come_twice_are_single_decisions_without_a_step() -> None:
    table = pa.table({"person": ["b", "a", "c"], "age": [1, 2, 3], "action": ["x", "y", "x"], "reward": [0.0, 1, 0]})
    logs = read_logs(table, episode="person")
    assert logs.n_episodes == 3
    assert logs.episode_ids is not None
    assert logs.episode_ids.tolist() == ["a", "b", "c"]
    again = pa.table({"person": ["b", "a", "a"], "age": [1, 2, 3], "action": ["x", "y", "x"], "reward": [0.0, 1, 0]})
    with pytest.raises(InputError, match="column 'step' is missing"):
        read_logs(again, episode="person")


def test_propensities_that_were_rounded_are_divided_by_their_sum() -> None:
    table = pa.table({"age": [1, 2, 3, 4], "action": ["a", "b", "c", "a"], "reward": [0.0, 1, 0, 1]})
    for name in "abc":
        table = table.append_column(f"p_{name}", pa.array([0.33, 0.33, 0.33, 0.34 if name == "a" else 0.33]))
    logs = read_logs(table, propensity=["p_a", "p_b", "p_c"])
    assert logs.propensities is not None
    np.testing.assert_allclose(logs.propensities[:3], np.full((3, 3), 1 / 3), rtol=1e-15)
    np.testing.assert_array_equal(logs.propensities[3], [0.34, 0.33, 0.33])
    assert (
        "columns 'p_a', 'p_b', 'p_c' are rounded and miss a sum of 1 in 3 rows: each was divided by its sum"
        in logs.notes
    )
    rough = table.set_column(3, "p_a", pa.array([0.3, 0.33, 0.33, 0.34]))
    with pytest.raises(InputError, match="do not sum to 1 in 1 row, first row 1"):
        read_logs(rough, propensity=["p_a", "p_b", "p_c"])
    exact = table.set_column(3, "p_a", pa.array([0.333333333, 0.33, 0.33, 0.34]))  # then the others are not rounded
    with pytest.raises(InputError, match="do not sum to 1 in 3 rows"):
        read_logs(exact, propensity=["p_a", "p_b", "p_c"])


def test_a_part_of_a_log_may_lose_all_gaps_of_a_column() -> None:
    rows = pa.table(
        {"age": [1, 2, 3, None], "kind": [1, 1, 1, 2], "action": ["x", "y", "x", "y"], "reward": [0.0, 1, 0, 1]}
    )
    part = read_logs(rows).take([0, 1, 2])  # no gap, and one kind only
    assert learning_problems(part) == ["column 'kind' is constant in every row (3): leave out what never changes"]
