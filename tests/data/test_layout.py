"""Layouts: found by default names, written and read back, and clear about what does not fit."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poela import InputError, LogLayout, Trajectories

COLUMNS = ["episode", "step", "x", "action", "reward"]


def problem(**fields: Any) -> str:
    with pytest.raises(InputError) as error:
        LogLayout(**fields)
    return str(error.value)


def test_columns_without_another_part_are_the_context() -> None:
    resolved = LogLayout(episode="stay", reward="alive").resolve(["x", "stay", "alive", "step", "y", "action"])
    assert resolved.context == ("x", "y")
    assert resolved.propensity is None


def test_propensities_are_never_context_unless_named() -> None:
    columns = [*COLUMNS, "propensity", "propensity_score", "p"]
    assert LogLayout(propensity="p").resolve(columns).context == ("x",)
    named = LogLayout(context=("propensity_score",), propensity="p").resolve(columns)
    assert named.context == ("propensity_score",)


def test_full_propensities_follow_declared_actions() -> None:
    layout = LogLayout(actions=(1, 0))
    resolved = layout.resolve([*COLUMNS, "propensity_0", "propensity_1"])
    assert resolved.propensity == ("propensity_1", "propensity_0")
    assert layout.problems([*COLUMNS, "propensity_0"]) == [
        "columns propensity_<action> are missing for 1 of 2 actions: add them, or name others with propensity="
    ]


def test_an_action_without_a_name_in_the_layout_is_told() -> None:
    found = LogLayout(actions=("a",)).problems([*COLUMNS, "propensity_a", "propensity_b"])
    assert found == [
        "'propensity_b' could be propensities too, beside 'propensity_a': "
        "say with propensity= which to use, or declare those actions"
    ]


@pytest.mark.parametrize("actions", [("a", "b"), (0, 5), (False, True), None])
def test_json_keeps_everything(actions: Any) -> None:
    written: dict[str, Any] = {"separator": "\t", "decimal": ",", "encoding": "latin-1"}
    layout = LogLayout("a", "b", "c", "d", context=("x", "y"), propensity="p", actions=actions, **written)
    back = LogLayout.from_json(json.loads(json.dumps(layout.to_json())))
    assert back == layout
    assert [type(name) for name in back.actions or ()] == [type(name) for name in actions or ()]


def test_numpy_names_become_plain_ones() -> None:
    logs = Trajectories([[0.5]], [0], [0], [0, 1], action_names=np.array([3, 4]), feature_names=np.array(["x"]))  # type: ignore[arg-type]
    layout = LogLayout(actions=tuple(np.array([3, 4])))
    assert json.loads(json.dumps(layout.to_json()))["actions"] == [3, 4]
    assert json.loads(json.dumps(LogLayout().fixed(logs).to_json()))["context"] == ["x"]


def test_toml(tmp_path: Path) -> None:
    path = tmp_path / "layout.toml"
    path.write_text('episode = "stay"\ncontext = ["age", "sofa"]\n[propensity]\nwait = "p0"\ntreat = "p1"\n')
    assert LogLayout.from_toml(path) == LogLayout(
        episode="stay", context=("age", "sofa"), propensity=("p0", "p1"), actions=("wait", "treat")
    )


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("episode = ", "{path} cannot be read as TOML"),
        (
            'episode = "a"\nepisode = "b"\n',
            "{path} cannot be read as TOML: line 2, column 14 gives a key a second time;",
        ),
        ('episode = "a"\nepisode = "b"', "{path} cannot be read as TOML: its last line gives a key a second time;"),
        ("[propensity]\n[propensity]\n", "{path} cannot be read as TOML: line 2, column 12 gives a key a second time;"),
        ('episode = "a', "{path} cannot be read as TOML: its last line is not as it should be;"),
        ('episodes = "stay"', "a layout has no field 'episodes'"),
        ("episode = 3", "episode= must name a column"),
        ("context = [1, 2]", "context= must name columns"),
        ("propensity = 2", "propensity= must name columns"),
        ("actions = [1.5]", "actions= must hold text, whole numbers or booleans"),
        ('actions = ["a", "a"]', "actions= names an action twice"),
        ('actions = ["a"]\npropensity = ["p", "q"]', "2 propensity columns stand for 1 actions"),
        ('actions = ["a"]\n[propensity]\nb = "p"', "propensity and actions name different actions"),
    ],
)
def test_bad_toml(text: str, start: str, tmp_path: Path) -> None:
    path = tmp_path / "layout.toml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        LogLayout.from_toml(path)
    assert str(error.value).startswith(start.format(path=path))


def test_what_is_no_layout(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        LogLayout.from_toml(tmp_path / "none.toml")
    with pytest.raises(InputError, match="must be an object"):
        LogLayout.from_json(["episode"])


def test_one_name_is_one_column_not_its_letters() -> None:
    layout = LogLayout.from_json({"context": "age"})
    assert layout.context == ("age",)
    assert "give a column for each action" in problem(propensity={"a": "p"}, actions=("a", "b"))
