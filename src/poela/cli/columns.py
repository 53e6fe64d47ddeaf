"""How a log file is described on the command line: flags, or a small TOML file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from poela.core.errors import InputError
from poela.core.options import names_in

if TYPE_CHECKING:
    from poela.data.layout import LogLayout

PANEL = "Columns of the log (needed only where they have other names)"

Episode = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="Column that tells episodes (patients, users, …) apart. Default: episode, or every row where neither that "
        "nor step is there.",
    ),
]
Step = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="Column with the order of decisions within an episode; rows: as they stand. Default: step.",
    ),
]
Action = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="Column with the decision that was taken; or several, separated by commas, of real numbers such as doses. "
        "Default: action.",
    ),
]
Reward = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        help='Column with what came of it: a number, higher is better; or a formula: "survived - 0.01*cost". It may be '
        "blank before the last row of an episode. Default: reward.",
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="Columns, separated by commas, with what was known before the decision. Default: all others.",
    ),
]
Propensity = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="Column with the probability that the decision had when it was taken, if that was logged; or one such "
        "column for each action, separated by commas: p_wait,p_treat for wait and treat or, where names do not tell, "
        "wait=first,treat=second. Estimated where there is none.",
    ),
]
LogDensity = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="Where the decision is a real number: column with the log of its density when it was taken, if that was "
        "logged. Estimated where there is none.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="Column with what several episodes belong to, such as the patient of several stays: these are kept "
        "together. Default: each episode stands for itself.",
    ),
]
Missing = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="What becomes of gaps in the context: indicator (the median, and a feature that says so), carry-forward "
        "(the last value of the episode; else the same) or refuse. Default: indicator. With censored, alone or after a "
        "comma, an outcome that is missing at the end was not seen, and those seen make up for it by their chance.",
    ),
]
Censored = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="Column that is 1 where a record broke off before its outcome was seen: those seen make up for it.",
    ),
]
End = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="Column that is 1 where an episode ended (death, discharge): rows after that are left out.",
    ),
]
Horizon = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="Outcomes count up to this step, or of dates up to so many days after the first: later rows are left out.",
    ),
]
Wide = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="Where the table has one row for each case: its columns by visit, as dose_{visit}, pressure_{visit}; the "
        "action is then called dose.",
    ),
]
Category = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL, help="Columns of numbers that are codes, separated by commas: each a category."
    ),
]
Ordinal = Annotated[
    list[str] | None,
    typer.Option(
        rich_help_panel=PANEL, help="A column of text with an order, the lowest first: severity=low<mid<high."
    ),
]
Origin = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL, help="The date that times count from, in days. Default: the first of their episode."
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL, help="What stands between the cells of a CSV file, or tab. Default: as its header shows."
    ),
]
Decimal = Annotated[
    str | None, typer.Option(rich_help_panel=PANEL, help="What stands before the decimals in a CSV file. Default: .")
]
Encoding = Annotated[
    str | None,
    typer.Option(rich_help_panel=PANEL, help="Encoding of a CSV file, e.g. latin-1 or utf-16. Default: utf-8."),
]
Layout = Annotated[
    Path | None,
    typer.Option(
        rich_help_panel=PANEL,
        help='TOML file that says all this instead, e.g. episode = "stay" and context = ["age"].',
    ),
]


def layout_of(
    layout: Path | None,
    *,
    action: str | None = None,
    context: str | None = None,
    propensity: str | None = None,
    separator: str | None = None,
    category: str | None = None,
    ordinal: list[str] | None = None,
    wide: str | None = None,
    **named: str | float | None,
) -> "LogLayout | None":
    """The layout that the flags (called as its fields) or the file describe; None where nothing was said.

    >>> layout_of(None, episode="stay", context="age, sofa", separator="tab", decimal=None)
    LogLayout(episode='stay', ... context=('age', 'sofa'), ... separator='\\t', decimal='.', ...)
    """
    from poela.data.layout import LogLayout

    flags: dict[str, object] = {name: value for name, value in named.items() if value is not None}
    if action is not None:
        columns = names_in(action)
        flags["action"] = action if len(columns) == 1 else columns
    if context is not None:
        flags["context"] = names_in(context)
    if propensity is not None:
        flags["propensity"] = propensity_in(propensity)
    if separator is not None:
        flags["separator"] = "\t" if separator in ("tab", "\\t") else separator
    if category is not None:
        flags["category"] = names_in(category)
    if wide is not None:
        flags["wide"] = names_in(wide)
    if ordinal:
        flags["ordinal"] = orders_in(ordinal)
    if layout is not None:
        if flags:
            raise InputError(f"--layout and {', '.join(f'--{name}' for name in flags)} both describe the log: use one")
        return LogLayout.from_toml(layout)
    return LogLayout(**flags) if flags else None  # type: ignore[arg-type]


def propensity_in(text: str) -> str | tuple[str, ...] | dict[str, str]:
    """A column, several, or a column for each action that is named.

    >>> propensity_in("chance"), propensity_in("p_wait,p_treat"), propensity_in("treat=p_2, wait=p_1")
    ('chance', ('p_wait', 'p_treat'), {'treat': 'p_2', 'wait': 'p_1'})
    """
    columns = names_in(text)
    if len(columns) == 1:
        return columns[0]
    if not any("=" in column for column in columns):
        return columns
    pairs = [tuple(part.strip() for part in column.rpartition("=")[::2]) for column in columns]
    named = {action: column for action, column in pairs if action and column}
    if len(named) < len(columns):
        raise InputError("--propensity must name each action once, with its column: treat=p_2,wait=p_1")
    return named


def orders_in(texts: list[str]) -> dict[str, tuple[str, ...]]:
    """Columns and the orders of their values.

    >>> orders_in(["severity=low < mid<high"])
    {'severity': ('low', 'mid', 'high')}
    """
    wrong = [text for text in texts if "=" not in text or "<" not in text]
    if wrong:
        raise InputError("--ordinal must name a column and its values, the lowest first: severity=low<mid<high")
    pairs = (text.split("=", 1) for text in texts)
    return {name.strip(): tuple(value.strip() for value in order.split("<")) for name, order in pairs}
