"""Studies that somebody has changed, with checksums made right again, and studies that are not whole."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest
from tests.robustness.fuzz_studies import document_in, fuzz, logs, put_document, uses
from tests.robustness.seeds import seed

from poela.cli import main
from poela.core.errors import InputError, PoelaWarning
from poela.core.files import sha256
from poela.core.stored import canonical
from poela.studies.records import StudyRecord
from poela.studies.store import Store
from poela.studies.study import Study


def edit(path: Path, change: Callable[[Any], None]) -> None:
    """Change a document, and make its checksum right again."""
    document = document_in(path)
    document.pop("checksum")
    change(document)
    put_document(path, {**document, "checksum": sha256(canonical(document))})


def run(study: Path) -> Path:
    return sorted((study / "runs").glob("*.safetensors"))[0]


def setting(*path: Any, to: Any) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = to

    return change


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


SETTINGS = ("settings",)
CASES: dict[str, tuple[Callable[[Path], object], str]] = {
    "the runs are gone": (lambda study: shutil.rmtree(study / "runs"), "missing or were changed"),
    "one run is gone": (lambda study: run(study).unlink(), "missing or were changed"),
    "a metric was edited": (
        lambda study: edit(run(study), setting("checkpoints", 0, "metrics", "sntis", to=1e6)),
        "missing or were changed",
    ),
    "a metric is text": (
        lambda study: edit(run(study), setting("checkpoints", 0, "metrics", "sntis", to="high")),
        "checkpoints: 0: metrics: sntis: it must be a number",
    ),
    "a metric is beyond all floats": (
        lambda study: edit(run(study), setting("checkpoints", 0, "metrics", "sntis", to=10**400)),
        "it must be a number",
    ),
    "a status of its own": (lambda study: edit(run(study), setting("status", to="great")), "choose 'done'"),
    "a run without checkpoints": (
        lambda study: edit(run(study), lambda document: document.pop("checkpoints")), "'checkpoints' is missing"
    ),
    "a run with more than there is": (lambda study: edit(run(study), setting("charm", to=1)), "no field 'charm'"),
    "a run of another candidate": (lambda study: edit(run(study), setting("task", "restart", to=7)), "another run"),
    "a run that was renamed": (lambda study: run(study).rename(run(study).with_name("x.safetensors")), "another run"),
    "restarts without end": (
        lambda study: edit(study / "study.json", setting("settings", "restarts", to=10_000_000)),
        "settings: restarts: it must be a whole number, at least 1 and at most 1000",
    ),
    "a discount of two": (
        lambda study: edit(study / "study.json", setting("settings", "scoring", "discount", to=2)), "discount"
    ),
    "no candidates' learner": (
        lambda study: edit(study / "study.json", setting("settings", "candidates", 0, "learner", to=None)), "text"
    ),
    "another format": (lambda study: edit(study / "study.json", setting("format", to="x")), "no poela-study"),
    "a newer version": (lambda study: edit(study / "study.json", setting("format_version", to=99)), "version 99"),
    "an older version": (lambda study: edit(study / "study.json", setting("format_version", to=1)), "version 1"),
    "a changed byte": (
        lambda study: (study / "study.json").write_text((study / "study.json").read_text().replace("auto", "otua", 1)
                                                        .replace("multinomial", "boosted", 1)),
        "checksum does not match",
    ),
    "no JSON": (lambda study: (study / "study.json").write_text("{"), "cannot be read"),
    "a list": (lambda study: (study / "study.json").write_text("[]"), "no poela-study"),
    "nested without end": (lambda study: (study / "study.json").write_text("[" * 100_000), "cannot be read"),
    "not text": (lambda study: (study / "study.json").write_bytes(b"\xff\xfe\x00"), "cannot be read"),
    "empty": (lambda study: (study / "study.json").write_bytes(b""), "cannot be read"),
    "a folder in place of a file": (
        lambda study: folder(study / "study.json"), "a folder"
    ),
    "looks of somebody else": (lambda study: (study / "looks.json").write_text("{}"), "no poela-looks"),
    "a look without an estimate": (
        lambda study: edit(study / "looks.json", setting("looks", 0, "estimate", to={})), "'value' is missing"
    ),
    "a result without runs": (
        lambda study: edit(study / "choice.json", lambda document: document.pop("runs")), "'runs' is missing"
    ),
    "a link out of the study": (lambda study: link(study / "choice.json"), "link"),
    "a pipe": (lambda study: pipe(study / "choice.json"), "a pipe"),
    "a pipe for a run": (lambda study: pipe(run(study)), "a pipe"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_changed_study_is_refused_in_words(case: str, study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change, word = CASES[case]
    change(study)
    code = main(["studies", "show", str(study)])
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, ""), captured
    assert word in captured.err
    assert len(captured.err) < 1000


POLICY_CASES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a changed byte": (
        lambda path: path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1])), "checksum"
    ),
    "cut short": (lambda path: path.write_bytes(path.read_bytes()[:50]), "header is longer"),
    "gone": (lambda path: path.unlink(), "does not exist"),
    "a pipe": (pipe, "a pipe"),
    "a link": (link, "link"),
}  # fmt: skip


@pytest.mark.parametrize("case", POLICY_CASES)
def test_changed_policies_of_a_run(case: str, study: Path) -> None:
    change, word = POLICY_CASES[case]
    opened = Study.open(study)
    run_id = next(iter(opened.runs))
    assert opened.store.policy(run_id, 0).arrays
    change(study / "runs" / f"{run_id}.safetensors")
    with pytest.raises(InputError, match=word):
        opened.store.policy(run_id, 0)


def test_one_broken_study_does_not_hide_the_others(good: Path, study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(good, study.parent / "other")
    (study / "study.json").write_text("{")
    assert main(["studies", "list", str(study.parent)]) == 0
    out = capsys.readouterr().out
    assert "cannot be read" in " ".join(out.split())
    assert main(["studies", "list", str(study.parent), "--json"]) == 0
    rows = {Path(row["study"]).name: row for row in json.loads(capsys.readouterr().out)}
    assert "problem" in rows["study"]
    assert "problem" not in rows["other"]


def test_other_versions_are_told_of_and_both_are_kept(study: Path) -> None:
    store = Store(study)
    record = store.read(StudyRecord)
    assert record is not None
    old = replace(record.sessions[0], versions={**record.sessions[0].versions, "numpy": "1.0"})
    store.write(replace(record, sessions=(old,)))
    with pytest.warns(PoelaWarning, match=r"begun with other versions \(numpy 1\.0 →"):
        dict(uses())["resume"](study)
    assert [session.versions["numpy"] == "1.0" for session in Study.open(study).record.sessions] == [True, False]


def test_a_study_of_these_logs_has_what_the_cases_change(study: Path) -> None:
    opened = Study.open(study)
    assert opened.result is not None
    assert opened.policy.along(logs()).shape == (90, 2)


def test_tampered_studies_answer_or_refuse() -> None:
    assert fuzz(seconds=inf, seed=seed(), most=25) == 25
