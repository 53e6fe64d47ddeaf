"""Logs with real-valued actions: what they promise, and tables of them."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from poela import InputError, Trajectories, read_logs
from poela.data.action_space import Box, finite_actions
from poela.data.layout import LogLayout


def logs(**more: Any) -> Trajectories:
    rng = np.random.default_rng(0)
    given: dict[str, Any] = {
        "contexts": rng.normal(size=(7, 2)),
        "actions": rng.normal(size=(7, 2)),
        "rewards": rng.normal(size=7),
        "offsets": [0, 3, 4, 7],
        "log_densities": rng.normal(size=7),
        "feature_names": ["age", "sofa"],
        "action_names": ["dose", "rate"],
        **more,
    }
    return Trajectories(**given)


def test_parts_and_returns_are_those_of_the_arrays() -> None:
    whole = logs(clusters=["a", "b", "a"])
    part = whole.take([2, 0])
    np.testing.assert_array_equal(part.actions, whole.actions[[4, 5, 6, 0, 1, 2]])
    np.testing.assert_array_equal(part.log_densities, np.asarray(whole.log_densities)[[4, 5, 6, 0, 1, 2]])
    np.testing.assert_allclose(part.returns(0.5)[1], whole.rewards[:3] @ [1, 0.5, 0.25])
    assert (part.n_units, whole.n_units, part.action_names) == (1, 2, ("dose", "rate"))
    first, second = whole.split((0.5, 0.5), seed=0)
    assert {first.n_episodes, second.n_episodes} == {1, 2}  # clusters stay whole


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"actions": np.zeros(7)}, r"these must have shape \(7, columns\)"),
        ({"actions": np.full((7, 2), np.nan)}, "7 actions hold NaN or infinity"),
        ({"log_densities": np.full(7, -np.inf)}, "7 log densities are NaN or infinite"),
        ({"log_densities": np.zeros(6)}, r"log_densities must have shape \(7,\)"),
        ({"action_names": ["dose"]}, "action_names must be 2 different names"),
        ({"offsets": [0, 3, 3, 7]}, "offsets must increase"),
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        logs(**wrong)


def same(read: Any, ours: Trajectories) -> None:
    assert read.action_space == ours.action_space == Box(read.action_names)
    for name in ("contexts", "actions", "rewards", "offsets", "log_densities"):
        np.testing.assert_array_equal(getattr(read, name), getattr(ours, name))
    assert (read.feature_names, read.action_names) == (ours.feature_names, ours.action_names)


def test_a_table_is_read_back_without_naming_columns(tmp_path: Path) -> None:
    ours = logs(clusters=[0, 1, 1], estimated=True)
    read = read_logs(ours.to_table())
    same(read, ours)
    assert (read.n_units, read.estimated) == (2, True)
    pyarrow.csv.write_csv(ours.to_table(), tmp_path / "logs.csv")
    same(read_logs(tmp_path / "logs.csv", action=["dose", "rate"], cluster="cluster"), ours)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("dose", 1e200, "column 'dose' is beyond 1e+60 in 1 row, first row 4"),
        ("lp", 800.0, "column 'lp' is no log density that a logged action can have in 1 row, first row 4"),
        ("lp", -999.0, "column 'lp' is no log density that a logged action can have in 1 row, first row 4"),
    ],
)
@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_numbers_that_cannot_be_are_refused(column: str, value: float, said: str, unit: float) -> None:
    rng = np.random.default_rng(0)
    doses = rng.normal(size=40)
    table: dict[str, list[float]] = {
        "episode": list(range(40)),
        "step": [0] * 40,
        "x": rng.normal(size=40).tolist(),
        "dose": (doses * unit).tolist(),
        "lp": (-0.5 * doses**2 - np.log(unit)).tolist(),
        "reward": rng.normal(size=40).tolist(),
    }
    assert read_logs(table, action="dose", log_density="lp").n_steps == 40
    table[column][3] = value
    with pytest.raises(InputError, match=re.escape(said)):
        read_logs(table, action="dose", log_density="lp")


def test_one_column_with_a_log_density_is_real() -> None:
    table = pa.table({"age": [1, 2, 3], "dose": [1, 2, 3], "reward": [0, 1, 0], "lp": [-1.0, -2.0, -0.5]})
    read = read_logs(table, action="dose", log_density="lp")
    np.testing.assert_array_equal(read.actions, [[1], [2], [3]])
    np.testing.assert_array_equal(read.log_propensities, [-1.0, -2.0, -0.5])
    assert read.feature_names == ("age",)
    later = read_logs(table, layout=LogLayout(reward="reward").fixed(read))  # without being told of the density
    assert later.log_densities is None


@pytest.mark.parametrize("as_text", [False, True])
def test_doses_with_decimals_are_taken_as_numbers(tmp_path: Path, as_text: bool) -> None:
    table: Any = pa.table({"age": [1, 2, 3, 4], "action": [0.5, 1.25, 3.0, 2.1], "reward": [0, 1, 0, 1]})
    if as_text:
        pyarrow.csv.write_csv(table, tmp_path / "doses.csv")
        table = tmp_path / "doses.csv"
    read = read_logs(table)
    assert read.actions.ravel().tolist() == [0.5, 1.25, 3.0, 2.1]
    assert any("column 'action' holds numbers with decimals" in note for note in read.notes)


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({"action": ["dose", "ward"]}, "column 'ward' is text, not a number"),
        ({"action": ["dose", "nothing"]}, "column 'nothing' is missing"),
        ({"action": ["dose", "dose"]}, "action= must name a column, or several different ones"),
        ({"action": ["dose"], "propensity": "lp"}, "name a log_density="),
        ({"action": ["gap"]}, "column 'gap' is null, NaN or infinite in 1 row"),
    ],
)
def test_columns_that_cannot_be_actions(named: dict[str, Any], words: str) -> None:
    table = pa.table(
        {"age": [1, 2], "dose": [0.1, 0.2], "ward": ["a", "b"], "gap": [0.5, None], "lp": [0.5, 0.5], "reward": [0, 1]}
    )
    with pytest.raises(InputError, match=words):
        read_logs(table, **named)


def test_what_needs_a_finite_set_says_so() -> None:
    with pytest.raises(InputError, match="a forest needs a finite set of actions, and these logs have real numbers"):
        finite_actions(logs(), "a forest")
