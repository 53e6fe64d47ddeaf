"""Bad logs: each problem is one sentence with the column, the count and the first row; all are told at once."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.data.log_files import SOURCES, csv, parquet

from poela import InputError, LogLayout, read_logs

KINDS = ["parquet", "csv", "arrow", "pandas", "polars"]
SOUND: dict[str, list[Any]] = {
    "episode": [1, 1, 2, 2, 3, 3],
    "step": [0, 1, 0, 1, 0, 1],
    "age": [0.5, 1.0, 1.5, 2.0, 2.5, 3.0],
    "action": ["a", "b", "a", "b", "a", "b"],
    "reward": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
}
FULL = SOUND | {"propensity_a": [0.5] * 6, "propensity_b": [0.5] * 6}


def problems(source: Any, **names: Any) -> list[str]:
    with pytest.raises(InputError) as error:
        read_logs(source, **names)
    return list(error.value.problems)


def changed(changes: dict[str, Any], base: dict[str, list[Any]] = SOUND) -> pa.Table:
    return pa.table({name: column for name, column in {**base, **changes}.items() if column is not None})


nan, inf = float("nan"), float("inf")
fill = "fill it in, or drop those episodes"
unfit = "correct it, or leave propensities out and estimate them"
EVERYWHERE: dict[str, tuple[dict[str, Any], str]] = {
    "missing column": ({"reward": None}, "column 'reward' is missing: add it, or name another with reward="),
    "NaN feature": (
        {"age": [0.5, nan, 1, 1, nan, 2]},
        f"column 'age' is null, NaN or infinite in 2 rows, first row 2: {fill}",
    ),
    "null feature": (
        {"age": [0.5, 1, 1, None, 2, 2]},
        f"column 'age' is null, NaN or infinite in 1 row, first row 4: {fill}",
    ),
    "infinite feature": (
        {"age": [0.5, 1, inf, -inf, 2, 2]},
        f"column 'age' is null, NaN or infinite in 2 rows, first row 3: {fill}",
    ),
    "feature beyond float32": (
        {"age": [0.5, 1, 1, 1, 2, 1e39]},
        "column 'age' is too large for single precision (3.4e38) in 1 row, first row 6: scale it down",
    ),
    "empty feature": (
        {"age": pa.array([None] * 6, pa.float64())},
        f"column 'age' is null, NaN or infinite in 6 rows, first row 1: {fill}",
    ),
    "NaN reward": (
        {"reward": [0, nan, 2, inf, 4, 5]},
        "column 'reward' is null, NaN or infinite in 2 rows, first row 2: 1 of 3 episodes (33%) have no outcome. "
        "Without them the others stand for cases unlike them: say --missing censored (missing='censored') to make up "
        "for it by the chance of being seen, or fill them in",
    ),
    "reward whose square is no number": (
        {"reward": [0, 1e60, 2, -2e61, 1.7e308, 5]},
        "column 'reward' is beyond 1e+60 in 2 rows, first row 4: scale it down, since squares of rewards are summed",
    ),
    "text reward": (
        {"reward": ["0", "1", "2", "low", "4", "5"]},
        "column 'reward' is text, not a number, in 1 row, first row 4: give the rewards as numbers",
    ),
    "slip of the pen in a feature": (
        {"age": ["1", "2", "3", "4", "old", "6"]},
        "column 'age' is text, not a number, in 1 row, first row 5: "
        "turn it into numbers, or name the context columns without it, or name it in category= (--category)",
    ),
    "free text as a feature": (
        {"notes": ["fine", "x" * 101, None, "y" * 200, "fine", "fine"]},
        "column 'notes' holds free text in 2 rows, first row 2: name the context columns without it",
    ),
    "gaps in text": (
        {"sex": ["f", None, "m", "m", None, "f"]},
        f"column 'sex' is missing in 2 rows, first row 2: {fill}",
    ),
    "text step": (
        {"step": ["0", "one", "2", "3", "4", "5"]},
        "column 'step' is text, not a number or time, in 1 row, first row 2: number the decisions of each episode",
    ),
    "null step": (
        {"step": [0, 1, 2, None, None, 5]},
        "column 'step' is null, NaN or infinite in 2 rows, first row 4: number the decisions of each episode",
    ),
    "null episode": (
        {"episode": [1, 1, None, 2, 3, None]},
        f"column 'episode' is null or NaN in 2 rows, first row 3: {fill}",
    ),
    "null action": (
        {"action": ["a", "b", None, "b", "a", "b"]},
        f"column 'action' is null or NaN in 1 row, first row 3: {fill}",
    ),
    "fractional action": (
        {"action": [0.0, 1.0, 0.5, 1.0, 1.5, 0.0]},
        "column 'action' is not a whole number in 2 rows, first row 3: divide a continuous dose into levels first",
    ),
    "repeated pair": (
        {"episode": [1, 2, 1, 1, 2, 2], "step": [0, 5, 1, 0, 0, 5]},
        "columns 'episode' and 'step' repeat an earlier pair in 2 rows, first row 4: keep one row for each decision",
    ),
    "propensity 0": (
        {"propensity": [0.5, 0.5, 0.0, 0.5, 0.0, 1.0]},
        f"column 'propensity' lies outside (0, 1] in 2 rows, first row 3: {unfit}",
    ),
    "propensity above 1": (
        {"propensity": [0.5, 0.5, 1.5, 0.5, -0.5, 1.0]},
        f"column 'propensity' lies outside (0, 1] in 2 rows, first row 3: {unfit}",
    ),
    "NaN propensity": (
        {"propensity": [0.5, 0.5, 0.5, 0.5, nan, None]},
        f"column 'propensity' is null, NaN or infinite in 2 rows, first row 5: {fill}",
    ),
    "no rows": (
        {name: pa.array([], pa.float64()) for name in SOUND},
        "there are no rows: the log needs one for each decision",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("changes", "sentence"), EVERYWHERE.values(), ids=list(EVERYWHERE))
def test_each_problem_is_one_sentence(changes: dict[str, Any], sentence: str, kind: str, tmp_path: Path) -> None:
    assert problems(SOURCES[kind](changed(changes), tmp_path), missing="refuse") == [sentence]


FULL_PROBLEMS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "not summing to 1": (
        {"propensity_a": [0.5, 0.5, 0.4, 0.5, 0.5, 0.6]},
        [
            "columns 'propensity_a', 'propensity_b' do not sum to 1 in 2 rows, first row 3: "
            "correct them, or divide each row by its sum"
        ],
    ),
    "negative": (
        {"propensity_a": [0.5, -0.5, 0.5, 0.5, 0.5, 0.5], "propensity_b": [0.5, 1.5, 0.5, 0.5, 0.5, 0.5]},
        [
            f"column 'propensity_a' lies outside [0, 1] in 1 row, first row 2: {unfit}",
            f"column 'propensity_b' lies outside [0, 1] in 1 row, first row 2: {unfit}",
        ],
    ),
    "zero for the logged action": (
        {"propensity_a": [1.0, 0.5, 0.0, 1.0, 0.5, 0.5], "propensity_b": [0.0, 0.5, 1.0, 0.0, 0.5, 0.5]},
        [
            "columns 'propensity_a', 'propensity_b' give the logged action the probability 0 in 2 rows, first row 3: "
            "correct them, or leave propensities out and estimate them"
        ],
    ),
    "NaN": (
        {"propensity_b": [0.5, 0.5, 0.5, nan, 0.5, inf]},
        [f"column 'propensity_b' is null, NaN or infinite in 2 rows, first row 4: {fill}"],
    ),
    "action without a column": (
        {"action": ["a", "b", "c", "b", "a", "c"]},
        [
            "column 'action' lies outside the declared actions in 2 rows, first row 3: "
            "declare that other value too, by actions= or a propensity column, or drop those episodes"
        ],
    ),
    "two kinds of propensities": (
        {"propensity": [0.5] * 6},
        [
            "'propensity' could be propensities too, beside 'propensity_a', 'propensity_b': "
            "say with propensity= which to use, or declare those actions"
        ],
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("changes", "sentences"), FULL_PROBLEMS.values(), ids=list(FULL_PROBLEMS))
def test_problems_of_full_propensities(
    changes: dict[str, Any], sentences: list[str], kind: str, tmp_path: Path
) -> None:
    assert problems(SOURCES[kind](changed(changes, FULL), tmp_path)) == sentences


@pytest.mark.parametrize("kind", KINDS)
def test_all_problems_are_told_at_once(kind: str, tmp_path: Path) -> None:
    table = changed(
        {
            "step": None,
            "episode": [1, None, 2, 2, 3, 3],
            "age": [1, 2, nan, 4, 5, 6],
            "sex": ["1", "2", "m", "1", "1", "1"],
            "action": ["a", None, "b", "z", "a", "a"],
            "reward": [1, 2, 3, 4, 5, inf],
            "propensity": [0.5, 0.5, 2.0, 0.5, nan, 0.5],
        }
    )
    found = problems(SOURCES[kind](table, tmp_path), actions=["a", "b"], missing="refuse")
    assert len(found) == 9
    for start in (
        "column 'step' is missing",
        "column 'episode' is null or NaN in 1 row, first row 2",
        "column 'age' is null, NaN or infinite in 1 row, first row 3",
        "column 'sex' is text, not a number, in 1 row, first row 3",
        "column 'action' is null or NaN in 1 row, first row 2",
        "column 'action' lies outside the declared actions in 1 row, first row 4",
        "column 'reward' is null, NaN or infinite in 1 row, first row 6",
        "column 'propensity' is null, NaN or infinite in 1 row, first row 5",
        "column 'propensity' lies outside (0, 1] in 1 row, first row 3",
    ):
        assert sum(sentence.startswith(start) for sentence in found) == 1, start


def test_no_patient_value_is_quoted(tmp_path: Path) -> None:
    table = changed(
        {"episode": ["SECRET"] * 6, "age": ["SECRET-7", "1", "2", "3", "4", "5"], "reward": ["SECRET-8"] * 6}
    )
    for kind in KINDS:
        assert not any("SECRET" in sentence for sentence in problems(SOURCES[kind](table, tmp_path)))


UNSORTABLE = {
    "nested episode": ({"episode": [[1]] * 6}, "column 'episode' is list"),
    "nested feature": ({"age": [{"years": 1}] * 6}, "column 'age' is struct, not a number, in 6 rows"),
    "time of day as feature": (
        {"age": pa.array(range(6), pa.time32("s"))},
        "column 'age' is time32[ms], not a number,",
    ),
    "time as action": ({"action": np.arange(6).astype("datetime64[ms]")}, "column 'action' is timestamp[ms] in 6 rows"),
    "binary action": ({"action": [b"a"] * 6}, "column 'action' is binary in 6 rows, first row 1"),
    "digits as text": ({"age": list("123456")}, "column 'age' is text, not a number, in 6 rows, first row 1"),
}


@pytest.mark.parametrize(("changes", "start"), UNSORTABLE.values(), ids=list(UNSORTABLE))
def test_types_that_cannot_be_used(changes: dict[str, Any], start: str, tmp_path: Path) -> None:
    found = problems(parquet(changed(changes), tmp_path))
    assert len(found) == 1
    assert found[0].startswith(start)


def test_rows_are_numbered_as_in_the_file_across_batches(tmp_path: Path) -> None:
    n = 30_000
    age = np.zeros(n)
    age[[20_000, 29_999]] = np.nan
    table = pa.table(
        {"episode": np.arange(n)[::-1], "step": np.zeros(n), "age": age, "action": np.zeros(n, int), "reward": age}
    )
    for sentence in problems(parquet(table, tmp_path), missing="refuse"):
        assert "in 2 rows, first row 20001" in sentence


def test_a_pandas_column_of_mixed_types_is_named() -> None:
    frame = pd.DataFrame({**SOUND, "age": [1, "x", 2, 3, 4, "y"]})
    assert problems(frame) == [
        "column 'age' is of another type than elsewhere in 2 rows, first row 2: give the column one type"
    ]


def test_names_that_clash_or_repeat() -> None:
    table = changed({})
    assert problems(table, context=["age", "reward"]) == [
        "column 'reward' is named as reward and as context: name it once"
    ]
    assert problems(table, context=["age", "age"])[0].startswith("column 'age' is named as context and as context")
    twice = pa.Table.from_arrays([*table.columns, table["age"]], names=[*table.column_names, "age"])
    assert problems(twice) == ["column 'age' occurs 2 times: rename it"]


def test_near_misses_are_suggested() -> None:
    table = changed({}).rename_columns(["Episode", "step", "age", "action", "reward"])
    assert problems(table)[0].startswith("column 'episode' is missing (did you mean 'Episode'?)")
    assert problems(changed({}), context=["aged", "sofa"])[0].startswith("columns 'aged', 'sofa' are missing")


def test_propensity_columns_that_do_not_fit_the_actions() -> None:
    table = changed({"p": [0.5] * 6, "q": [0.5] * 6, "r": [0.0] * 6})
    assert problems(table, propensity=["p", "q", "r"]) == [
        "3 propensity columns stand for 2 actions: declare the actions, or give a column for each"
    ]
    numbered = changed(
        {"action": [0, 1] * 3, "propensity_0": [0.5] * 6, "propensity_1": [0.5] * 6, "propensity_score": [0.0] * 6}
    )
    assert problems(numbered) == ["'propensity_score' name no action: say with propensity= which columns to use"]


def test_unseen_actions_of_a_test_log_are_counted(tmp_path: Path) -> None:
    layout = LogLayout().fixed(read_logs(changed({})))
    table = changed({"action": ["a", "y", "b", "z", "z", "a"]})
    for kind in KINDS:
        assert problems(SOURCES[kind](table, tmp_path), layout=layout) == [
            "column 'action' lies outside the declared actions in 3 rows, first row 2: "
            "declare those 2 other values too, by actions= or a propensity column, or drop those episodes"
        ]
    assert problems(changed({"age": None}), layout=layout)[0].startswith("column 'age' is missing")


def test_an_unseen_text_action_does_not_hide_the_known_numbers_of_a_csv_file(tmp_path: Path) -> None:
    found = problems(csv(changed({"action": ["1", "2", "x", "1", "2", "1"]}), tmp_path), actions=[1, 2])
    assert len(found) == 1
    assert "in 1 row, first row 3: declare that other value too" in found[0]


def test_what_cannot_be_learned_from_can_still_be_read() -> None:
    table = changed({"episode": [1] * 6, "step": list(range(6)), "action": ["a"] * 6, "age": [1.0] * 6})
    assert read_logs(table).n_episodes == 1
    assert problems(table, for_learning=True) == [
        "there is one episode: learning needs at least 3, so add more",
        "the action is the same in every row (6): learning needs at least two actions in the log",
        "there are no context columns: learning needs at least one (column 'age' is the same in every row: left out)",
    ]
    assert problems(changed({"age": None}), for_learning=True) == [
        "there are no context columns: learning needs at least one"
    ]
    assert read_logs(changed({}), for_learning=True).n_episodes == 3


def test_an_id_named_as_the_action_and_one_as_a_feature(tmp_path: Path) -> None:
    n = 120
    columns = {"episode": np.arange(n) // 3, "step": np.arange(n) % 3, "age": np.arange(n), "reward": np.zeros(n)}
    ids = pa.table({**columns, "action": [f"id-{row}" for row in range(n)]})
    assert problems(ids, for_learning=True) == [
        "every row (120) has an action of its own: name another column as the action, or divide a continuous dose "
        "into levels first"
    ]
    assert read_logs(ids).n_actions == n
    large = pa.table({**columns, "action": np.arange(n) % 2, "id": 2**24 + np.arange(n)})
    sentence = (
        "column 'id' has numbers, such as whole numbers beyond 2^24, that single precision cannot tell apart: "
        "leave an id out of the context, subtract an offset, or scale them"
    )
    assert problems(large, for_learning=True) == [sentence]
    assert problems(csv(large, tmp_path), for_learning=True) == [sentence]
    apart = pa.table({**columns, "action": np.arange(n) % 2, "time": 1_700_000_000 + 86_400 * np.arange(n)})
    assert read_logs(apart, for_learning=True).n_features == 2


def test_long_messages_are_cut() -> None:
    wide = changed({f"x{number}": list("12345f") for number in range(300)})
    found = problems(wide)
    assert (len(found), found[-1]) == (21, "and 280 more problems")
    assert "'x7' and 292 more are missing" in problems(changed({}), context=[f"x{number}" for number in range(300)])[0]
    assert len(problems(changed({}), context=["age"] * 10_000)[0]) < 200
    assert len(problems(changed({}), context=["x" * 10_000])[0]) < 200
