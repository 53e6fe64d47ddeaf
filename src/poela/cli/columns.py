"""How a log file is described on the command line: flags, or a small TOML file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from poela.core.errors import InputError
from poela.core.options import names_in

if TYPE_CHECKING:
    from poela.data.layout import LogLayout

PANEL = "Columns of the log (only if they have other names)"

Episode = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="Column with the episode id (patient, user, …). Default: episode; if the log has neither that nor step, "
        "each row is an episode.",
    ),
]
Step = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="Column with the order of decisions within an episode; rows: the order of the rows. Default: step.",
    ),
]
Action = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="Column with the decision (treatment, arm). Several columns, separated by commas, for real-valued actions "
        "such as doses. Default: action.",
    ),
]
Reward = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        help='Column with the outcome: a number, higher is better; or a formula: "survived - 0.01*cost". May be blank '
        "before the last row of an episode. Default: reward.",
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="Columns known before the decision (covariates), separated by commas. Default: all others.",
    ),
]
Propensity = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="Column with the logged probability of the decision (propensity); or one column for each action, with "
        "commas: p_wait,p_treat or, if names do not match, wait=first,treat=second. Estimated if not given.",
    ),
]
LogDensity = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="For real-valued actions: column with the logged log density of the decision. Estimated if not given.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="Column with the cluster id, e.g. the patient of several stays. Episodes of a cluster stay in one fold "
        "and count together in intervals. Default: each episode is its own.",
    ),
]
Missing = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="Missing context values: indicator (the median, and an indicator feature), carry-forward (the last value "
        "of the episode; before the first, as indicator) or refuse. Default: indicator. Add censored (alone or after a "
        "comma) if a missing final outcome means that it was not observed: weights correct for the loss.",
    ),
]
Censored = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="Column that is 1 if follow-up ended before the outcome was observed: weights correct for the loss.",
    ),
]
End = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="Column that is 1 where an episode ended (death, discharge): later rows are dropped.",
    ),
]
Horizon = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="Last step (or, if steps are dates, number of days after the first) that counts: later rows are dropped.",
    ),
]
Wide = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="For tables with one row per case: the columns that repeat by visit, e.g. dose_{visit}, pressure_{visit}; "
        "they are then called dose and pressure.",
    ),
]
Category = Annotated[
    str | None,
    typer.Option(rich_help_panel=PANEL, help="Columns of numeric codes to treat as categories, separated by commas."),
]
Ordinal = Annotated[
    list[str] | None,
    typer.Option(
        rich_help_panel=PANEL, help="Ordered categories of a text column, lowest first: severity=low<mid<high."
    ),
]
Origin = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="Date from which days are counted in date columns. Default: the first date of the episode.",
    ),
]
Allowed = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="Column with the actions allowed in each case, e.g. wait;treat (or a list in Parquet): no policy takes "
        "another one.",
    ),
]
Forbid = Annotated[
    list[str] | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="Action that no policy may take where a condition on columns holds (or may hold, if values are missing): "
        "\"penicillin if allergy == 'yes'\". Repeatable.",
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL, help="Field separator of a CSV file, or tab. Default: detected from the header."
    ),
]
Decimal = Annotated[str | None, typer.Option(rich_help_panel=PANEL, help="Decimal separator of a CSV file. Default: .")]
Encoding = Annotated[
    str | None,
    typer.Option(rich_help_panel=PANEL, help="Encoding of a CSV file, e.g. latin-1 or utf-16. Default: utf-8."),
]
Layout = Annotated[
    Path | None,
    typer.Option(
        rich_help_panel=PANEL,
        help='TOML file with these settings instead, e.g. episode = "stay" and context = ["age"].',
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
    forbid: list[str] | None = None,
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
    if forbid:
        flags["forbid"] = tuple(forbid)
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
