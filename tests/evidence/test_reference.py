"""Every setting is described where it is, and `help` and the site say the same."""

import dataclasses
import inspect
import re

import pytest
import typer
from scripts.site.docstrings import meanings_of, parameters_of, settings_table, since_of

import poela
from poela.cli.application import app
from poela.core.options import in_python

PUBLIC = {name: getattr(poela, name) for name in poela._HOME}
SETTINGS = {name: kind for name, kind in PUBLIC.items() if isinstance(kind, type) and dataclasses.is_dataclass(kind)}


@pytest.mark.parametrize("name", SETTINGS)
def test_every_public_setting_is_described(name: str) -> None:
    """If this fails: a comment beside the field says what it is."""
    meanings = meanings_of(SETTINGS[name])
    assert [one for one in parameters_of(SETTINGS[name]) if len(meanings.get(one, "")) < 4] == []


def test_a_table_of_settings_has_types_defaults_and_versions() -> None:
    rows = settings_table(poela.POELA).splitlines()
    assert len(rows) == 2 + len(parameters_of(poela.POELA))
    cells = {row.split("|")[1].strip(" `"): [cell.strip() for cell in row.split(" | ")[1:]] for row in rows[2:]}
    assert cells["steps"][:2] == ["`int`", "`500`"]
    assert cells["discount"][:2] == ["`float`", "`1.0`"]
    assert cells["learning_rate"][-1].strip("| ") == "0.1"


def test_a_setting_of_no_list_is_of_this_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poela, "__version__", "7.5.1")
    assert since_of("POELA", "one that was never there") == "7.5"


def test_help_of_learn_says_what_every_parameter_is() -> None:
    told = dict(re.findall(r"(?m)^    {0,4}(\w+): (.+)", inspect.getdoc(poela.learn) or ""))
    parameters = inspect.signature(poela.learn).parameters
    assert len(parameters) > 40
    assert [name for name in parameters if len(told.get(name, "")) < 10] == []
    assert "help(poela.learn)" not in (poela.learn.__doc__ or "")


def test_help_of_the_library_and_of_the_command_line_agree() -> None:
    command = typer.main.get_command(app).commands["learn"]  # type: ignore[attr-defined]
    said = " ".join((inspect.getdoc(poela.learn) or "").split())
    for name in ("restarts", "min_ess", "sensitivity", "time", "folds"):
        (option,) = (one for one in command.params if f"--{name.replace('_', '-')}" in one.opts)
        assert f"{name}: {in_python(option.help)}" in said
