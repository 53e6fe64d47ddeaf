"""Groups of episodes: by categories, by values, by quantiles, and never so small that they tell of single persons."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poela.core.errors import InputError
from poela.data.groups import EpisodeColumn, GroupBy, binned, context_column, episode_columns, grouped, table_column
from poela.data.layout import LogLayout
from poela.data.tables import read_logs
from poela.data.trajectories import Trajectories


def stays() -> pa.Table:
    """Three stays of two steps; the ward and the pain may change, the site may not."""
    return pa.table(
        {
            "stay": ["b", "b", "a", "a", "c", "c"],
            "hour": [0, 1, 0, 1, 0, 1],
            "ward": ["ICU", "surgery", "surgery", "ICU", None, "ICU"],
            "pain": ["low", "high", "high", "high", "low", "low"],
            "age": [50.0, 51.0, None, 62.0, 70.0, 70.0],
            "site": ["north", "north", "south", "south", "north", "north"],
            "action": [0, 1, 1, 0, 0, 1],
            "reward": [0.0, 1.0, 0.0, 0.0, 1.0, 1.0],
        }
    )


LAYOUT = LogLayout(episode="stay", step="hour", context=("ward", "pain", "age"), ordinal=(("pain", ("low", "high")),))


def test_a_column_of_the_context_is_that_of_the_first_step() -> None:
    logs = read_logs(stays(), layout=LAYOUT)
    assert list(np.asarray(logs.episode_ids)) == ["a", "b", "c"]
    ward, pain, age = (context_column([logs], name) for name in ("ward", "pain", "age"))
    assert ward is not None
    assert list(ward.values) == ["surgery", "ICU", None]
    assert pain is not None
    assert list(pain.values) == ["high", "low", "low"]
    assert age is not None
    np.testing.assert_array_equal(np.asarray(age.values), [np.nan, 50.0, 70.0])
    assert context_column([logs], "site") is None
    assert context_column([logs.take([2]), logs.take([0])], "pain").values == ["low", "high"]  # type: ignore[union-attr]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_other_columns_are_read_from_the_table_by_episode(ending: str, tmp_path: Path) -> None:
    import pyarrow.csv
    import pyarrow.parquet

    path = tmp_path / f"stays.{ending}"
    (pyarrow.csv.write_csv if ending == "csv" else pyarrow.parquet.write_table)(stays(), path)
    found = episode_columns(path, LAYOUT, ["site"])
    assert found == {"site": {"a": "south", "b": "north", "c": "north"}}
    logs = read_logs(stays(), layout=LAYOUT).take([2, 0])
    assert table_column([logs], "site", found["site"], as_numbers=False).values == ["north", "south"]


def test_numbers_of_a_csv_file_are_numbers_where_quantiles_are_wanted() -> None:
    logs = Trajectories(np.zeros((4, 1)), [0] * 4, [0.0] * 4, np.arange(5), episode_ids=[3, 1, 2, 0])
    column = table_column([logs], "dose", {0: "10", 1: "2.5", 2: None, 3: "7"}, as_numbers=True)
    np.testing.assert_array_equal(np.asarray(column.values), [7.0, 2.5, np.nan, 10.0])
    assert table_column([logs], "dose", {0: "10", 1: "x"}, as_numbers=True).values == [None, "x", None, "10"]


def test_columns_that_change_within_an_episode_or_are_not_there_are_refused() -> None:
    with pytest.raises(InputError, match="'ward' changes within 2 episodes, first row 2: group by a column that is"):
        episode_columns(stays(), LAYOUT, ["ward"])
    with pytest.raises(InputError, match="no column 'city' to group by: choose from 'stay', 'hour', 'ward'"):
        episode_columns(stays(), LAYOUT, ["city"])


def test_quantiles_hold_about_as_many_each_and_equal_values_stay_together() -> None:
    values = np.random.default_rng(0).normal(size=999)
    names, place = binned(values, 3)
    assert np.bincount(place).tolist() == [333, 333, 333]
    assert values[place == 0].max() < values[place == 1].min()
    assert len(names) == 3
    names, place = binned(np.array([0.0] * 90 + [1.0] * 10), 3)
    assert names == ("up to 0", "above 0")
    assert np.bincount(place).tolist() == [90, 10]
    assert binned(np.full(5, 2.0), 3)[0] == ("2",)
    names, place = binned(np.array([0.0] * 5 + [1.0] * 5 + [2.0] * 90), 3)  # most have the largest
    assert names == ("up to 1", "above 1")
    assert np.bincount(place).tolist() == [10, 90]


def test_quantiles_of_whole_numbers_have_whole_ends() -> None:
    names, place = binned(np.arange(30.0), 4)  # quartiles at 7.25, 14.5 and 21.75
    assert names == ("up to 7", "7 to 14", "14 to 21", "above 21")
    assert np.bincount(place).tolist() == [8, 7, 7, 8]


@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=120),
    st.integers(1, 15),
    st.integers(1, 3),
)
def test_no_group_is_too_small_and_nobody_is_left_out(codes: list[int], smallest: int, episodes_each: int) -> None:
    """With clusters of several episodes, what counts are the clusters of a group."""
    units = np.arange(len(codes)) // episodes_each
    found = grouped(EpisodeColumn("site", [str(code) for code in codes]), None, units, smallest)
    cases = [len(np.unique(units[found.place == place])) for place in range(len(found.names))]
    assert len(found.names) == len(set(found.names))
    assert sorted(set(found.place.tolist())) == list(range(len(found.names)))
    if len(np.unique(units)) >= smallest:
        assert min(cases) >= smallest
    else:
        assert len(found.names) == 1
    assert bool(found.note) == (len(found.names) < len(set(codes)))


def test_what_is_merged_is_said() -> None:
    sizes = {"a": 30, "b": 20, "c": 4, "d": 3, "e": 2, "f": 1}
    column = EpisodeColumn("site", [name for name, size in sizes.items() for _ in range(size)])
    found = grouped(column, None, np.arange(60), 10)
    assert found.names == ("a", "b", "4 others")
    assert np.bincount(found.place).tolist() == [30, 20, 10]
    assert found.note == "site: 4 groups are merged, since 4 have fewer than 10 cases"


def test_columns_and_bins_are_told_apart() -> None:
    assert GroupBy.of("blood:sugar") == GroupBy("blood:sugar")
    assert GroupBy.of(" age : 4 ") == GroupBy("age", 4)
    with pytest.raises(InputError, match="'age:1' asks for 1 groups: choose from 2 to 20"):
        GroupBy.of("age:1")
    with pytest.raises(InputError, match="column 'site' is no number, so it has no quantiles"):
        grouped(EpisodeColumn("site", ["a"] * 30), 3, np.arange(30))


def test_groups_by_step_are_no_groups_of_cases() -> None:
    layout = LogLayout(episode="stay", step="hour")
    with pytest.raises(InputError, match=r"'hour' changes within 3 episodes.*poela report --by step shows changes by"):
        episode_columns(stays(), layout, ["hour"])
