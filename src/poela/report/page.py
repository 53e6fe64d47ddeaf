"""From a study to one self-contained page: no network, no values of features unless asked for."""

import base64
import hashlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

from markupsafe import Markup

import poela
from poela.core.errors import InputError, PoelaWarning
from poela.core.files import atomic_file
from poela.core.paths import folder_at, is_there, new_path, place
from poela.core.progress import progress
from poela.core.temporary import OWN_FOLDER
from poela.report.blocks import Section
from poela.report.pictures.drawing import clean
from poela.report.sections.answer import answer_section
from poela.report.sections.changes import changes_section
from poela.report.sections.checklist import checklist_section
from poela.report.sections.data import data_section
from poela.report.sections.eligible import eligible_section
from poela.report.sections.ladder import ladder_section
from poela.report.sections.overfitting import overfitting_section
from poela.report.sections.reproduce import reproduce_section
from poela.report.sections.sensitivity import sensitivity_section
from poela.report.study_logs import Given, shown_policy, study_logs
from poela.report.unfinished import unfinished_sections
from poela.studies.study import Study

NO_CASES = (
    "the page of a study of real-valued actions has no sections on what changes in which cases, on eligible actions "
    "and on avoided ones, with logs or without"
)
MARK = "<!-- a page by poela report -->"


@dataclass(frozen=True)
class PageOptions:
    """What a page shall show beside the usual."""

    by: Sequence[str] = ()  # features that tell strata
    show_values: bool = False  # of features, in the cases that change most
    trajectory: int | None = None  # the episode whose eligible actions are drawn
    title: str | None = None
    refresh: int | None = None  # seconds after which a browser reads the page again


@dataclass(frozen=True)
class Page:
    """A title, a word on it, and sections."""

    title: str
    subtitle: str
    sections: Sequence[Section]
    refresh: int | None = None

    def html(self) -> str:
        """The page as one document."""
        style, script = _resource("page.css"), _resource("page.js")
        template = _environment().get_template("page.html.j2")
        html: str = template.render(
            mark=Markup(MARK),
            page=self,
            style=Markup(style),
            script=Markup(script),
            style_hash=_hash(style),
            script_hash=_hash(script),
            made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            version=poela.__version__,
        )
        return html


def study_page(study: Study, logs: Given | None = None, options: PageOptions | None = None) -> Page:
    """The page of a study, finished or not."""
    options = options or PageOptions()
    title = options.title or _name(study)
    if study.result is None:
        return Page(title, "This study has not come to its end.", unfinished_sections(study), options.refresh)
    real = study.record.data.layout.is_real
    if real:
        _refuse_cases(options)
        if logs is not None:
            warnings.warn(NO_CASES, PoelaWarning, stacklevel=2)
    shown, beside = shown_policy(study), study_logs(study, logs)
    parts: tuple[Callable[[], Section], ...] = (
        lambda: answer_section(study, shown),
        lambda: ladder_section(study),
        lambda: changes_section(beside, options.by, options.show_values),
        lambda: eligible_section(shown, beside, options.trajectory),
        lambda: overfitting_section(beside),
        lambda: data_section(study, beside),
        lambda: sensitivity_section(study, beside),
        lambda: checklist_section(study, shown, beside),
        lambda: reproduce_section(study, beside),
    )
    if real:
        counted = (2, 3, 4)  # what changes, what is eligible and what is avoided are told action by action
        parts = tuple(part for place, part in enumerate(parts) if place not in counted)
    sections = []
    with progress("the page", len(parts)) as advance:
        for part in parts:
            sections.append(part())
            advance(1, note=sections[-1].title)
    return Page(title, "What logged decisions show about a better way to decide", sections)


def _refuse_cases(options: PageOptions) -> None:
    """Refuse what asks for sections that there are not for real-valued actions."""
    asked = {"--by": options.by, "--trajectory": options.trajectory is not None, "--show-values": options.show_values}
    if flags := [flag for flag, value in asked.items() if value]:
        raise InputError(f"{' and '.join(flags)}: {NO_CASES}; leave that out")


def _name(study: Study) -> str:
    """The name of its folder, unless that is one of ours which nobody has chosen."""
    name = study.directory.resolve().name
    return (
        f"A study of {study.record.data.train_episodes:,} episodes" if name.startswith(OWN_FOLDER) else f"Study {name}"
    )


def write_page(page: Page, out: str | PathLike[str], *, overwrite: bool = False) -> Path:
    """Write the page; a file that is there is replaced if it is such a page, or if asked to."""
    path = page_place(out, overwrite=overwrite)
    content = page.html().encode("utf-8", "backslashreplace")
    with atomic_file(path) as temporary:
        temporary.write_bytes(content)
    return path


def page_place(out: str | PathLike[str], *, overwrite: bool = False) -> Path:
    """Where a page may be written; refused before any work."""
    path = new_path(out, "a page")
    folder_at(path.parent, "a page")
    if is_there(path) and not (path.is_file() and (overwrite or _is_page(path))):
        what = (
            "exists and is no page of ours: choose another file, or add --overwrite" if path.is_file() else "is no file"
        )
        raise InputError(f"{place(path)} {what}")
    return path


def _is_page(path: Path) -> bool:
    with path.open("rb") as file:
        return MARK.encode() in file.read(200)


@cache
def _environment() -> Any:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise InputError("a page needs Jinja2: pip install 'poela[report]'") from None
    made = Environment(
        loader=PackageLoader("poela.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["clean"] = clean
    return made


def _resource(name: str) -> str:
    return (files("poela.report") / "templates" / name).read_text(encoding="utf-8").strip()


def _hash(content: str) -> str:
    """For the page's own rules of what may run in it: this script and this style, and nothing else."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
