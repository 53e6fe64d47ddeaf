"""Reading logs: the same log from every kind of source, labels of every type, rows in any order."""

import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.data.log_files import SOURCES, Write, csv, parquet

from poela import InputError, LogLayout, Trajectories, read_logs
from poela.data.opening import open_source
from poela.data.sources import BATCH_ROWS

ROWS = pa.table(
    {
        "episode": ["p2", "p1", "p1", "p2", "p3"],
        "step": [1, 0, 1, 0, 0],
        "age": pa.array([0.5, 1.25, 2.5, 3.75, -1.0], pa.float32()),
        "sofa": pa.array([1, 2, 3, 4, 5], pa.int16()),
        "action": ["treat", "wait", "treat", "wait", "wait"],
        "reward": [1.0, 2.0, 3.0, 4.0, 5.0],
    }
)


@pytest.mark.parametrize("write", SOURCES.values(), ids=list(SOURCES))
def test_every_source_gives_the_same_logs(write: Write, tmp_path: Path) -> None:
    logs = read_logs(write(ROWS, tmp_path))
    np.testing.assert_array_equal(
        logs.contexts, np.array([[1.25, 2], [2.5, 3], [3.75, 4], [0.5, 1], [-1, 5]], np.float32)
    )
    assert logs.actions.tolist() == [1, 0, 1, 0, 1]
    assert logs.action_names == ("treat", "wait")
    assert logs.rewards.tolist() == [2, 3, 4, 1, 5]
    assert logs.offsets.tolist() == [0, 2, 4, 5]
    assert logs.feature_names == ("age", "sofa")
    assert logs.episode_ids is not None
    assert logs.episode_ids.tolist() == ["p1", "p2", "p3"]
    assert logs.propensities is None


def test_arrays_are_read_only() -> None:
    logs = read_logs(ROWS)
    for array in (logs.contexts, logs.actions, logs.rewards, logs.offsets):
        assert not array.flags.writeable


def with_column(name: str, values: Any) -> pa.Table:
    column = values if isinstance(values, pa.Array) else pa.array(values)
    position = ROWS.column_names.index(name) if name in ROWS.column_names else ROWS.num_columns
    kept = ROWS.drop_columns([name]) if name in ROWS.column_names else ROWS
    return kept.add_column(position, name, column)


STEPS = {
    "floats": [1.5, 0.5, 1.5, 0.25, 0.0],
    "negative": [1, -3, 1, -7, 0],
    "times": np.array(["2020-01-02", "2020-01-01", "2020-01-09", "2020-01-01", "2020-01-01"], "datetime64[s]"),
    "dates": pa.array([18263, 18262, 18270, 18262, 18262], pa.date32()),
    "dictionary of times": pa.array([9, 8, 9, 7, 1], pa.timestamp("s")).dictionary_encode(),
    "durations": np.array([5, 1, 2, 3, 4], "timedelta64[ms]"),
    "unsigned": pa.array([2**64 - 1, 2**64 - 3, 2**64 - 2, 0, 0], pa.uint64()),
    "decimals": pa.array(["1.5", "0.5", "1.5", "0.2", "0.0"]).cast(pa.decimal128(5, 2)),
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=list(STEPS))
def test_steps_of_any_sortable_type(steps: Any) -> None:
    assert read_logs(with_column("step", steps)).rewards.tolist() == [2, 3, 4, 1, 5]


def test_steps_sort_as_numbers_not_as_text(tmp_path: Path) -> None:
    table = pa.table({"episode": [1] * 3, "step": [10, 9, 100], "x": [1, 2, 3], "action": [0] * 3, "reward": [1, 2, 3]})
    assert read_logs(csv(table, tmp_path)).rewards.tolist() == [2, 1, 3]


IDS: dict[str, Any] = {
    "integers": [20, 3, 3, 20, 100],
    "unsigned": pa.array([2**63 + 5, 3, 3, 2**63 + 5, 2**64 - 1], pa.uint64()),
    "floats": [2.0, 1.5, 1.5, 2.0, 3.0],
    "half precision": np.array([2.0, 1.5, 1.5, 2.0, 3.0], np.float16),
    "binary views": pa.array([b"b", b"a", b"a", b"b", b"c"], pa.binary_view()),
    "uuids": [str(uuid.UUID(int=number)) for number in (2, 1, 1, 2, 3)],
    "binary uuids": pa.array([uuid.UUID(int=number).bytes for number in (2, 1, 1, 2, 3)], pa.uuid()),
    "dictionary": pa.array(["b", "a", "a", "b", "c"]).dictionary_encode(),
    "dictionary with repeats and leftovers": pa.DictionaryArray.from_arrays(
        pa.array([4, 1, 2, 0, 3]), pa.array(["b", "a", "a", "c", "b", "unused"])
    ),
    "times": np.array([2, 1, 1, 2, 3], "datetime64[s]"),
    "booleans": [True, False, False, True, True],
}


@pytest.mark.parametrize("ids", IDS.values(), ids=list(IDS))
def test_episode_ids_of_any_type(ids: Any) -> None:
    table = with_column("episode", ids).set_column(1, "step", pa.array([1, 0, 1, 0, 9]))
    logs = read_logs(table)
    assert logs.rewards.tolist() == [2, 3, 4, 1, 5]
    assert logs.n_episodes == len(set(table["episode"].to_pylist()))


def test_ids_with_leading_zeros_in_csv_stay_apart(tmp_path: Path) -> None:
    (tmp_path / "logs.csv").write_text("episode,step,x,action,reward\n001,0,1,0,1\n1,0,2,1,2\n")
    logs = read_logs(tmp_path / "logs.csv")
    assert logs.episode_ids is not None
    assert logs.episode_ids.tolist() == ["001", "1"]


ACTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "integers": ([7, -1, 7, -1, 3], (-1, 3, 7)),
    "whole floats": ([7.0, -1.0, 7.0, -1.0, 3.0], (-1, 3, 7)),
    "half precision": (pa.array(np.array([7, -1, 7, -1, 3], np.float16)), (-1, 3, 7)),
    "booleans": ([True, False, True, False, False], (False, True)),
    "text": (["b", "a", "b", "a", "c"], ("a", "b", "c")),
    "digits as text": (["10", "9", "10", "9", "9"], ("10", "9")),
    "dictionary": (pa.array(["b", "a", "b", "a", "c"]).dictionary_encode(), ("a", "b", "c")),
    "dictionary of numbers": (pa.array([5, 4, 5, 4, 4]).dictionary_encode(), (4, 5)),
}


@pytest.mark.parametrize(("values", "names"), ACTIONS.values(), ids=list(ACTIONS))
def test_action_names_are_the_sorted_values_that_occur(values: Any, names: tuple[Any, ...], tmp_path: Path) -> None:
    table = with_column("action", values)
    logs = read_logs(parquet(table, tmp_path))
    assert logs.action_names == names
    assert [type(name) for name in logs.action_names] == [type(name) for name in names]
    in_order = [table["action"].to_pylist()[row] for row in (1, 2, 3, 0, 4)]
    assert [logs.action_names[action] for action in logs.actions] == in_order


@pytest.mark.parametrize(
    "actions",
    [pd.Categorical(list("babac"), categories=list("zcba")), pl.Series(list("babac"), dtype=pl.Enum(list("zcba")))],
    ids=["pandas", "polars"],
)
def test_categories(actions: Any) -> None:
    columns = {name: ROWS[name].to_pylist() for name in ROWS.column_names if name != "action"}
    frame = pd.DataFrame(columns) if isinstance(actions, pd.Categorical) else pl.DataFrame(columns)
    frame = frame.assign(action=actions) if isinstance(frame, pd.DataFrame) else frame.with_columns(action=actions)
    assert read_logs(frame).action_names == ("a", "b", "c")


CSV_ACTIONS = {"whole": ("10,9,9", (9, 10)), "truth": ("true,False,true", (False, True)), "text": ("1,b,b", ("1", "b"))}


@pytest.mark.parametrize(("cells", "names"), CSV_ACTIONS.values(), ids=list(CSV_ACTIONS))
def test_actions_of_a_csv_file_have_the_type_that_all_of_them_fit(
    cells: str, names: tuple[Any, ...], tmp_path: Path
) -> None:
    rows = [f"1,{step},0.5,{cell},1" for step, cell in enumerate(cells.split(","))]
    (tmp_path / "logs.csv").write_text("episode,step,x,action,reward\n" + "\n".join(rows) + "\n")
    found = read_logs(tmp_path / "logs.csv").action_names
    assert [(type(name), name) for name in found] == [(type(name), name) for name in names]


def test_declared_text_keeps_the_digits_of_a_csv_file_text(tmp_path: Path) -> None:
    (tmp_path / "logs.csv").write_text("episode,step,x,action,reward\n1,0,1,2,1\n1,1,2,1,2\n")
    assert read_logs(tmp_path / "logs.csv", actions=["1", "2", "3"]).action_names == ("1", "2", "3")
    assert read_logs(tmp_path / "logs.csv", actions=[2, 1]).actions.tolist() == [0, 1]


def test_declared_actions_keep_their_order_and_the_unused() -> None:
    logs = read_logs(ROWS, actions=["wait", "rest", "treat"])
    assert logs.action_names == ("wait", "rest", "treat")
    assert logs.actions.tolist() == [0, 2, 0, 2, 0]


def test_one_propensity_column_by_name_and_by_default() -> None:
    table = with_column("p", [0.1, 0.2, 0.3, 0.4, 1.0])
    logs = read_logs(table, propensity="p")
    assert logs.feature_names == ("age", "sofa")
    assert logs.propensities is not None
    assert logs.propensities.tolist() == [0.2, 0.3, 0.4, 0.1, 1.0]
    renamed = table.rename_columns([*table.column_names[:-1], "propensity"])
    np.testing.assert_array_equal(read_logs(renamed).logged_propensities, logs.propensities)


def full(names: tuple[str, ...]) -> pa.Table:
    table = ROWS
    for weight, name in enumerate(names, start=1):
        table = table.append_column(name, pa.array([weight / 6] * 5))
    return table


@pytest.mark.parametrize("source", ["table", "csv", "pandas", "polars", "parquet"])
def test_propensity_columns_declare_their_actions(source: str, tmp_path: Path) -> None:
    table = full(("propensity_wait", "propensity_rest", "propensity_treat"))
    logs = read_logs(SOURCES[source](table, tmp_path))
    assert logs.action_names == ("wait", "rest", "treat")
    assert logs.propensities is not None
    np.testing.assert_allclose(logs.propensities, np.tile([1 / 6, 2 / 6, 3 / 6], (5, 1)), rtol=1e-12)
    assert logs.feature_names == ("age", "sofa")


@pytest.mark.parametrize("source", ["table", "csv"])
def test_propensity_columns_of_numbered_actions(source: str, tmp_path: Path) -> None:
    table = full(("propensity_2", "propensity_0", "propensity_1"))
    table = table.set_column(table.column_names.index("action"), "action", pa.array([2, 0, 2, 0, 0]))
    assert read_logs(SOURCES[source](table, tmp_path)).action_names == (2, 0, 1)


def test_propensities_by_mapping_and_by_list() -> None:
    table = full(("a", "b", "c"))
    mapped = read_logs(table, propensity={"wait": "a", "treat": "c", "rest": "b"})
    assert mapped.action_names == ("wait", "treat", "rest")
    np.testing.assert_allclose(mapped.logged_propensities, [1 / 6, 3 / 6, 1 / 6, 3 / 6, 1 / 6])
    listed = read_logs(table, propensity=["a", "b", "c"], actions=["wait", "rest", "treat"])
    np.testing.assert_allclose(listed.logged_propensities, mapped.logged_propensities)


def test_context_columns_in_the_order_asked_for_and_the_step_among_them() -> None:
    logs = read_logs(ROWS, context=["sofa", "step"])
    assert logs.feature_names == ("sofa", "step")
    assert logs.contexts.tolist() == [[2, 0], [3, 1], [4, 0], [1, 1], [5, 0]]


def test_numbers_of_every_kind_are_features() -> None:
    table = with_column("flag", [True, False, True, True, False])
    table = table.append_column("price", pa.array(["1.5"] * 5).cast(pa.decimal128(5, 2)))
    table = table.append_column("half", pa.array(np.full(5, 0.5, np.float16)))
    table = table.append_column("coded", pa.array([3, 4, 3, 4, 3]).dictionary_encode())
    logs = read_logs(table, context=["flag", "price", "half", "coded"])
    assert logs.contexts[0].tolist() == [0, 1.5, 0.5, 4]


def test_names_of_parquet_columns_with_dots(tmp_path: Path) -> None:
    table = with_column("age.max", [9.0] * 5)
    assert read_logs(parquet(table, tmp_path), context=["age"]).contexts[:, 0].tolist() == [1.25, 2.5, 3.75, 0.5, -1]


def test_many_batches_shuffled_read_like_sorted(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 20_000
    table = pa.table(
        {
            "episode": np.arange(n) // 7,
            "step": np.arange(n) % 7,
            "x": rng.normal(size=n),
            "action": rng.integers(0, 3, n),
            "reward": rng.normal(size=n),
        }
    )
    straight = read_logs(table)
    mixed = read_logs(parquet(table.take(pa.array(rng.permutation(n))), tmp_path))
    np.testing.assert_array_equal(straight.contexts[:, 0], table["x"].to_numpy().astype(np.float32))
    np.testing.assert_array_equal(mixed.contexts, straight.contexts)
    np.testing.assert_array_equal(mixed.actions, straight.actions)
    np.testing.assert_array_equal(mixed.offsets, straight.offsets)


def test_cells_of_a_csv_file_may_change_their_look_late(tmp_path: Path) -> None:
    n = 60_000  # more than the first block, whose types a reader may take for granted
    rows = [f"7,{step},1,{step % 2},0" for step in range(n)]
    rows[-1] = f"7,{n}.5,2.5,1,0.25"
    (tmp_path / "logs.csv").write_text("episode,step,flag,action,reward\n" + "\n".join(rows) + "\n")
    logs = read_logs(tmp_path / "logs.csv")
    assert (logs.n_steps, logs.contexts[-1, 0], logs.rewards[-1]) == (n, 2.5, 0.25)
    rows = [f"7,{step},true,{step % 2},0" for step in range(9)]
    (tmp_path / "logs.csv").write_text("episode,step,flag,action,reward\n" + "\n".join(rows) + "\n")
    assert read_logs(tmp_path / "logs.csv").contexts.tolist() == [[1]] * 9


def test_a_layout_reads_another_log_into_the_same_shape() -> None:
    train = read_logs(ROWS, actions=["wait", "treat", "rest"])
    layout = LogLayout.from_json(LogLayout().fixed(train).to_json())
    other_order = ROWS.select(["reward", "sofa", "action", "age", "episode", "step"])
    test = read_logs(other_order, layout=layout)
    assert test.feature_names == train.feature_names
    assert test.action_names == train.action_names
    np.testing.assert_array_equal(test.contexts, train.contexts)


def test_columns_are_named_once() -> None:
    with pytest.raises(InputError, match="either a layout or names"):
        read_logs(ROWS, layout=LogLayout(), episode="episodes")


def test_to_table_writes_what_read_logs_reads(tmp_path: Path) -> None:
    logs = Trajectories(
        contexts=[[0.1], [0.2], [0.3]],
        actions=[2, 0, 0],
        rewards=[0.1, 0.2, 0.3],
        offsets=[0, 2, 3],
        propensities=[0.1, 0.2, 0.3],
        action_names=["z", "never", "a"],
        feature_names=["dose"],
        episode_ids=["x", "y"],
    )
    assert logs.to_table().column_names == ["episode", "step", "dose", "action", "reward", "propensity"]
    back = read_logs(parquet(logs.to_table(), tmp_path))
    assert back.action_names == ("z", "never", "a")
    np.testing.assert_array_equal(back.actions, logs.actions)


def test_stale_names_of_actions_are_no_declaration() -> None:
    kept = Trajectories([[0.1]], [0], [0], [0, 1], action_names=["old"]).to_table().schema.metadata
    assert read_logs(ROWS.replace_schema_metadata(kept)).action_names == ("treat", "wait")
    assert read_logs(ROWS.replace_schema_metadata({b"poela.actions": b"{"})).action_names == ("treat", "wait")


@pytest.mark.parametrize("name", ["action", "propensity_a", ""])
def test_a_feature_with_the_name_of_another_column_is_not_written(name: str) -> None:
    logs = Trajectories([[0.1]], [0], [0], [0, 1], feature_names=[name])
    with pytest.raises(InputError, match="rename"):
        logs.to_table()


def test_reading_does_not_import_torch(tmp_path: Path) -> None:
    code = "import sys, poela; print(poela.read_logs(sys.argv[1])); sys.exit('torch' in sys.modules)"
    command = [sys.executable, "-c", code, str(parquet(ROWS, tmp_path))]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0


def test_a_parquet_file_is_read_in_blocks_that_do_not_depend_on_its_row_groups(tmp_path: Path) -> None:
    """Several blocks are decoded at once; rows are those of the table, in blocks of the same size."""
    n = 5 * BATCH_ROWS + 17
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {"episode": rng.permutation(n), "x": rng.normal(size=n).astype(np.float32)}
    columns |= {"ward": rng.choice(["a", "b"], n), "action": rng.integers(0, 2, n), "reward": rng.normal(size=n)}
    table = pa.table(columns)
    pq.write_table(table, tmp_path / "logs.parquet", row_group_size=2 * BATCH_ROWS + 5)
    source = open_source(tmp_path / "logs.parquet", LogLayout(), ())
    for names in (["x", "reward"], ["x", "ward"]):  # text is decoded block by block
        blocks = list(source.batches(names))
        assert max(map(len, blocks)) == BATCH_ROWS
        assert pa.Table.from_batches(blocks).equals(table.select(names))
    ours, whole = read_logs(tmp_path / "logs.parquet"), read_logs(table)
    for name in ("contexts", "actions", "rewards", "offsets"):
        assert np.array_equal(getattr(ours, name), getattr(whole, name))
