"""Every code block in the README and the docs runs: Python blocks here, bash blocks as commands."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WALKS = sorted((ROOT / "docs" / "walks").glob("*.md"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
STORIES = {"serving.md"}  # whose blocks, of both kinds, follow on each other
BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    if page.name in STORIES:
        return []
    return [code for found, code in BLOCK.findall(page.read_text(encoding="utf-8")) if found == language]


def run_bash(code: str, folder: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", code], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", [p for p in PAGES if p.name in STORIES], ids=lambda p: p.name)
def test_stories_run_from_beginning_to_end(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for number, (language, code) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8"))):
        if language == "bash":
            run_bash(code, tmp_path)
        else:
            exec(compile(code, f"{page.name} block {number}", "exec"), names)


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=lambda p: p.name)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    names: dict[str, object] = {}
    for number, code in enumerate(blocks(page, "python")):
        exec(compile(code, f"{page.name} block {number}", "exec"), names)


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "bash")], ids=lambda p: p.name)
def test_bash_blocks_run(page: Path, tmp_path: Path) -> None:
    for code in blocks(page, "bash"):
        run_bash(code, tmp_path)


@pytest.mark.parametrize("page", WALKS, ids=lambda p: p.name)
def test_walks_go_from_a_raw_file_to_decisions(page: Path, tmp_path: Path) -> None:
    """All blocks of a walk in their order, in one folder, beside the examples."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for language, code in BLOCK.findall(page.read_text(encoding="utf-8")):
        command = [sys.executable, "-c", code] if language == "python" else ["bash", "-e", "-c", code]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, *WALKS]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
