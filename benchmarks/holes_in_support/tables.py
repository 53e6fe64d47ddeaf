"""Tables of rows: what studies claim and what is true, what a rule costs where there is no hole, and a page of them."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from poela.core.errors import InputError
from poela.core.files import atomic_file
from poela_experiments.frame.results import markdown_rows

from .compare import comparison
from .rows import kind_of, read_rows
from .studies import Row

COLUMNS = (
    *("scenario", "cases", "variant", "learners", "logs", "claims", "false", "(as judged)", "harmful", "shown", "true"),
    *("shown per log", "in the hole", "promising: true", "promising: in the hole", "barred", "seconds"),
)
COST_COLUMNS = ("scenario", "cases", "learners", "variant", "logs", "shown per log", "without a rule", "difference")
WITHOUT = "norule"
COMPARE = "compare"  # the part of a page that compares learners and rules


def table(rows: Iterable[Row]) -> str:
    """Markdown: a line for each kind of study, then all scenarios of a variant and size together.

    Shown and true are means over claims; *shown per log* counts 0 where nothing is claimed. *False* is a claim above
    the truth of the policy that is handed back (*as judged*: of those of the folds, too), *harmful* a recommended
    policy that is worse than practice, *in the hole* how often the recommended policy takes there what nobody took,
    *barred* the share of held-out logged decisions that its rule does not allow.
    """
    rows = [*rows]
    whole = [row for row in rows if "error" not in row]
    lines = markdown_rows([*COLUMNS], [_line(*group) for group in _grouped(whole, kind_of)])
    together = [pooled(kind, group) for kind, group in _grouped(whole, lambda row: kind_of(row)[1:])]
    costs = [_cost(*pair) for pair in _with_and_without(whole)]
    beside = ["", *markdown_rows([*COST_COLUMNS], costs)] if costs else []
    failed = [f"- {len(rows) - len(whole)} studies failed and are left out."] if len(whole) < len(rows) else []
    mixed = [kind for kind, group in _grouped(whole, kind_of) if len({row.get("code") for row in group}) > 1]
    versions = [f"- {len(mixed)} lines mix rows of several versions of the code."] if mixed else []
    return "\n".join([*lines, "", *together, *failed, *versions, *beside])


def pooled(kind: Sequence[Any], rows: Sequence[Row]) -> str:
    """One line on all scenarios together."""
    claims, false, harmful = (sum(row[name] for row in rows) for name in ("claimed", "false", "harmful"))
    n, variant, learners = kind
    return (
        f"- {variant}, {n} cases, {learners} learners: {len(rows)} logs, {claims} claims; above the truth {false}, "
        f"{_share(false, len(rows))} of logs, {_share(false, claims)} of claims; harmful {harmful}, "
        f"{_share(harmful, len(rows))} of logs (95% Clopper–Pearson)."
    )


def clopper_pearson(hits: int, of: int, level: float = 0.95) -> tuple[float, float]:
    """The exact interval for a share.

    >>> [round(end, 4) for end in clopper_pearson(0, 60)]  # 1 - 0.025^(1/60)
    [0.0, 0.0596]
    """
    from scipy.stats import beta

    tail = (1 - level) / 2
    low = 0.0 if hits == 0 else float(beta.ppf(tail, hits, of - hits + 1))
    high = 1.0 if hits == of else float(beta.ppf(1 - tail, hits + 1, of - hits))
    return low, high


def cost(shown: Sequence[float], without: Sequence[float]) -> str:
    """By how much the shown gain differs from that without a rule, log by log, as a share of the latter.

    >>> cost([0.97, 0.97], [1.0, 1.0])
    '-3.0% ± 0.0%'
    """
    base, apart = fmean(without), np.subtract(shown, without)
    if not base or len(apart) < 2:
        return ""
    return f"{apart.mean() / base:+.1%} ± {apart.std(ddof=1) / np.sqrt(len(apart)) / base:.1%}"


def _share(hits: int, of: int) -> str:
    if not of:
        return "none"
    low, high = clopper_pearson(hits, of)
    return f"{hits / of:.1%} [{low:.1%}, {high:.1%}]"


def _line(kind: Sequence[Any], rows: Sequence[Row]) -> list[str]:
    claims = [row for row in rows if row["claimed"]]
    cells = [
        *(*kind, len(rows), len(claims)),
        *(sum(row["false"] for row in rows), sum(map(_false_as_judged, rows)), sum(row["harmful"] for row in rows)),
        *(_mean(claims, "shown"), _mean(claims, "true")),
        f"{fmean(map(_shown, rows)):.3f}",
        *(_mean(rows, "in_hole", "%"), _mean(rows, "promising_true")),
        *(_mean(rows, "promising_in_hole", "%"), _mean(rows, "barred", "%")),
        f"{fmean(row['seconds'] for row in rows):.0f}",
    ]
    return [*map(str, cells)]


def _false_as_judged(row: Row) -> bool:
    """Whether what the folds learned is worth less than shown, too, and not only what all cases together taught."""
    return bool(row["false"]) and row["shown"] > row["true_as_judged"]


def _shown(row: Row) -> float:
    return float(row["shown"]) if row["claimed"] else 0.0


def _with_and_without(rows: Sequence[Row]) -> Iterator[tuple[Any, list[Row], list[Row]]]:
    """For each kind of study under a rule, its rows and those without one, of the same logs."""
    by_kind = {kind: {row["seed"]: row for row in group} for kind, group in _grouped(rows, kind_of)}
    for kind, found in by_kind.items():
        name, n, variant, learners = kind
        without = by_kind.get((name, n, WITHOUT, learners), {})
        common = sorted(found.keys() & without.keys())
        if variant != WITHOUT and common:
            yield (name, n, learners, variant), [found[seed] for seed in common], [without[seed] for seed in common]


def _cost(kind: Sequence[Any], rows: Sequence[Row], without: Sequence[Row]) -> list[str]:
    shown, base = [*map(_shown, rows)], [*map(_shown, without)]
    return [*map(str, (*kind, len(rows))), f"{fmean(shown):.3f}", f"{fmean(base):.3f}", cost(shown, base)]


def _mean(rows: Sequence[Mapping[str, Any]], name: str, unit: str = "") -> str:
    known = [row[name] for row in rows if row.get(name) is not None]
    if not known:
        return ""
    return f"{fmean(known):.1%}" if unit else f"{fmean(known):.3f}"


def _grouped(rows: Sequence[Row], key: Callable[[Row], Any]) -> Iterator[tuple[Any, list[Row]]]:
    for kind, group in groupby(sorted(rows, key=key), key):
        yield kind, [*group]


PART = re.compile(r"<!-- rows: ([\w-]+) -->.*?<!-- end of rows -->", re.DOTALL)


def filled(page: str, folder: Path) -> str:
    """The page with the table of `folder/NAME` after each mark `<!-- rows: NAME -->`."""

    def part(mark: re.Match[str]) -> str:
        rows = read_rows(folder / mark[1])
        if not rows:
            raise InputError(f"there are no rows for the part {mark[1]!r} of the page")
        made = comparison(rows) if mark[1] == COMPARE else table(rows)
        return f"<!-- rows: {mark[1]} -->\n\n{made}\n\n<!-- end of rows -->"

    return PART.sub(part, page)


def fill_page(page: Path) -> None:
    """Fill a page anew from the folder of its name beside it."""
    text = filled(page.read_text(encoding="utf-8"), page.with_suffix(""))
    with atomic_file(page) as temporary:
        temporary.write_text(text, encoding="utf-8")
