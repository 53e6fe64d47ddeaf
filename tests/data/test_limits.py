"""Actions that are forbidden, or not among those that are open: read from tables, and checked against the log."""

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from poela import InputError, LogLayout, Trajectories, read_logs
from poela.data.conditions import Condition, Days, Flags, Texts
from poela.data.schema import TableSchema

NAN = float("nan")
COLUMNS: dict[str, Any] = {
    "age": np.array([30.0, 70.0, NAN, 70.0]),
    "ward": Texts(np.array([0, 1, 2, -1]), ("ICU", "home", "surgery")),
    "born": Days(np.array([0.0, 365.0, NAN, 10_000.0])),
    "ill": Flags(np.array([True, False, False, True]), np.array([True, True, False, True])),
}


@pytest.mark.parametrize(
    ("text", "truth"),
    [  # Kleene's tables, by hand: 1 yes, 0 no, ? not known
        ("age >= 65", "01?1"),
        ("18 <= age < 65", "10?0"),
        ("2*age - 10 > 100", "01?1"),
        ("age / 0 > 1", "????"),
        ("ward == 'ICU'", "100?"),
        ("ward != 'ICU'", "011?"),
        ("ward in ('ICU', \"home\")", "110?"),
        ("ward not in ('ICU', 'home')", "001?"),
        ("ward == 'elsewhere'", "000?"),
        ("age >= 65 and ward == 'home'", "010?"),
        ("age >= 65 and ward == 'ICU'", "000?"),
        ("age >= 65 or ward == 'ICU'", "11?1"),
        ("not (age >= 65)", "10?0"),
        ("age >= 65 and not missing(age)", "0101"),
        ("missing(ward)", "0001"),
        ("born < '1971-01-01'", "10?0"),
        ("'1970-06-01' < born", "01?1"),
        ("ill", "10?1"),
        ("not ill and age > 60", "01?0"),
        ("`ward` = 'ICU'", "100?"),
    ],
)
def test_conditions_know_yes_no_and_not_known(text: str, truth: str) -> None:
    found = Condition(text).of(COLUMNS)
    assert "".join("1" if yes else "0" if no else "?" for yes, no in zip(found.yes, found.no, strict=True)) == truth


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 < 2",
        "age",
        "age +",
        "age > 65 if ward == 'ICU' else 0 == 0",
        "__import__('os').system('true') == 0",
        "age.real > 0",
        "age[0] > 0",
        "ward in age",
        "ward == 'ICU' + 'x'",
        "age ** 9 > 1",
        "missing(age > 1)",
        "missing(age, ward)",
        "(lambda: 1)() == age",
        "age > 1 # and more",
        "ward == 'a\nb'",
        "age == " + "(" * 300 + "1" + ")" * 300,
        "not " * 60 + "ill == 1",
        "x" * 501 + " > 1",
        "ward == 'ICU' == age",
    ],
)
def test_what_is_no_condition_is_refused(text: str) -> None:
    if text == "age":  # a column of yes and no
        assert Condition(text).flags == {"age"}
        return
    with pytest.raises(InputError, match="is no condition"):
        Condition(text)


def table(**changed: Any) -> pa.Table:
    columns: dict[str, Any] = {
        "age": [30, 40, 50, 60, 70, 80],
        "allergy": ["yes", "no", "no", None, "yes", "no"],
        "action": ["wait", "penicillin", "other", "penicillin", "other", "wait"],
        "reward": [0.0, 1.0, 0.5, 1.0, 0.2, 0.1],
    }
    return pa.table(columns | changed)


FORBID = ("penicillin if allergy == 'yes'",)


def forbidden(logs: Trajectories, action: str = "penicillin") -> list[float]:
    column: list[float] = logs.contexts[:, logs.feature_names.index(f"{action} forbidden")].tolist()
    return column


def test_a_feature_says_where_an_action_is_forbidden_or_may_be() -> None:
    logs = read_logs(table(), forbid=FORBID)
    assert forbidden(logs) == [1, 0, 0, 0.5, 1, 0]
    assert any("not known in 1 row, 1 of them with it" in note for note in logs.notes)
    assert forbidden(read_logs(table(), forbid=["penicillin if allergy == 'yes' and not missing(allergy)"]))[3] == 0
    assert logs.schema is not None
    assert TableSchema.from_json(logs.schema.to_json()) == logs.schema
    again = read_logs(logs.to_table())
    assert again.schema == logs.schema
    assert (again.contexts == logs.contexts).all()


def test_the_columns_of_a_condition_need_be_no_context() -> None:
    logs = read_logs(table(), context=["age"], forbid=FORBID)
    assert logs.feature_names == ("age", "penicillin forbidden")
    later = read_logs(table(), layout=LogLayout(context=("age",), forbid=FORBID).fixed(logs))
    assert (later.contexts == logs.contexts).all()


def test_allowed_actions_as_text_and_as_lists() -> None:
    cells = ["wait", "wait;penicillin", "other; wait", "penicillin", "other", "wait,other"]
    as_text = read_logs(table(open=cells), allowed="open")
    as_lists = read_logs(
        table(open=[[name.strip() for name in cell.replace(";", ",").split(",")] for cell in cells]), allowed="open"
    )
    assert as_text.feature_names[-3:] == ("other forbidden", "penicillin forbidden", "wait forbidden")
    assert (as_text.contexts == as_lists.contexts).all()
    assert forbidden(as_text) == [1, 0, 1, 0, 1, 1]
    assert forbidden(as_text, "wait") == [0, 0, 0, 1, 1, 0]


def test_both_limits_together() -> None:
    cells = ["wait;penicillin", "penicillin", "other", "penicillin,wait", "other", "wait"]
    logs = read_logs(table(open=cells), allowed="open", forbid=FORBID)
    assert forbidden(logs) == [1, 0, 1, 0.5, 1, 1]


def test_a_log_that_breaks_its_own_rule_is_told_so() -> None:
    with pytest.raises(
        InputError, match=r"'penicillin' was taken where it is forbidden .* in 1 row, first row 1: corr"
    ):
        read_logs(table(action=["penicillin", "penicillin", "other", "penicillin", "other", "wait"]), forbid=FORBID)
    with pytest.raises(
        InputError, match=r"'other' was taken where it is forbidden .not in open. in 2 rows, first row 3"
    ):
        read_logs(table(open=["wait;penicillin"] * 6), allowed="open")


def test_a_row_in_which_nothing_is_known_to_be_allowed_is_refused_in_a_log() -> None:
    with pytest.raises(InputError, match="no action is known to be allowed in 1 row, first row 2: fill in 'open'"):
        read_logs(table(open=["wait;other;penicillin", None, *["wait;other;penicillin"] * 4]), allowed="open")


@pytest.mark.parametrize(
    ("forbid", "problem"),
    [
        ("penicillin", "says no condition"),
        ("aspirin if age > 10", "'aspirin', which is no action"),
        ("penicillin if weight > 10", "column 'weight' is missing"),
        ("penicillin if allergy > 'no'", "compared by < or > in 6 rows"),
        ("penicillin if age == 'old'", "compared with text in 6 rows, first row 1: compare it with numbers"),
        ("penicillin if allergy + 1 > 2", "not a number"),
        ("penicillin if reward > 5", "asks about column 'reward', not known before the decision"),
        ("penicillin if action == 'other'", "asks about column 'action', not known before the decision"),
    ],
)
def test_what_cannot_be_forbidden_is_said(forbid: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read_logs(table(), forbid=[forbid])


def test_a_text_that_differs_by_capitals_or_blanks_may_be_meant() -> None:
    """Else a new case with 'Yes' would be handed what is forbidden where it says 'yes'."""
    spelled = ["yes", "Yes", " yes", "no", None, "NO"]
    for condition, levels in {
        "allergy == 'yes'": [1, 0.5, 0.5, 0, 0.5, 0],
        "allergy in ('yes', 'Yes')": [1, 1, 0.5, 0, 0.5, 0],
        "allergy != 'no'": [1, 1, 1, 0, 0.5, 0.5],
        "allergy == 'yes' and age > 35": [0, 0.5, 0.5, 0, 0.5, 0],
    }.items():
        acts = ["wait", *["other"] * 2, *["penicillin"] * 3]
        logs = read_logs(table(allergy=spelled, action=acts), forbid=[f"penicillin if {condition}"])
        assert forbidden(logs) == levels, condition


def test_yes_and_no_are_compared_with_nothing_else() -> None:
    """Anything else would be taken for a no, and forbid where nobody meant to."""
    ill = [True, False, False, None, True, False]
    assert forbidden(read_logs(table(ill=ill), forbid=["penicillin if ill == ' Yes'"])) == [1, 0, 0, 0.5, 1, 0]
    for condition in ("ill == 'heavily'", "ill and ill != 'ja'"):
        with pytest.raises(InputError, match=r"yes and no, and compared with other text .*: compare it with 'yes' or"):
            read_logs(table(ill=ill), forbid=[f"penicillin if {condition}"])


def test_a_text_that_never_occurs_is_noted() -> None:
    logs = read_logs(table(), forbid=["penicillin if allergy == 'Yes'"])
    assert any("no row of the log has 'Yes' in column 'allergy'" in note for note in logs.notes)


def test_dates_codes_and_truths_are_read_from_csv_as_from_parquet(tmp_path: Path) -> None:
    more = {
        "born": [date(1990, 1, 1)] * 3 + [date(2020, 5, 1)] * 3,
        "code": [7, 8, 7, 8, 8, 8],
        "ill": [True, False, False, None, True, False],
    }
    forbid = ("penicillin if born > '2019-01-01' and code == '7'", "other if ill and not missing(ill) and code == 9")
    pa.csv.write_csv(table(**more), tmp_path / "logs.csv")
    for one in (table(**more), tmp_path / "logs.csv"):
        assert forbidden(read_logs(one, forbid=forbid)) == [0] * 6
        assert forbidden(read_logs(one, context=["age"], forbid=["wait if ill and code == 8"]), "wait") == [
            *(0, 0, 0, 0.5, 1, 0)
        ]


def test_a_later_csv_file_is_read_with_the_limits_of_the_first(tmp_path: Path) -> None:
    """The columns of limits are no context, and both text and what may be a time: named twice, asked for once."""
    more = {"born": [date(1990, 1, 1)] * 3 + [date(2020, 5, 1)] * 3, "ill": [True, False, False, None, True, False]}
    pa.csv.write_csv(table(**more), tmp_path / "logs.csv")
    for forbid in (*FORBID, "penicillin if born > '2019-01-01' and age > 99", "penicillin if ill and age > 99"):
        first = read_logs(tmp_path / "logs.csv", context=["age"], forbid=[forbid])
        later = read_logs(tmp_path / "logs.csv", layout=LogLayout().fixed(first))
        assert later.feature_names == first.feature_names
        np.testing.assert_array_equal(later.contexts, first.contexts)


def test_real_valued_actions_are_refused() -> None:
    with pytest.raises(InputError, match="need a finite set of actions"):
        LogLayout(action=("dose", "rate"), forbid=("dose if age > 1",))


def test_layouts_without_limits_are_written_as_before() -> None:
    assert not {"allowed", "forbid"} & LogLayout().to_json().keys()
    kept = LogLayout(allowed="open", forbid=FORBID)
    assert LogLayout.from_json(kept.to_json()) == kept


def test_later_rows_without_the_columns_of_limits_are_refused() -> None:
    logs = read_logs(table(), context=["age"], forbid=FORBID)
    with pytest.raises(InputError, match="'allergy' is missing"):
        read_logs(table().drop_columns(["allergy"]), layout=LogLayout().fixed(logs))
