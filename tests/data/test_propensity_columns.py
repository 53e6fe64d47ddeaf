"""Propensity columns belong to actions by name, or because somebody says so; never by their order."""

from itertools import permutations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from poela.cli.columns import layout_of
from poela.core.errors import InputError
from poela.data.layout import LogLayout
from poela.data.propensity_columns import columns_by_name
from poela.data.tables import read_logs

SHARES = {"treat": 0.7, "wait": 0.3}


def table(columns: dict[str, str], actions: list[object] | None = None) -> pa.Table:
    """Six rows; `columns` are those of propensities with the action that each is of."""
    chances = {column: [SHARES[action]] * 6 for column, action in columns.items()}
    taken = actions or ["treat", "wait"] * 3
    return pa.table({"age": np.arange(6.0), "action": taken, "reward": np.zeros(6), **chances})


@pytest.mark.parametrize("form", ["p_{}", "{}", "propensity_{}", "P({})", "{}_prob", "p_{}_now", "chance of {}"])
@pytest.mark.parametrize("swapped", [False, True])
def test_columns_are_matched_by_the_name_of_the_action(form: str, swapped: bool) -> None:
    columns = [form.format("wait"), form.format("treat")]
    logs = read_logs(
        table(dict(zip(columns, ["wait", "treat"], strict=True))),
        context=["age"],
        propensity=columns[::-1] if swapped else columns,
    )
    np.testing.assert_allclose(logs.logged_propensities, [0.7, 0.3] * 3)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_numbers_and_names_within_names(order: tuple[int, ...]) -> None:
    assert columns_by_name([f"p_{i}" for i in order], [0, 1, 2]) == ("p_0", "p_1", "p_2")
    assert columns_by_name([("P_WAIT", "P_TREAT", "P_REST")[i] for i in order], ["Wait", "treat", "REST"]) == (
        "P_WAIT",
        "P_TREAT",
        "P_REST",
    )
    names = ["a", "aa", "ba"]  # each within another
    assert columns_by_name([f"pa_{names[i]}" for i in order], names) == ("pa_a", "pa_aa", "pa_ba")


@pytest.mark.parametrize(
    ("columns", "actions"),
    [
        (["p_1", "p_2"], ["treat", "wait"]),
        (["p_1", "p_2"], [0, 1]),
        (["p_treat", "q_wait"], ["treat", "wait"]),
        (["Pa", "pa"], ["A", "b"]),
        (["01", "10"], [0, 1]),
    ],
)
def test_names_that_do_not_tell(columns: list[str], actions: list[object]) -> None:
    assert columns_by_name(columns, actions) is None  # type: ignore[arg-type]


def test_columns_that_do_not_tell_are_refused_with_one_sentence_and_can_be_said() -> None:
    rows = table({"p_1": "wait", "p_2": "treat"})
    with pytest.raises(InputError) as caught:
        read_logs(rows, context=["age"], propensity=["p_1", "p_2"])
    (problem,) = caught.value.problems
    assert "'p_1', 'p_2' do not tell which action" in problem
    assert "<action>=p_1,<action>=p_2" in problem
    assert "treat" not in problem  # an action is a cell
    said = read_logs(rows, context=["age"], propensity={"treat": "p_2", "wait": "p_1"})
    np.testing.assert_allclose(said.logged_propensities, [0.7, 0.3] * 3)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_on_the_command_line_and_in_toml_numbers_are_named_as_text(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"logs.{kind}"
    rows = table({"first": "treat", "second": "wait"}, [7, 3] * 3)
    (pa.csv.write_csv if kind == "csv" else pa.parquet.write_table)(rows, path)
    toml = tmp_path / "layout.toml"
    toml.write_text('propensity = {3 = "second", 7 = "first"}\n')
    for layout in (layout_of(None, propensity="3=second,7=first"), LogLayout.from_toml(toml)):
        logs = read_logs(path, layout=layout)
        assert tuple(map(str, logs.action_names)) == ("3", "7")
        np.testing.assert_allclose(logs.logged_propensities, [0.7, 0.3] * 3)


def test_pairs_that_contradict_the_names_are_refused() -> None:
    with pytest.raises(InputError, match="say another pairing"):
        LogLayout(propensity={"treat": "p_wait", "wait": "p_treat"})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="each action once"):
        layout_of(None, propensity="treat=p_2,p_1")


def test_a_study_s_layout_pairs_by_name_and_refuses_columns_that_do_not_tell() -> None:
    stored = LogLayout.from_json({"propensity": ["p_wait", "p_treat"], "actions": ["treat", "wait"]})
    assert stored.propensity == ("p_wait", "p_treat")  # as stored: its record has a fingerprint
    rows = table({"p_wait": "wait", "p_treat": "treat"})
    np.testing.assert_allclose(read_logs(rows, layout=stored).logged_propensities, [0.7, 0.3] * 3)
    with pytest.raises(InputError, match="do not tell"):
        LogLayout(propensity=("first", "second")).over(stored)
    assert LogLayout(propensity=("treat", "wait")).over(stored).propensity == ("treat", "wait")
