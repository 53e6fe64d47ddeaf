"""Studies side by side: what each recommends, how much better that is shown to be, and how they differ."""

import json
from collections.abc import Sequence

from poela.core.errors import InputError
from poela.core.readable import effective, factor_in_words
from poela.core.typed import to_plain
from poela.report.blocks import Block, Column, Entry, Pictures, Section, Table, Text, named
from poela.report.numbers.judged import frontier_of, ladder_of
from poela.report.page import Page
from poela.report.sections.ladder import frontier_picture, judged_table
from poela.report.subject import Numbers
from poela.studies.study import Study

COLUMNS = (
    Column("study"),
    Column("answer"),
    Column("new − current", True),
    Column("at least", True),
    Column("value", True),
    Column("done now", True),
    Column("effective cases", True),
    Column("Γ", True),
    Column("verdict"),
)


def comparison_page(studies: Sequence[Study]) -> Page:
    """The page of two or more studies."""
    if len(studies) < 2:
        raise InputError(f"{len(studies)} study cannot be compared: name two or more")
    names = _names(studies)
    ended = [(name, study) for name, study in zip(names, studies, strict=True) if study.result is not None]
    sections = [
        Section("answer", "The answers", _answers(names, studies)),
        Section("ladder", "Value against effective cases", _frontiers(ended)),
        Section("rungs", "From cautious to bold", _ladders(ended)),
        Section("settings", "How the studies differ", _differences(names, studies)),
    ]
    return Page(f"{len(studies)} studies compared", ", ".join(names), sections)


def _names(studies: Sequence[Study]) -> list[str]:
    """The name of each folder, or its path where two have one name."""
    short = [study.directory.resolve().name for study in studies]
    return short if len(set(short)) == len(short) else [str(study.directory) for study in studies]


def _answers(names: Sequence[str], studies: Sequence[Study]) -> list[Block]:
    rows = [_answer_row(name, study) for name, study in zip(names, studies, strict=True)]
    same = {role: len({study.record.data.hashes.get(role) for study in studies}) == 1 for role in ("train", "test")}
    words = (
        "They were made from the same episodes."
        if all(same.values())
        else "They were not made from the same episodes: values differ by chance, too."
    )
    note = (
        "At least: the lower bound, for all policies of a study together. It does not cover a choice between studies."
    )
    cards: list[Block] = [
        Text(named(name) + ": " + study.answer.headline)
        for name, study in zip(names, studies, strict=True)
        if study.result is not None
    ]
    return [Text(words), *cards, Table("Side by side", COLUMNS, rows, note=note)]


def _answer_row(name: str, study: Study) -> tuple[Entry, ...]:
    current, number = study.record.logging_policy, Numbers.of(study).number
    if study.result is None:
        done = f"{len(study.runs)} of {len(study.tasks)} runs"
        return (Entry(named(name), name), Entry(f"not finished ({done})"), *(Entry("–") for _ in COLUMNS[2:]))
    chosen, estimate = study.choice.chosen, study.estimate
    gain = study.gain if chosen is not None else None
    shown = None if chosen is None else chosen.metrics.get("shown")
    return (
        Entry(named(name), name),
        Entry(study.answer.kind),
        Entry("–" if gain is None else number(gain.value, signed=True), None if gain is None else gain.value),
        Entry(number(shown, signed=True), shown),
        Entry(number(estimate.value), estimate.value),
        Entry(number(current.value), current.value),
        Entry(effective(estimate.ess), estimate.ess),
        Entry(
            "–" if gain is None or gain.undone_by is None else factor_in_words(gain.undone_by),
            None if gain is None else gain.undone_by,
        ),
        Entry("–" if chosen is None else estimate.verdict),
    )


def _frontiers(ended: Sequence[tuple[str, Study]]) -> list[Block]:
    frontiers = [(name, study, frontier_of(study)) for name, study in ended]
    pictures = [
        frontier_picture(frontier, Numbers.of(study), name) for name, study, frontier in frontiers if frontier.points
    ]
    return [Pictures(pictures)] if pictures else [Text("No policy has been judged yet.", "note")]


def _ladders(ended: Sequence[tuple[str, Study]]) -> list[Block]:
    return [judged_table(name, ladder_of(study), Numbers.of(study)) for name, study in ended] or [
        Text("No policy has been judged yet.", "note")
    ]


def _differences(names: Sequence[str], studies: Sequence[Study]) -> list[Block]:
    plain = [_settings(study) for study in studies]
    keys = list(dict.fromkeys(key for one in plain for key in one))
    unlike = [key for key in keys if len({one.get(key) for one in plain}) > 1]
    if not unlike:
        return [Text("Their settings, logs and versions are the same.")]
    rows = [(Entry(key), *(Entry(one.get(key, "–")) for one in plain)) for key in unlike]
    return [Table("What is not the same", (Column("setting"), *(Column(name) for name in names)), rows)]


def _settings(study: Study) -> dict[str, str]:
    """Settings by name as text, with the hashes of logs and the versions of the last session."""
    settings = {
        name: json.dumps(value)
        for name, value in to_plain(study.settings).items()
        if name not in ("candidates", "selection", "scoring")
    }
    for group in ("selection", "scoring"):
        settings |= {
            f"{group}: {name}": json.dumps(value) for name, value in to_plain(getattr(study.settings, group)).items()
        }
    settings["candidates"] = "; ".join(map(str, study.settings.candidates))
    settings |= {f"{role} logs": (value or "none")[:16] for role, value in study.record.data.hashes.items()}
    settings |= {f"version of {name}": value for name, value in study.record.sessions[-1].versions.items()}
    return settings
