"""`poela reproduce` finds experiments by entry points, and the library does without them."""

import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest

from poela.cli import main, reproduce
from poela_experiments.frame.results import Report, ResultTable
from poela_experiments.registry import EXPERIMENTS

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
Offer = Callable[..., None]


class Others:
    """An experiment of another package."""

    summary = "what others found"

    def run(self, out: Path, *_: object) -> Report:
        return Report("theirs", (ResultTable("only", "Theirs", [{"a": 1}], "poela reproduce theirs"),)).write(out)


OTHERS = {"theirs": Others()}


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> Offer:
    """Entry points of experiments as if these were installed, and no others."""
    installed = entry_points

    def offered(*places: str) -> None:
        points = [EntryPoint("some", place, reproduce.GROUP) for place in places]
        monkeypatch.setattr(
            "importlib.metadata.entry_points",
            lambda *, group: points if group == reproduce.GROUP else installed(group=group),
        )

    return offered


def test_the_project_offers_the_experiments_of_the_paper() -> None:
    assert PROJECT["project"]["entry-points"][reproduce.GROUP] == {"paper": reproduce.PAPER}


def test_experiments_are_found_with_and_without_entry_points(offer: Offer) -> None:
    """Without: a checkout on the path that was never installed."""
    for places in ((), (reproduce.PAPER,)):
        offer(*places)
        assert reproduce.experiments_found() == EXPERIMENTS


def test_experiments_of_others_are_run(
    offer: Offer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "others", sys.modules[__name__])
    offer(reproduce.PAPER, "others:OTHERS")
    assert main(["reproduce", "list"]) == 0
    listed = capsys.readouterr().out
    assert "what others found" in listed
    assert "counterexamples" in listed
    assert main(["reproduce", "theirs", "--out", str(tmp_path / "new")]) == 0
    assert "Theirs" in capsys.readouterr().out
    assert (tmp_path / "new" / "theirs" / "only.parquet").exists()


@pytest.mark.parametrize("place", ["gone_experiments.registry:EXPERIMENTS", "poela_experiments.registry:GONE"])
def test_missing_experiments_are_one_sentence(
    place: str, offer: Offer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    offer(place)
    for name in ("list", "demo"):
        assert main(["reproduce", name]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        (line,) = err.splitlines()
        assert line.startswith("error: the experiments are not installed: ")
        assert place.partition(".")[0] in line
    assert list(tmp_path.iterdir()) == []


def test_the_library_does_without_the_experiments() -> None:
    code = (
        "import sys; sys.modules['poela_experiments'] = None; import poela, poela.cli; poela.POELA; poela.learn;"
        "sys.exit(poela.cli.main(['reproduce', 'list']))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("error: the experiments are not installed")


def test_listing_is_light() -> None:
    code = (
        "import sys; from poela.cli import main; assert main(['reproduce', 'list', '--json']) == 0;"
        "sys.exit(bool({'torch', 'sklearn', 'pyarrow', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0
