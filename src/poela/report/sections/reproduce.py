"""How to reproduce a study: the command, what it reads, hashes, versions and settings."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from poela.core.live import references_in
from poela.core.references import described
from poela.core.typed import to_plain
from poela.report.blocks import Block, Code, Column, Entry, Section, Table, Text
from poela.report.study_logs import StudyLogs
from poela.studies.candidates import Candidate
from poela.studies.defaults import default_candidates
from poela.studies.settings import StudySettings
from poela.studies.study import Study

TITLE, ABOUT = "How to reproduce", "command, settings, versions and hashes"


BY_CODE = "No command makes this study: it was made with objects of a Python session ({}), whose code has to run again."


def reproduce_section(study: Study, logs: StudyLogs | None) -> Section:
    """The command and everything that the result depends on."""
    data = study.record.data
    settings = study.settings
    objects = sorted({described(text) for text in references_in(to_plain(settings))})
    same = "" if logs is None else " The logs behind this page have the same hash."
    blocks: list[Block] = [
        Text(
            f"The same logs, settings, versions and kind of machine give the same study.{same} LOGS is the file of "
            "logged decisions; layout.toml (below) names its columns. Categories and medians are not in it: they are "
            "learned from LOGS again."
        ),
        Code("Command", command_of(settings)) if not objects else Text(BY_CODE.format(", ".join(objects))),
        # Its schema holds values of features, and is learned again from the same logs.
        Code("layout.toml", toml_of(replace(data.layout, schema=None).to_json())),
    ]
    if not objects and _learner_flags(settings) is None:
        blocks.append(Code("candidates.toml", candidates_toml(settings.candidates)))
    blocks += [_hashes(study), _versions(study)]
    plain = json.dumps(to_plain(settings), indent=1)
    blocks.append(Code("Settings in full", plain, folded=True))
    return Section("reproduce", TITLE, blocks, ABOUT)


def command_of(settings: StudySettings) -> str:
    """The `poela learn` that makes this study; logs that were given in other files are named by what they are for."""
    selection, scoring = settings.selection, settings.scoring
    by_gain = selection.by == "gain"
    usual = {
        "seed": (settings.seed, 0),
        "folds": (settings.folds, 5),
        "test": (settings.test_share or None, None),
        "shares": (None if settings.shares is None else ",".join(f"{share:g}" for share in settings.shares), None),
        "restarts": (settings.restarts, 1),
        "behavior": (settings.behavior, "auto"),
        "discount": (scoring.discount, 1.0),
        "choose-by": (selection.by, "gain"),
        "checkpoints": (selection.checkpoints, "best"),
        "confidence": (selection.confidence, 0.95 if by_gain else 0.99),
        "min-ess": (selection.min_ess, 0.0),
        "sensitivity": (selection.sensitivity, 1.5),
        "level": (scoring.level, 0.95),
        "cap": (None if scoring.cap is None else str(scoring.cap), None),
        "returns": (
            None if scoring.bounds is None else f"{scoring.bounds.lowest_return:g},{scoring.bounds.highest_return:g}",
            None,
        ),
    }
    flags = [
        f"--{name}{'=' if _flag(now).startswith('-') else ' '}{shlex.quote(_flag(now))}"
        for name, (now, then) in usual.items()
        if now != then and now is not None
    ]
    tried = _learner_flags(settings)
    flags += ["--candidates candidates.toml"] if tried is None else tried
    return " ".join(["poela learn LOGS --out study/ --layout layout.toml", *flags])


def _flag(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _learner_flags(settings: StudySettings) -> list[str] | None:
    """How the candidates are asked for by names of learners; None where that is not possible."""
    names = [*dict.fromkeys(candidate.learner for candidate in settings.candidates)]
    for learners in (None, names):
        for ruled in (True, False):
            if tuple(default_candidates(learners, ruled=ruled, behavior=settings.behavior)) == settings.candidates:
                flags = [] if learners is None else [f"--learners {','.join(names)}"]
                return [*flags, *([] if ruled else ["--no-rule"])]
    return None


def candidates_toml(candidates: tuple[Candidate, ...]) -> str:
    """The candidates as the file that `--candidates` reads, where a list holds alternatives: here, one."""
    grids = []
    for candidate in candidates:
        settings = to_plain(candidate.settings)
        lines = [f"{name} = [{_toml(value)}]" for name, value in settings.items() if value is not None]
        grids.append("\n".join(["[[grid]]", f"learner = {json.dumps(candidate.learner)}", *lines]))
    return "\n\n".join(grids)


def toml_of(document: Mapping[str, Any]) -> str:
    """A flat document as TOML.

    >>> print(toml_of({"episode": "stay", "cluster": None, "context": ["age"]}))
    episode = "stay"
    context = ["age"]
    """
    return "\n".join(f"{name} = {_toml(value)}" for name, value in document.items() if value is not None)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return (
            "{ "
            + ", ".join(f"{_toml(name)} = {_toml(item)}" for name, item in value.items() if item is not None)
            + " }"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    # TOML knows no halves of letters, which JSON writes beyond the first 65536; what turns text around goes by number.
    text = json.dumps(value, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else f"\\U{ord(letter):08x}" for letter in text)


def _hashes(study: Study) -> Table:
    rows = [(Entry(f"{role} logs"), Entry(value or "none")) for role, value in study.record.data.hashes.items()]
    rows.append((Entry("study"), Entry(study.record.fingerprint)))
    return Table("Hashes (SHA-256)", (Column("of"), Column("hash")), rows)


def _versions(study: Study) -> Table:
    sessions = study.record.sessions
    names = [*dict.fromkeys(name for session in sessions for name in session.versions)]
    columns = (Column("package"), *(Column(session.when[:16].replace("T", " ")) for session in sessions[-3:]))
    rows = [(Entry(name), *(Entry(session.versions.get(name, "-")) for session in sessions[-3:])) for name in names]
    return Table("Versions", columns, rows, folded=True)
