"""From a study to one self-contained page: no network, and no single case unless asked for."""

import base64
import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

from markupsafe import Markup

import poela
from poela.core.errors import InputError
from poela.core.files import atomic_file
from poela.core.paths import output_file
from poela.core.progress import progress
from poela.core.readable import effective
from poela.core.registry import how_to_install
from poela.core.temporary import OWN_FOLDER
from poela.core.typed import Count, parsed
from poela.data.action_space import Box, Finite
from poela.data.groups import SMALLEST_GROUP
from poela.report.blocks import Block, Column, Entry, Fact, Facts, Section, Table, Text, named, typeset
from poela.report.numbers.changes import STEP
from poela.report.pictures.drawing import clean
from poela.report.sections.changes import changes_section, doses_section
from poela.report.sections.checklist import checklist_section, reproduce_section
from poela.report.sections.data import data_section, groups_section
from poela.report.sections.eligible import eligible_section
from poela.report.sections.first import first_screen
from poela.report.sections.first_doubts import overfitting_section, sensitivity_section
from poela.report.sections.full import full_section
from poela.report.sections.ladder import ladder_section
from poela.report.study_logs import Given, dose_logs, shown_policy, study_logs
from poela.report.subject import Subject
from poela.studies.groups import Groups
from poela.studies.names import sentence, without_rule
from poela.studies.records import RunRecord, Task
from poela.studies.so_far import so_far_in_words
from poela.studies.study import Study

# A page that is opened while a study runs: what is done, what is left, and what is known so far.


def unfinished_sections(study: Study) -> list[Section]:
    """What can be said before a study has judged anything."""
    done, every = len(study.runs), len(study.tasks)
    data, logging = study.record.data, study.record.logging_policy
    seconds = sum(run.wall_seconds for run in study.runs.values())
    facts = [
        Fact("Runs finished", f"{done} of {every}", f"{done / max(every, 1):.0%}"),
        Fact("Work so far", f"{seconds / 60:.1f} min", "all processes together"),
        Fact("Episodes", f"{data.train_episodes:,}", f"in {data.folds} folds" if data.folds > 1 else "in one split"),
        Fact("What is done now", typeset(logging.value, logging.standard_error), "mean return"),
    ]
    now = datetime.now(UTC).strftime("%H:%M:%S UTC")
    so_far = study.so_far
    lead = f"There is no answer yet: {done} of {every} runs have finished."
    ends = "Nothing is chosen before all runs are done"
    if so_far is not None:
        lead = so_far_in_words(so_far, study.record)
        ends = (
            "This answer is provisional: it covers the policies that it names, and the last one covers all that are "
            "tried, so that its bound may be lower or higher"
        )
    blocks: list[Block] = [
        Text(lead, "lead"),
        Text(
            f"As of {now}. Make the page again (or use --watch) and reload it to see more. If the study was "
            f"interrupted, poela learn … --resume continues it. {ends}."
        ),
        Facts(facts),
        _progress(study),
        Text(sentence(data.propensities)),
    ]
    return [Section("answer", "So far", blocks), reproduce_section(study, None)]


def _progress(study: Study) -> Table:
    of_path: dict[str, list[Task]] = defaultdict(list)
    for task in study.tasks:
        of_path[task.path_id].append(task)
    columns = (
        Column("what is tried"),
        Column("folds", True),
        Column("value so far", True),
        Column("effective cases", True),
        Column("state"),
    )
    rows = [_row([study.runs.get(task.run_id) for task in tasks], tasks[0]) for tasks in of_path.values()]
    note = "Value and effective cases: of the boldest policy, averaged over the finished folds. They promise nothing."
    return Table("Runs", columns, rows, note=note)


def _row(runs: list[RunRecord | None], task: Task) -> tuple[Entry, ...]:
    finished = [run for run in runs if run is not None]
    value, ess = (_mean(finished, name) for name in ("sntis", "ess"))
    failed = [run for run in finished if run.status != "done"]
    state = f"{len(failed)} {failed[0].status}" if failed else "done" if len(finished) == len(runs) else "going on"
    return (
        Entry(named(f"{without_rule(str(task.candidate))}, restart {task.restart}"), str(task.candidate)),
        Entry(f"{len(finished)}/{len(runs)}", len(finished)),
        Entry(typeset(value), value),
        Entry(effective(ess), ess),
        Entry(state if finished else "waiting"),
    )


def _mean(runs: list[RunRecord], metric: str) -> float | None:
    numbers = [run.checkpoints[-1].metrics.get(metric) for run in runs if run.checkpoints]
    known = [number for number in numbers if number is not None]
    return sum(known) / len(known) if known else None


NO_CASES = "single decisions are not shown for real-valued actions"
MARK = "<!-- a page by poela report -->"


@dataclass(frozen=True)
class PageOptions:
    """What a page shall show beside the usual."""

    by: Sequence[str] = ()  # features that tell strata
    show_values: bool = False  # of features, in the cases that change most
    trajectory: int | None = None  # the episode whose eligible actions are drawn; None: no single case is shown
    title: str | None = None  # of the page
    refresh: int | None = None  # seconds after which a browser reads the page again
    brief: bool = False  # the first screen alone, on one sheet
    per_year: int | None = None  # cases that are expected in a year
    smallest_group: int | None = None  # cases that a group must have to be told of; None: as in the study


@dataclass(frozen=True)
class Page:
    """A title, a word on it, and sections."""

    title: str
    subtitle: str
    sections: Sequence[Section]
    refresh: int | None = None
    brief: bool = False
    source: str = ""  # the file of the logs
    study: str = ""  # the first letters of its hash

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
    title = options.title or _name(study, logs)
    if study.result is None:
        return Page(title, "This study has not finished yet.", unfinished_sections(study), options.refresh)
    subject = _subject(study, logs, options)
    parts: tuple[Callable[[], Section], ...] = (lambda: first_screen(subject, brief=options.brief),)
    if not options.brief:
        parts += _details(subject, options)
    sections = []
    with progress("the page", len(parts)) as advance:
        for part in parts:
            sections.append(part())
            advance(1, note=sections[-1].title)
    subtitle = f"What {study.record.data.train_episodes:,} past cases say about deciding better"
    return Page(
        title, subtitle, sections, brief=options.brief, source=_source(study, logs), study=study.record.fingerprint[:12]
    )


def report_on(study: Study, out: str | PathLike[str], logs: Given | None, *options: Any) -> Path:
    """Write the page of a study with these options, in the order of `PageOptions`."""
    return write_page(study_page(study, logs, PageOptions(*options)), out)


def _subject(study: Study, logs: Given | None, options: PageOptions) -> Subject:
    assert study.result is not None
    smallest = _smallest_group(study.result.groups, options)
    subject = Subject(
        study, study.result, shown_policy(study), None, None, logs, tuple(options.by), options.per_year, smallest
    )
    return PAGES[study.record.data.layout.action_space.kind].beside(subject, options)


def _beside_choices(subject: Subject, options: PageOptions) -> Subject:
    return replace(subject, logs=study_logs(subject.study, subject.given, subject.smallest))


def _beside_doses(subject: Subject, options: PageOptions) -> Subject:
    _refuse_cases(options)
    return replace(subject, doses=dose_logs(subject.study, subject.given, subject.smallest))


def _smallest_group(stored: Groups | None, options: PageOptions) -> int:
    """As was said for the page, else for the study."""
    if options.smallest_group is not None:
        parsed("smallest_group", Count, options.smallest_group)
        return options.smallest_group
    return SMALLEST_GROUP if stored is None else stored.smallest


def _details(subject: Subject, options: PageOptions) -> tuple[Callable[[], Section], ...]:
    """The sections below the first screen."""
    own = PAGES[subject.study.record.data.layout.action_space.kind]
    return (
        lambda: full_section(subject),
        *own.changes(subject, options),
        lambda: groups_section(subject),
        lambda: ladder_section(subject),
        *own.rules(subject, options),
        lambda: data_section(subject),
        lambda: sensitivity_section(subject),
        lambda: checklist_section(subject),
        lambda: reproduce_section(subject.study, subject.logs),
    )


def _doses(subject: Subject, options: PageOptions) -> tuple[Callable[[], Section], ...]:
    doses = subject.doses
    return () if doses is None else (lambda: doses_section(doses),)


def _eligible(subject: Subject, options: PageOptions) -> tuple[Callable[[], Section], ...]:
    return (
        lambda: eligible_section(subject.shown, subject.logs, options.trajectory),
        lambda: overfitting_section(subject),
    )


@dataclass(frozen=True)
class PageOf:
    """What a page has of one kind of actions: the logs beside the study, what changes, and what rules allow."""

    beside: Callable[[Subject, PageOptions], Subject]
    changes: Callable[[Subject, PageOptions], tuple[Callable[[], Section], ...]]
    rules: Callable[[Subject, PageOptions], tuple[Callable[[], Section], ...]]


PAGES: Mapping[str, PageOf] = {
    Finite.kind: PageOf(
        _beside_choices, lambda subject, options: (lambda: changes_section(subject, options.show_values),), _eligible
    ),
    Box.kind: PageOf(_beside_doses, _doses, lambda subject, options: ()),  # what counts actions is left out
}


def _refuse_cases(options: PageOptions) -> None:
    """Refuse what asks for single decisions, which a page does not show of real-valued actions."""
    asked = {
        "--by step": STEP in options.by,
        "--trajectory": options.trajectory is not None,
        "--show-values": options.show_values,
    }
    if flags := [flag for flag, value in asked.items() if value]:
        raise InputError(f"{' and '.join(flags)}: {NO_CASES}; leave that out")


def _source(study: Study, logs: Given | None) -> str:
    """The name of the file that the study was learned from; empty where it was none."""
    given = Path(logs).name if isinstance(logs, str | PathLike) else ""
    return study.record.data.source or given


def _name(study: Study, logs: Given | None) -> str:
    """The file of its log or, without one, its folder, unless that is one of ours which nobody has chosen."""
    folder = study.directory.resolve().name
    unnamed = f"A study of {study.record.data.train_episodes:,} cases"
    return _source(study, logs) or (unnamed if folder.startswith(OWN_FOLDER) else f"Study {folder}")


def write_page(page: Page, out: str | PathLike[str], *, overwrite: bool = False) -> Path:
    """Write the page; a file that is there is replaced if it is such a page, or if asked to."""
    path = page_place(out, overwrite=overwrite)
    content = page.html().encode("utf-8", "backslashreplace")
    with atomic_file(path) as temporary:
        temporary.write_bytes(content)
    return path


def page_place(out: str | PathLike[str], *, overwrite: bool = False) -> Path:
    """Where a page may be written; refused before any work."""
    return output_file(out, "a page", overwrite=overwrite, is_ours=_is_page)


def _is_page(path: Path) -> bool:
    with path.open("rb") as file:
        return MARK.encode() in file.read(200)


@cache
def _environment() -> Any:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise InputError(f"a page needs Jinja2: {how_to_install('report')}") from None
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
