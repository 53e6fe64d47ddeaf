"""What measured pages rest on: their commands exist, their tables follow from rows, and changed code is noticed."""

import json
import re
from pathlib import Path

import pytest
from scripts import evidence
from scripts.code_behind import fingerprint, modules_behind, sources_here
from scripts.evidence import RESULTS, Noted, is_live, minutes_of, noted, rows_of, state_line, told, unfounded

ROOT = Path(__file__).parents[2]
MENTIONED = re.compile(r"(?:python benchmarks/\w+\.py|poela reproduce [a-z][\w-]*)")


@pytest.mark.parametrize("page", [page for page, one in told().items() if one.follows])
def test_tables_of_pages_follow_from_their_rows(page: str) -> None:
    """If this fails: the commands under `follows` in docs/results/evidence.toml print what the page should say."""
    assert unfounded(page) == []


def test_a_page_that_says_something_else_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "usual-ways.md"
    page.write_text((RESULTS / "usual-ways.md").read_text().replace("| 0.0036 |", "| 0.0037 |"))
    (tmp_path / "usual-ways").symlink_to(RESULTS / "usual-ways")
    monkeypatch.setattr(evidence, "RESULTS", tmp_path)
    assert [line.split("|")[1:3] for line in unfounded("usual-ways")] == [[" arms-2 ", " study "]]


def test_every_measured_page_is_told_and_noted() -> None:
    """If this fails: an entry in docs/results/evidence.toml, then python scripts/evidence.py --record PAGE."""
    pages = {page.relative_to(RESULTS).with_suffix("").as_posix() for page in RESULTS.glob("*.md")}
    assert pages <= set(told())
    assert set(told()) == set(noted())
    for page, one in told().items():
        assert (RESULTS / f"{page}.md").exists(), page
        for place in (*one.current, *one.history):
            assert (RESULTS / place).exists(), place


def test_rows_of_a_folder_belong_to_a_page() -> None:
    """Stored rows that no page names prove nothing."""
    named = {place.partition("/")[0] for one in told().values() for place in (*one.current, *one.history)}
    assert {path.name for path in RESULTS.iterdir() if path.is_dir()} <= named


def test_commands_that_pages_name_exist() -> None:
    for page, one in told().items():
        assert is_live(one.command), page
    for path in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"]:
        for command in MENTIONED.findall(path.read_text(encoding="utf-8")):
            assert is_live(command), f"{path.name}: {command}"
    assert not is_live("poela reproduce coverage --full")
    assert not is_live("python benchmarks/gone.py")


def test_the_commit_is_one_of_the_rows_that_count() -> None:
    """And not of those that are kept as history."""
    for page, one in told().items():
        rows = [str(row["commit"]) for row in rows_of(one.current) if row.get("commit")]
        if named := {*rows, one.commit} - {""}:
            assert noted()[page].commit in named, page
    history = {row["commit"] for row in rows_of(told()["claims"].history)}
    assert noted()["claims"].commit not in history


def test_costs_are_those_of_rows_that_count() -> None:
    rows = [{"cpu": 60.0, "seconds": 1.0}, {"seconds": 30.0}, {}]
    assert minutes_of(rows) == 1.5
    assert minutes_of([{}]) is None
    assert minutes_of(rows_of(["rounds"])) == noted()["rounds"].minutes


def test_superseded_tables_are_kept_apart() -> None:
    assert not {place for one in told().values() for place in one.history} & set(told()["holes"].current)
    line = state_line("holes")
    assert "7 older tables are kept as history" in line
    assert "`python benchmarks/holes.py --must" in line


def test_a_page_is_current_until_its_code_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    def note(code: str) -> None:
        one = Noted(commit="abc1234", date="2026-01-02", machine="2 cores", minutes=30.0, code=code)
        monkeypatch.setattr(evidence, "noted", lambda: {"claims": one})

    note(evidence.code_now("claims"))
    assert state_line("claims").startswith(
        "**Current: its code has not changed since.** Commit `abc1234` of 2026-01-02, 2 cores, 30 minutes of one proc"
    )
    note("of-another")
    assert state_line("claims").startswith("**Made by earlier code.** Commit `abc1234`")


FILES = {
    "src/poela/__init__.py": '_HOME = {"learn": "poela.room.learning"}\n',
    "src/poela/room/__init__.py": "",
    "src/poela/room/learning.py": 'from poela.room.table import LEARNERS\n\n\ndef learn():\n    "Learn."\n',
    "src/poela/room/table.py": 'LEARNERS = {"q": "poela.room.q:Q"}\n',
    "src/poela/room/q.py": "class Q:\n    steps = 1\n",
    "src/poela/room/other.py": "x = 1\n",
    "src/poela/report/page.css": "p { color: black }\n",
    "src/poela/report/page.py": "x = 1\n",
    "benchmarks/measure.py": "import poela\nimport rows\n\nfrom poela.report import page\n\npoela.learn()\n",
    "benchmarks/rows.py": "n = 3\n",
}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A package and two scripts."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_modules_behind_a_script_are_found_through_names_and_registries(small: Path) -> None:
    found = modules_behind(["measure"], sources_here(small))
    rooms = ["poela.room", "poela.room.learning", "poela.room.q", "poela.room.table"]
    assert found == sorted(["measure", "rows", *rooms])


@pytest.mark.parametrize(
    ("file", "text", "changes"),
    [
        ("src/poela/room/q.py", "class Q:\n    steps = 2\n", True),
        ("benchmarks/rows.py", "n = 4\n", True),
        ("src/poela/room/learning.py", FILES["src/poela/room/learning.py"].replace("Learn.", "Learn, better."), False),
        ("src/poela/room/q.py", "class Q:  # values\n\n    steps = 1\n", False),
        ("src/poela/room/other.py", "x = 2\n", False),
        ("src/poela/report/page.css", "p { color: red }\n", False),
        ("src/poela/report/page.py", "x = 2\n", False),
        ("docs/index.md", "# Title\n", False),
    ],
)
def test_only_what_a_script_runs_through_makes_it_stale(small: Path, file: str, text: str, changes: bool) -> None:
    before = fingerprint(["measure"], sources_here(small))
    (small / file).parent.mkdir(exist_ok=True)
    (small / file).write_text(text)
    assert (fingerprint(["measure"], sources_here(small)) != before) is changes


def test_notes_are_sorted_so_that_they_merge() -> None:
    pages = [*json.loads(evidence.NOTED.read_text(encoding="utf-8"))]
    assert pages == sorted(pages)
