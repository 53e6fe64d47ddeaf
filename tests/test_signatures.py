"""Signatures of the public functions say what may be given: no bare `Any`, nothing in the words of the command line."""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import poela

# Options of simulators are their own; data of other packages have no types here.
OPEN = {"simulate.options", "from_minari.dataset", "to_minari.details"}
# What texts stand for on the command line alone.
OF_THE_COMMAND_LINE = {
    "shares",
    "returns",
    "cap",
    "after",
    "by",
    "logged_by",
    "guards",
    "time",
    "choose_by",
    "validation",
}


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in poela._HOME:
        thing = getattr(poela, name)
        if inspect.isfunction(thing):
            yield name, thing
    for name, thing in inspect.getmembers(poela.Study, inspect.isfunction):
        if not name.startswith("_"):
            yield f"Study.{name}", thing


@pytest.mark.parametrize(("name", "function"), [pytest.param(*one, id=one[0]) for one in functions()])
def test_every_parameter_has_a_true_type(name: str, function: Callable[..., Any]) -> None:
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self" or f"{name}.{parameter.name}" in OPEN:
            continue
        assert parameter.annotation is not inspect.Parameter.empty, parameter
        assert parameter.annotation not in (Any, "Any", Path, Path | None), parameter
        assert parameter.kind is not inspect.Parameter.VAR_KEYWORD, parameter


def test_learn_takes_what_python_has_for_the_texts_of_the_command_line() -> None:
    parameters = inspect.signature(poela.learn).parameters
    for name in OF_THE_COMMAND_LINE:
        assert parameters[name].annotation not in (str, str | None, list[str], Path | None), parameters[name]


def test_defaults_are_those_of_the_settings() -> None:
    evaluated = inspect.signature(poela.evaluate).parameters
    assert {name: evaluated[name].default for name in ("estimator", "level", "seed")} == {
        "estimator": poela.Scoring().estimator,
        "level": poela.Scoring().level,
        "seed": poela.Scoring().seed,
    }
    watched = inspect.signature(poela.watch).parameters
    assert watched["horizon"].default == poela.WatchPlan().horizon
    reported = inspect.signature(poela.Study.report).parameters
    for name, hint in get_type_hints(poela.PageOptions).items():
        assert reported[name].default == getattr(poela.PageOptions(), name)
        assert reported[name].annotation == hint
