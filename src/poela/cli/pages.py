"""Which page of the docs helps: with a command, and with an error."""

import re
from collections.abc import Iterable

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
