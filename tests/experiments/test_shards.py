"""One experiment on several machines: joined parts give the bytes of the whole, and no other parts are joined."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.experiments.tiny import tiny

from poela.cli import main
from poela.core.errors import InputError
from poela_experiments.counterexamples import counterexamples
from poela_experiments.frame.run import Run
from poela_experiments.frame.shards import Shard, ShardDone

SIZE = {"greatest_h": 3, "repeats": 5}


def run_of(out: Path, **settings: int) -> Run:
    return tiny("counterexamples", out, **{**SIZE, **settings})


def shards(folder: Path, of: int = 2, **settings: int) -> list[Path]:
    for number in range(1, of + 1):
        with pytest.raises(ShardDone, match="of 5 parts are made"):
            counterexamples(replace(run_of(folder / str(number), **settings), shard=Shard(number, of)))
    return [folder / str(number) for number in range(1, of + 1)]


def results(out: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in out.rglob("*")
        if path.is_file() and path.parent.name != "kept"
    }


def test_joined_shards_are_the_whole_bit_for_bit(tmp_path: Path) -> None:
    folders = shards(tmp_path / "parts")
    joined = counterexamples(replace(run_of(tmp_path / "joined"), joined=folders))
    whole = counterexamples(run_of(tmp_path / "whole"))
    assert joined == whole
    assert results(tmp_path / "joined") == results(tmp_path / "whole")
    assert "counterexamples/made.json" in results(tmp_path / "whole")


def test_a_part_says_how_it_was_made(tmp_path: Path) -> None:
    first, _ = shards(tmp_path)
    parts = [json.loads(file.read_text()) for file in (first / "kept").iterdir()]
    assert len(parts) == 3
    for part in parts:
        about = part["about"]
        assert about["command"] == "poela reproduce counterexamples --quick --seed 0 --shard 1/2"
        assert (about["settings"]["repeats"], about["seed"], len(about["code"])) == (5, 0, 12)
        assert about["machine"]["torch"]


def refused(out: Path, folders: list[Path], **settings: int) -> str:
    with pytest.raises(InputError) as error:
        counterexamples(replace(run_of(out, **settings), joined=folders))
    assert not (out / "counterexamples.md").exists()
    return str(error.value)


def test_missing_double_and_differing_parts_are_refused(tmp_path: Path) -> None:
    folders, out = shards(tmp_path / "parts"), tmp_path / "out"
    assert refused(out, folders[:1]).startswith("2 of 5 parts of counterexamples are missing (the first is ")
    assert "is in 2 folders" in refused(out, [*folders, folders[0]])
    assert "made with other settings, another seed or another version" in refused(out, folders, repeats=6)
    file = next((folders[0] / "kept").iterdir())
    part = {**json.loads(file.read_text()), "about": {"code": "another"}}
    part.pop("digest")
    file.write_text(json.dumps(part))
    assert "were made by different code" in refused(out, folders)


def test_a_folder_without_parts_is_named(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    assert "other holds no parts" in refused(tmp_path / "out", [*shards(tmp_path / "parts"), tmp_path / "other"])


@pytest.mark.parametrize("how", ["another part", "other numbers", "a list", "nothing", "cut off"])
def test_a_file_that_is_not_its_part_is_refused(tmp_path: Path, how: str) -> None:
    folders = shards(tmp_path / "parts")
    first, second = sorted((folders[0] / "kept").iterdir())[:2]
    text = first.read_text()
    changed = {
        "another part": second.read_text(),
        "other numbers": json.dumps({**json.loads(text), "piece": json.loads(second.read_text())["piece"]}),
        "a list": "[]",
        "nothing": "",
        "cut off": text[: len(text) // 2],
    }
    first.write_text(changed[how])
    said = f"{first.name} is damaged, or is not the part"
    assert said in refused(tmp_path / "out", folders)
    with pytest.raises(InputError, match=said):
        counterexamples(replace(run_of(folders[0]), shard=Shard(1, 2)))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for shard in ("1/2", "2/2"):
        place = f"part-{shard[0]}"
        assert main(["reproduce", "counterexamples", "--jobs", "1", "--shard", shard, "--out", place]) == 0
        assert "parts are made in part-" in capsys.readouterr().out
    ending = ["--join", "part-1", "--join", "part-2", "--out", "joined"]
    assert main(["reproduce", "counterexamples", *ending]) == 0
    assert "Example 2" in capsys.readouterr().out
    for wrong in (["--shard", "3/2"], ["--shard", "x"], ["--shard", "1/2", "--join", "part-1"]):
        assert main(["reproduce", "counterexamples", *wrong, "--out", "wrong"]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
    assert main(["reproduce", "demo", "--shard", "1/2", "--out", "other"]) == 2
    assert "cannot be made in shards" in capsys.readouterr().err
