"""The page of commands, made from the commands themselves."""

import inspect
from collections import defaultdict
from typing import Any

import typer

from poela.cli.application import app

HEAD = """# Commands

Made from the commands themselves: `poela COMMAND --help` says the same. Exit codes are 0 (done), 1 (could not) and 2
(bad input or usage). With `--json`, where it is listed, a command prints one JSON document.
"""


def commands_page() -> str:
    """The page, in Markdown."""
    return HEAD + "".join(_of(command, path) for path, command in _leaves(typer.main.get_command(app), "poela"))


def _leaves(command: Any, path: str) -> list[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        return [(path, command)]
    return [leaf for name, one in inner.items() for leaf in _leaves(one, f"{path} {name}")]


def _of(command: Any, path: str) -> str:
    panels: dict[str, list[Any]] = defaultdict(list)
    for parameter in command.params:
        if not getattr(parameter, "hidden", False) and parameter.name != "help":
            panels[getattr(parameter, "rich_help_panel", None) or "Arguments and options"].append(parameter)
    about = (
        inspect.cleandoc(command.help or "")
        .replace("Example: ", "Example:\n\n    ")
        .replace("The next round: ", "The next round:\n\n    ")
        .replace("Afterwards: ", "Afterwards:\n\n    ")
    )
    tables = "".join(
        f"\n**{panel}**\n\n| option | meaning |\n|---|---|\n{''.join(map(_row, rows))}"
        for panel, rows in panels.items()
    )
    return f"\n## {path}\n\n{about}\n{tables}"


def _row(parameter: Any) -> str:
    is_option = parameter.param_type_name == "option"
    words = [*parameter.opts, *parameter.secondary_opts] if is_option else [parameter.name]
    name = ", ".join(f"`{word}`" for word in words)
    told = " ".join((getattr(parameter, "help", None) or "").split()).replace("|", "\\|")
    default = parameter.default
    if parameter.required:
        told += " *Needed.*"
    elif isinstance(default, str | int | float) and not isinstance(default, bool) and default != "":
        told += f" *Default: {default}.*"
    return f"| {name} | {told} |\n"
