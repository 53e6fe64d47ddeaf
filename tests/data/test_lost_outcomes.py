"""Tables whose outcomes were not all seen, rows after the end, and one row for each case."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import poela
from poela.core.errors import InputError
from poela.data.losses import dependence


def table(**changes: Any) -> pa.Table:
    columns: dict[str, Any] = {
        "episode": ["a", "a", "b", "b", "c"],
        "step": [0, 1, 0, 1, 0],
        "age": [50, 50, 60, 60, 70],
        "action": ["wait", "treat", "treat", "wait", "treat"],
        "reward": [None, 1.0, None, None, 3.0],
    }
    return pa.table({**columns, **changes})


def test_missing_outcomes_are_described_and_not_to_be_dropped() -> None:
    with pytest.raises(InputError) as caught:
        poela.read_logs(table())
    (problem,) = caught.value.problems
    assert "1 of 3 episodes (33%) have no outcome" in problem
    assert "missing='censored'" in problem
    assert "drop" not in problem


def test_missing_outcomes_are_lost_where_that_is_said() -> None:
    logs = poela.read_logs(table(), missing="censored")
    assert logs.lost is not None
    assert logs.lost.tolist() == [False, True, False]
    assert logs.rewards.tolist() == [0, 1, 0, 0, 3]
    assert any("1 of 3 episodes (33%) have no outcome" in note for note in logs.notes)
    assert "1 lost" in repr(logs)


def test_a_column_says_who_was_lost() -> None:
    logs = poela.read_logs(
        table(reward=[0.0, 1.0, 0.5, None, 3.0], gone=["no", "no", "no", "yes", "no"]), censored="gone"
    )
    assert logs.lost is not None
    assert logs.lost.tolist() == [False, True, False]
    assert logs.rewards.tolist() == [0, 1, 0.5, 0, 3]
    assert logs.feature_names == ("age",)


def test_a_record_that_goes_on_did_not_break_off() -> None:
    with pytest.raises(InputError, match="says that a record broke off which goes on in 1 row, first row 1"):
        poela.read_logs(table(reward=[0.0] * 5, gone=[1, 0, 0, 0, 0]), censored="gone")


def test_a_column_of_loss_must_say_yes_or_no() -> None:
    with pytest.raises(InputError, match="is not yes or no"):
        poela.read_logs(table(reward=[0.0] * 5, gone=[0.5, 0, 0, 0, 0]), censored="gone")


def test_a_gap_in_the_middle_is_still_wrong() -> None:
    changed = table(episode=["a", "a", "a", "b", "c"], step=[0, 1, 2, 0, 0], reward=[1.0, None, 2.0, 0.0, 3.0])
    with pytest.raises(InputError, match="null, NaN or infinite in 1 row, first row 2: fill it in"):
        poela.read_logs(changed, missing="censored")


def test_lost_episodes_survive_a_table(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    logs = poela.read_logs(table(), missing="censored")
    pq.write_table(logs.to_table(), tmp_path / "logs.parquet")
    again = poela.read_logs(tmp_path / "logs.parquet")
    assert again.lost is not None
    assert again.lost.tolist() == [False, True, False]
    assert again.feature_names == logs.feature_names


def test_rows_after_the_end_are_left_out() -> None:
    logs = poela.read_logs(table(reward=[0.0, 1.0, 0.0, 2.0, 3.0], died=[1, 0, 0, 0, 1]), end="died")
    assert logs.lengths.tolist() == [1, 2, 1]
    assert any("1 row after the end" in note for note in logs.notes)
    assert logs.feature_names == ("age",)


def test_a_horizon_cuts_later_rows_and_later_losses() -> None:
    logs = poela.read_logs(table(reward=[0.0, 1.0, 5.0, None, 3.0]), missing="censored", horizon=0)
    assert logs.lengths.tolist() == [1, 1, 1]
    assert logs.lost is None
    assert logs.returns().tolist() == [0, 5, 3]


def test_a_horizon_of_dates_counts_days() -> None:
    import datetime

    days = [datetime.date(2020, 1, day) for day in (1, 20, 5, 9, 3)]
    logs = poela.read_logs(table(reward=[0.0] * 5, step=days), horizon=7)
    assert logs.lengths.tolist() == [1, 2, 1]


WIDE = {"id": [1, 2], "age": [50, 60], "dose_1": ["low", "high"], "dose_2": ["high", None], "bp_1": [90.0, 80.0]}
WIDE |= {"bp_2": [95.0, None], "alive": [1.0, 0.0]}


def test_a_wide_table_is_recognised_and_read() -> None:
    with pytest.raises(InputError, match="one row for each case, with columns by visit: say --wide"):
        poela.read_logs(pa.table(WIDE), episode="id", action="dose", reward="alive")
    wide = ["dose_{visit}", "bp_{visit}"]
    logs = poela.read_logs(pa.table(WIDE), episode="id", action="dose", reward="alive", wide=wide)
    assert logs.lengths.tolist() == [2, 1]
    assert logs.feature_names == ("age", "bp")
    assert logs.contexts[:, 1].tolist() == [90, 95, 80]
    assert logs.returns().tolist() == [1, 0]  # not once for each visit
    assert any("'alive', which is not by visit, counts once, at the last visit" in note for note in logs.notes)


def test_outcomes_by_visit_add_up_and_a_cost_of_the_case_counts_once() -> None:
    columns = WIDE | {"well_1": [1.0, 2.0], "well_2": [4.0, None], "fee": [10.0, 20.0]}
    wide = ["dose_{visit}", "bp_{visit}", "well_{visit}"]
    reward = "well - fee"
    logs = poela.read_logs(pa.table(columns).drop(["alive"]), episode="id", action="dose", reward=reward, wide=wide)
    assert logs.returns().tolist() == [1 + 4 - 10, 2 - 20]


def test_wide_columns_that_are_not_there_are_named() -> None:
    with pytest.raises(InputError, match="no column is called like"):
        poela.read_logs(pa.table(WIDE), episode="id", action="dose", reward="alive", wide=["drug_{visit}"])


def test_dependence_on_the_action_is_pearsons_test() -> None:
    from scipy.stats import chi2_contingency

    gone, cases = np.array([12, 30, 7]), np.array([80, 90, 60])
    expected = chi2_contingency([gone, cases - gone], correction=False).pvalue
    assert dependence(gone, cases) == pytest.approx(expected, rel=1e-9)


def test_one_column_cannot_say_that_a_record_ended_and_broke_off() -> None:
    with pytest.raises(InputError, match="end= and censored= name the same column"):
        poela.read_logs(table(reward=[0.0] * 5, died=[0, 1, 0, 0, 1]), end="died", censored="died")


def test_a_guarded_outcome_does_not_matter_where_the_case_was_lost() -> None:
    kidney = [None, 0.0, None, None, 1.0]
    logs = poela.read_logs(table(kidney=kidney), missing="censored", side_outcomes=["kidney"])
    assert logs.lost is not None
    assert logs.lost.tolist() == [False, True, False]
    assert logs.outcome("kidney").tolist() == [0, 0, 0, 0, 1]
    flagged = table(reward=[0.0, 1.0, 0.5, None, 3.0], gone=[0, 0, 0, 1, 0], kidney=kidney)
    again = poela.read_logs(flagged, censored="gone", side_outcomes=["kidney"])
    assert again.outcome("kidney").tolist() == [0, 0, 0, 0, 1]


def test_a_case_without_its_guarded_outcome_alone_is_lost_and_named() -> None:
    kidney = [None, 0.0, None, None, None]
    logs = poela.read_logs(table(kidney=kidney), missing="censored", side_outcomes=["kidney"])
    assert logs.lost is not None
    assert logs.lost.tolist() == [False, True, True]
    assert any("1 more episode has no 'kidney' in the last row: counted as lost" in note for note in logs.notes)


def test_a_blank_guarded_outcome_is_described_and_not_to_be_dropped() -> None:
    changed = table(reward=[0.0, 1.0, 0.5, 0.0, 3.0], kidney=[0.0, 0.0, 0.0, None, 1.0])
    with pytest.raises(InputError) as caught:
        poela.read_logs(changed, side_outcomes=["kidney"])
    (problem,) = caught.value.problems
    assert "column 'kidney' is null" in problem
    assert "1 of 3 episodes (33%) have no outcome" in problem
    assert "missing='censored'" in problem
    assert "drop" not in problem


def visits(**changes: Any) -> pa.Table:
    """a dies at step 1, b reaches step 2, c stops at step 1 and d at 0: both are cut off."""
    columns: dict[str, Any] = {
        "episode": ["a", "a", "b", "b", "b", "c", "c", "d"],
        "step": [0, 1, 0, 1, 2, 0, 1, 0],
        "age": [50, 50, 60, 60, 60, 70, 70, 80],
        "action": ["wait", "treat", "treat", "wait", "wait", "wait", "treat", "treat"],
        "reward": [0.0, 1.0, 0.5, 0.0, 2.0, 3.0, 4.0, 5.0],
        "died": [0, 1, 0, 0, 0, 0, 0, 0],
    }
    return pa.table({**columns, **changes})


def test_a_record_that_stops_before_its_end_and_the_horizon_is_lost() -> None:
    logs = poela.read_logs(visits(), end="died", horizon=2, missing="censored")
    assert logs.lost is not None
    assert logs.lost.tolist() == [False, False, True, True]
    assert logs.feature_names == ("age",)
    told = "2 of 4 episodes (50%) stop before the horizon of 2 without 'died': 67% after treat, 0% after wait"
    assert any(note.startswith(told) and note.endswith("they count as lost") for note in logs.notes)


def test_such_a_record_is_noted_where_nothing_is_said_of_loss() -> None:
    logs = poela.read_logs(visits(), end="died", horizon=2)
    assert logs.lost is None
    assert any("stop before the horizon of 2" in note and "--missing censored" in note for note in logs.notes)
    without = poela.read_logs(visits(), end="died", missing="censored")
    assert without.lost is None
    assert any("3 of 4 episodes (75%) stop without 'died'" in note and "horizon=" in note for note in without.notes)


def test_a_column_of_loss_is_joined_with_records_that_stop() -> None:
    gone = [0, 0, 1, 1, 1, 0, 0, 0]  # b was lost after the horizon of 1, in all its rows
    logs = poela.read_logs(visits(gone=gone), end="died", horizon=1, missing="censored", censored="gone")
    assert logs.lost is not None
    assert logs.lost.tolist() == [False, False, False, True]


def test_rows_after_an_end_that_was_not_named_are_noted() -> None:
    died = [1, 0, 0, 1, 0, 0, 0, 0]
    logs = poela.read_logs(visits(died=died))
    assert any("2 rows come after the first 1 of column 'died'" in note and "--end died" in note for note in logs.notes)
    at_the_end = poela.read_logs(visits())
    throughout = poela.read_logs(visits(died=[1, 1, 0, 0, 0, 1, 1, 0]))
    assert not any("'died'" in note for note in (*at_the_end.notes, *throughout.notes))


def test_a_wide_table_without_any_part_named_is_recognised() -> None:
    with pytest.raises(InputError, match=r"one row for each case, with columns by visit, say --wide 'NAME_\{visit\}"):
        poela.read_logs(pa.table(WIDE))
    with pytest.raises(InputError, match=r"say --wide 'dose_\{visit\}, bp_\{visit\}'"):
        poela.read_logs(pa.table(WIDE), episode="id", reward="alive")


def test_csv_files_with_a_named_context_say_who_was_lost_and_where_an_end_was_not_named(tmp_path: Path) -> None:
    """The columns that say so are neither labels nor context: they are read when they are asked for."""
    rows = {"episode": [1, 1, 2, 2], "step": [0, 1, 0, 1], "age": [5.0, 5.0, 6.0, 6.0], "action": ["a", "b", "b", "a"]}
    more = {"reward": [1.0, 2.0, 3.0, 4.0], "lost": [0, 1, 0, 0], "died": [0, 0, 1, 0]}
    pa.csv.write_csv(pa.table(rows | more), tmp_path / "logs.csv")
    logs = poela.read_logs(tmp_path / "logs.csv", context=["age"], censored="lost")
    assert logs.lost is not None
    assert logs.lost.tolist() == [True, False]
    assert any("'died'" in note for note in poela.read_logs(tmp_path / "logs.csv", context=["age"]).notes)
