"""Errors that nobody thought of, and tables without names: a kind and a place, never a cell."""

from pathlib import Path

import pytest

from poela.cli import main

CELL = "Jane-Doe-1970"


@pytest.mark.parametrize("kind", [KeyError, ValueError, RuntimeError, MemoryError, RecursionError, ZeroDivisionError])
def test_the_text_of_an_unforeseen_error_is_never_shown(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*given: object, **named: object) -> None:
        raise kind(CELL)

    monkeypatch.setattr("poela.simulators.registry.simulate", broken)
    assert main(["simulate", "tumor", "--episodes", "5", "--out", "logs.csv"]) == 1
    said = capsys.readouterr()
    assert CELL not in said.out + said.err
    assert said.err.startswith(f"error: {kind.__name__} in poela.cli.simulate, line ")
    assert "SECURITY.md" in said.err
    assert said.err.count("\n") == 1


HEADS = {
    "no header": f"{CELL},0,0.5,treat,1.0",
    "no header, a cell twice": f"{CELL},0,{CELL},{CELL},treat",
    "all cells alike": ",".join([CELL] * 5),
    "numbers twice": "1,0,1,1,1",
    "empty names": ",,,,",
}


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("command", ["learn {} --out study", "plan {} --gain 1"])
def test_a_table_without_names_is_read_as_what_it_is(
    head: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("logs.csv").write_text(f"{HEADS[head]}\n{CELL},1,0.5,0.5,1\nother,0,0.1,0.2,0\n")
    assert main(command.format("logs.csv").split()) == 2
    said = capsys.readouterr().err
    assert CELL not in said
    assert said.startswith("error: ")
    assert "Traceback" not in said


def test_a_name_that_stands_twice_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("logs.csv").write_text("episode,step,x,x,action,reward\n1,0,1,2,a,1\n2,0,1,2,b,1\n")
    assert main(["learn", "logs.csv", "--out", "study"]) == 2
    assert "column 'x' occurs 2 times: rename it" in capsys.readouterr().err
