"""Problems in the words of the command line: what is called `propensity=` in Python is `--propensity` here."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

# Which page of the docs helps: with a command, and with an error.

OF_COMMANDS = {
    "simulate": ("start/first-study",),
    "learn": ("guides/studies", "guides/tables", "start/answer"),
    "evaluate": ("guides/evaluation", "intervals"),
    "plan": ("guides/studies",),
    "export": ("guides/serving",),
    "serve": ("guides/serving",),
    "decide": ("guides/deciding",),
    "watch": ("guides/watching",),
    "report": ("guides/report",),
    "reproduce": ("reproduction",),
    "studies": ("guides/studies", "start/answer"),
}
# The first that matches: what is rarer comes first.
OF_ERRORS = (
    (r"pip install", "start/install"),
    (r"propensit", "guides/logging-policy"),
    (r"radius|eligible", "guides/eligibility"),
    (r"learner|candidate|\[\[grid\]\]", "guides/learners"),
    (r"column|\brows?\b|separator|decimal", "guides/tables"),
)


def docs(command: str) -> str:
    """What stands below the help of a command.

    >>> docs("report")
    'Docs: guides/report'
    """
    return f"Docs: {', '.join(OF_COMMANDS[command])}"


def page_for(problems: Iterable[str]) -> str | None:
    """The page that helps with the first of these problems for which there is one.

    >>> page_for(["a.csv has no column 'step': name it with --step"]), page_for(["interrupted"])
    ('guides/tables', None)
    """
    found = (page for problem in problems for pattern, page in OF_ERRORS if re.search(pattern, problem))
    return next(found, None)


# What settings are called in the library, where their flags have another name.
FLAGS = {"by": "choose-by", "test_share": "test", "actions": "layout", "side_outcomes": "guard"}
# Remedies that only Python has.
REMEDIES = {
    "name their column, or estimate them with a behavior model (annotate)": "name their column with propensity=",
    "averages a model that you give: pass q with a method q(trajectories)": "averages a model, which can be given in "
    "Python alone: choose another",
}


def flags_of(command: Any, arguments: Sequence[str]) -> frozenset[str]:
    """The flags, without dashes, of the command that these arguments name."""
    for word in arguments:
        if word not in getattr(command, "commands", {}):
            break
        command = command.commands[word]
    return frozenset(name[2:] for option in command.params for name in option.opts if name.startswith("--"))


def in_flags(problem: str, flags: frozenset[str], *, by_file: bool = False) -> str:
    """The problem with flags in the place of Python's arguments; `by_file`: a layout file names the columns.

    >>> flags = frozenset({"propensity", "min-ess", "layout"})
    >>> in_flags("name another with propensity=", flags)
    'name another with --propensity'
    >>> in_flags("name another with propensity=", flags, by_file=True)
    'name another with propensity in the --layout file'
    >>> in_flags("min_ess is -1: it must be at least 0; give steps (steps=...)", flags)
    '--min-ess is -1: it must be at least 0; give steps (in Python: steps=...)'
    >>> in_flags("column 'action' is missing: add it, or name another with action=", flags)
    "column 'action' is missing: add it, or name another with action= in Python"
    >>> in_flags("name another with side_outcomes=", frozenset({"guard"}))
    'name another with --guard'
    """
    for in_python, here in REMEDIES.items():
        problem = problem.replace(in_python, here)

    def flag(match: re.Match[str]) -> str:
        name = match[1]
        own = FLAGS.get(name, name.replace("_", "-"))
        if own not in flags and match.string[: match.start()].endswith(" with "):
            return f"{match[0]} in Python"
        if own not in flags:
            return f"in Python: {match[0]}"
        if name == "actions" or (by_file and name in _layout_fields()):
            return f"{name} in {'the' if by_file else 'a'} --layout file"
        return f"--{own}"

    problem = re.sub(r"(?<![\w-])([a-z_]+)=(?:\.\.\.|(?=[\s,;:.)]|$))", flag, problem)
    return re.sub(r"^([a-z_]+)(?= (?:is|was|has|must) )", lambda match: _subject(match[0], flags), problem)


def _subject(name: str, flags: frozenset[str]) -> str:
    """A setting that a sentence begins with, as its flag where it has one."""
    own = FLAGS.get(name, name.replace("_", "-"))
    return f"--{own}" if own in flags and name != "actions" else name


def _layout_fields() -> set[str]:
    from dataclasses import fields

    from poela.data.layout import LogLayout

    return {field.name for field in fields(LogLayout)}
