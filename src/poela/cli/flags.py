"""Flags of commands, made of the settings that they stand for: a setting says once what it is."""

import re
from collections.abc import Callable, Collection
from typing import Annotated, Any, get_origin

import typer

from poela.cli import columns
from poela.core.options import F, OptionSpec, with_keywords, with_options

# Whatever `columns` declares is a flag of every command that reads logs.
COLUMNS = {
    re.sub("(?<!^)(?=[A-Z])", "_", name).lower(): kind
    for name, kind in vars(columns).items()
    if get_origin(kind) is Annotated
}


def flags(*groups: Any) -> Callable[[F], F]:
    """A command that takes `**settings`, with a flag for each option of these groups."""
    return with_options(*groups, annotate=lambda offered: _annotation(offered, offered.option.section))


def some_flags(names: Collection[str], *groups: Any) -> Callable[[F], F]:
    """The same for a few options alone, without sections."""
    return with_options(*groups, annotate=lambda offered: _annotation(offered, None), only=names)


def column_flags(command: F) -> F:
    """A command that takes `**settings`, with the flags that describe a log among them."""
    return with_keywords(command, {name: (annotation, None) for name, annotation in COLUMNS.items()})


def layout_in(settings: dict[str, Any]) -> Any:
    """The layout that the flags describe, which are taken out of the settings; None where nothing was said."""
    return columns.layout_of(**{name: settings.pop(name, None) for name in COLUMNS})


def _annotation(offered: OptionSpec, section: str | None) -> Any:
    names = [f"--{offered.name.replace('_', '-')}"] if offered.kind is bool else []
    names = names if offered.option.flag is None else [offered.option.flag]
    return Annotated[offered.kind, typer.Option(*names, rich_help_panel=section, help=offered.option.help)]
