"""Studies in places where other things are, or that cannot be used: one sentence, before any work, nothing touched."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.robustness.fuzz_studies import logs, uses
from tests.robustness.privileges import ordinary_user
from tests.robustness.test_hostile_commands import snapshot

import poela
from poela.cli import main
from poela.core.errors import InputError, PoelaError
from poela.core.files import write_bytes
from poela.studies.study import Study

resume = dict(uses())["resume"]
PARTS = ("runs", "shared", "episodes", "behavior", "propensities", "policy")
TOO_LONG = "x" * 300


def moved_out(name: str) -> Callable[[Path], object]:
    """The part lies elsewhere, and a link leads there."""

    def change(study: Path) -> None:
        outside = study.parent / "outside"
        outside.mkdir()
        path = study / name
        path.parent.mkdir(exist_ok=True)
        if path.exists():
            path.rename(outside / path.name)
        else:
            (outside / path.name).mkdir()
        (outside / path.name / "material.json").write_text("mine")
        path.symlink_to(outside / path.name)

    return change


def replaced(name: str, make: Callable[[Path], object]) -> Callable[[Path], object]:
    def change(study: Path) -> None:
        path = study / name
        path.parent.mkdir(exist_ok=True)
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        make(path)

    return change


def folder_of_mine(path: Path) -> None:
    path.mkdir()
    (path / "mine.txt").write_text("keep")


CASES: dict[str, tuple[Callable[[Path], object], str]] = {
    **{f"{name} is a link": (moved_out(name), "a symbolic link") for name in (*PARTS, ".scratch")},
    **{f"{name} is a file": (replaced(name, lambda path: path.write_text("mine")), "a file") for name in PARTS},
    "runs is a pipe": (replaced("runs", os.mkfifo), "a pipe"),
    "a foreign policy": (replaced("policy", folder_of_mine), "holds no poela-policy"),
    "a foreign behavior": (replaced("behavior", folder_of_mine), "holds no poela-behavior"),
    "a foreign table": (replaced("table.parquet", lambda path: path.write_text("mine")), "not the table of a study"),
    "a folder for the table": (replaced("table.parquet", folder_of_mine), "not the table of a study"),
    "a link for the table": (
        replaced("table.parquet", lambda path: path.symlink_to("choice.json")),
        "not the table of a study",
    ),
    "a foreign choice": (replaced("choice.json", lambda path: path.write_text("{}")), "no poela-choice"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_in_the_way_is_refused_before_any_work(case: str, study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change, word = CASES[case]
    change(study)
    before = snapshot(study.parent)
    monkeypatch.setattr("poela.studies.learning._carry_out", lambda *given: pytest.fail("it has begun to work"))
    with pytest.raises(InputError) as caught:
        resume(study)
    assert word in str(caught.value)
    assert len(caught.value.problems) == 1
    assert snapshot(study.parent) == before


@pytest.mark.parametrize("case", ["a foreign table", "a foreign policy"])
def test_a_folder_that_only_has_our_mark_may_hold_foreign_things_too(case: str, tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / ".poela-study").touch()
    change, word = CASES[case]
    change(tmp_path / "study")
    before = snapshot(tmp_path)
    with pytest.raises(InputError, match=word):
        poela.learn(logs(), out=tmp_path / "study", learners=["fittedq"], backend="inline")
    assert snapshot(tmp_path) == before


def test_a_folder_called_like_a_temporary_file_is_left_alone(study: Path) -> None:
    odd = study / ".scratch" / ".poela-tmp-x"
    odd.mkdir(parents=True)
    (study / ".poela-tmp-half").write_text("left by a killed process")
    resume(study)
    assert odd.is_dir()
    assert not (study / ".poela-tmp-half").exists()


@pytest.mark.parametrize("kind", [Path.touch, os.mkfifo])
def test_studies_whose_runs_are_no_folder(
    kind: Callable[[Path], None], study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replaced("runs", kind)(study)
    assert main(["studies", "list", str(study.parent), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert "runs cannot be read: Not a directory" in row["problem"]
    with pytest.raises(InputError, match="runs cannot be read: Not a directory"):
        Study.open(study)


@pytest.fixture
def forbidden() -> Iterator[Callable[[Path, int], None]]:
    """Change the rights of a folder, until the test is over."""
    changed: list[Path] = []

    def change(folder: Path, mode: int) -> None:
        changed.append(folder)
        folder.chmod(mode)

    yield change
    for folder in changed:
        folder.chmod(0o700)


def test_a_study_that_may_not_be_written(study: Path, forbidden: Callable[[Path, int], None]) -> None:
    for folder in (study, study / "runs", study / "episodes"):
        before = snapshot(study.parent)
        forbidden(folder, 0o500)
        with ordinary_user(), pytest.raises(PoelaError) as caught:
            resume(study)
        assert str(caught.value) == f"{folder} cannot be written: Permission denied; choose another place"
        folder.chmod(0o700)
        assert snapshot(study.parent) == before


def test_runs_that_may_not_be_read(
    study: Path, forbidden: Callable[[Path, int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    forbidden(study / "runs", 0)
    with ordinary_user():
        with pytest.raises(PoelaError, match="Permission denied"):
            resume(study)
        with pytest.raises(InputError, match="runs cannot be read: Permission denied"):
            Study.open(study)
        assert main(["studies", "list", str(study.parent), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert "Permission denied" in row["problem"]


COMMANDS = (
    "learn logs.csv --out {}",
    "learn logs.csv --out {} --resume",
    "reproduce demo --out {}",
    "studies list {}",
    "studies show {}",
    "evaluate {} --logs logs.csv",
    "simulate tumor --out {}/new.csv",
)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("place", [TOO_LONG, f"{TOO_LONG}/deeper", "locked", "locked/deeper"])
def test_places_that_cannot_be_used(
    command: str,
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    forbidden: Callable[[Path, int], None],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("poela.studies.learning._read", lambda *given: pytest.fail("it has begun to work"))
    (tmp_path / "locked").mkdir()
    forbidden(tmp_path / "locked", 0)
    with ordinary_user():
        code = main(command.format(place).split())
    out, err = capsys.readouterr()
    assert (code, out) in ((1, ""), (2, "")), (out, err)
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1
    assert "free space" not in err
    assert [path.name for path in tmp_path.iterdir()] == ["locked"]


def test_a_name_that_is_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = f"{tmp_path}/caf\udce9"
    for command in (["learn", "gone.csv"], ["reproduce", "demo"]):
        assert main([*command, "--out", place]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert "caf\\udce9' is no text in UTF-8: choose another name" in err
        assert len(err.splitlines()) == 1
    assert main(["simulate", "tumor", "--episodes", "2", "--out", f"{place}.csv"]) == 2
    assert os.listdir(tmp_path) == []


def test_a_home_in_quotes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    home, here = tmp_path / "home", tmp_path / "here"
    here.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(here)
    assert main(["simulate", "tumor", "--episodes", "2", "--out", "~/new/logs.csv"]) == 0
    capsys.readouterr()
    assert main(["learn", "gone.csv", "--out", "~/new"]) == 2
    assert f"{home / 'new'} is not empty" in capsys.readouterr().err
    assert main(["learn", "gone.csv", "--out", "~nobody-of-this-name/new"]) == 2
    assert "home of a user who is not known" in capsys.readouterr().err
    assert os.listdir(here) == []


def test_a_file_that_appears_while_logs_are_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from poela.simulators.registry import simulate

    out = tmp_path / "logs.csv"

    def slow(*given: Any, **more: Any) -> Any:
        out.write_text("somebody else's")
        return simulate(*given, **more)

    monkeypatch.setattr("poela.simulators.registry.simulate", slow)
    command = ["simulate", "tumor", "--episodes", "2", "--out", str(out)]
    for _ in range(2):  # without hard links, too
        out.unlink(missing_ok=True)
        assert main(command) == 2
        assert "exists already" in capsys.readouterr().err
        assert out.read_text() == "somebody else's"
        assert os.listdir(tmp_path) == ["logs.csv"]
        monkeypatch.setattr(os, "link", no_links)
    assert main([*command, "--overwrite"]) == 0
    assert out.read_text().startswith('"episode"')


def no_links(*given: Any) -> None:
    raise PermissionError(1, "Operation not permitted")


def test_a_new_file_where_there_are_no_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", no_links)
    assert main(["simulate", "tumor", "--episodes", "2", "--out", str(tmp_path / "logs.csv")]) == 0
    assert os.listdir(tmp_path) == ["logs.csv"]


@pytest.mark.parametrize(
    ("error", "remedy"), [(28, "free space, or choose another place"), (30, "choose another place")]
)
def test_only_a_full_disk_is_to_be_freed(
    error: int, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: Any) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(PoelaError) as caught:
        write_bytes(tmp_path / "x", b"")
    assert str(caught.value) == f"{tmp_path / 'x'} cannot be written: {os.strerror(error)}; {remedy}"
