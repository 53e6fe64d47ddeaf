"""The site as readers see it: built without a warning, with links that lead somewhere, and opened offline."""

import base64
import dataclasses
import hashlib
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from filelock import FileLock

import poela
from poela.cli.wording import OF_COMMANDS, OF_ERRORS

ROOT = Path(__file__).parents[1]
LAYOUTS = ((1280, "light"), (390, "dark"))


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once for all worker processes."""
    pytest.importorskip("material", reason="MkDocs Material is not installed: pip install '.[docs]'")
    shared = tmp_path_factory.getbasetemp()
    folder = (shared.parent if os.environ.get("PYTEST_XDIST_WORKER") else shared) / "site"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
            env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
            done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr[-3000:]
    return folder


class Parsed(HTMLParser):
    """The ids of a page, where it leads to, what it loads, and pictures that say nothing."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.silent: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in ("img", "script", "iframe") and "src" in values:
            self.loads.append(values["src"])
        if tag == "link" and values.get("rel") in ("stylesheet", "icon", "preconnect", "preload"):
            self.loads.append(values["href"])
        if tag == "img" and not values.get("alt"):
            self.silent.append(values["src"])


@pytest.fixture(scope="session")
def parsed(site: Path) -> dict[Path, Parsed]:
    return {page: Parsed(page.read_text(encoding="utf-8")) for page in sorted(site.rglob("*.html"))}


def test_every_link_anchor_and_picture_is_there(site: Path, parsed: dict[Path, Parsed]) -> None:
    broken = []
    for page, content in parsed.items():
        for target in [*content.links, *content.loads]:
            url = urlsplit(target)
            if url.scheme in ("http", "https", "mailto", "data") or page.name == "404.html":
                continue
            goal = page if not url.path else (page.parent / unquote(url.path)).resolve()
            goal = goal / "index.html" if goal.is_dir() else goal
            anchor = unquote(url.fragment)
            missing = anchor and goal in parsed and anchor not in parsed[goal].ids
            if not goal.exists() or missing:
                broken.append(f"{page.relative_to(site)}: {target}")
    assert len(parsed) > 30
    assert broken == []


def test_nothing_is_loaded_from_elsewhere_and_every_picture_says_what_it_shows(parsed: dict[Path, Parsed]) -> None:
    for page, content in parsed.items():
        assert [target for target in content.loads if urlsplit(target).netloc] == [], page
        assert content.silent == [], page


def test_every_public_name_is_in_the_reference(site: Path, parsed: dict[Path, Parsed]) -> None:
    ids = {name for page, content in parsed.items() if page.parent.name == "reference" for name in content.ids}
    assert {f"poela.{name}" for name in poela._HOME} <= ids


def test_every_setting_of_a_learner_is_in_the_reference(site: Path) -> None:
    text = (site / "reference" / "learning.html").read_text(encoding="utf-8")
    for name in ("FittedQ", "POELA", "BCQ", "ContinuousPOELA"):
        section = text.partition(f'id="poela.{name}"')[2].partition("<h2")[0]
        told = set(re.findall(r"<tr>\s*<td><code>(\w+)</code></td>", section))
        assert told == {field.name for field in dataclasses.fields(getattr(poela, name))}, name


def test_every_command_is_in_the_reference(site: Path) -> None:
    text = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    for command in OF_COMMANDS:
        assert f">poela {command}" in text
    assert ">--full<" in text  # the other side of a switch


def test_pages_that_help_and_errors_name_exist(site: Path) -> None:
    named = {page for pages in OF_COMMANDS.values() for page in pages} | {page for _, page in OF_ERRORS}
    for page in named | {"start/first-study", "glossary"}:
        assert (site / f"{page}.html").exists(), page


def test_ten_questions_are_answered_one_click_from_the_front_page(site: Path) -> None:
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+\?) ?([^|]*)\| \[[^\]]+\]\(([^)]+)\) \|", text, re.MULTILINE)
    assert len(rows) == 10


def test_pictures_are_made_by_the_script() -> None:
    from scripts.pictures import PICTURES

    assert {path.stem for path in (ROOT / "docs" / "pictures").glob("*.svg")} == set(PICTURES)


def test_sample_pages_carry_the_style_that_pages_have_today() -> None:
    style = (ROOT / "src" / "poela" / "report" / "templates" / "page.css").read_text(encoding="utf-8")
    pages = sorted((ROOT / "docs" / "gallery").glob("*.html"))
    assert len(pages) >= 6
    for page in pages:
        text = page.read_text(encoding="utf-8")
        inside = text.partition("<style>")[2].partition("</style>")[0]
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"style-src 'sha256-{digest}'" in text, page.name
        assert inside.strip() == style.strip(), page.name


@pytest.fixture(scope="session")
def axe() -> str:
    source = pytest.importorskip("axe_playwright_python", reason="axe-core is not installed: axe-playwright-python")
    return str((Path(source.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))


@pytest.mark.parametrize("part", range(4))  # so that several processes share the work
def test_pages_can_be_read_by_everybody(site: Path, opened: Any, axe: str, part: int) -> None:
    pages = sorted(page for page in site.rglob("*.html") if page.name != "404.html")
    for place, page in list(enumerate(pages))[part::4]:
        # Each on a desk or a telephone, in turn: both would take as long again and find little more.
        width, scheme = LAYOUTS[place // 4 % 2]
        name = str(page.relative_to(site))
        tab = opened(page, width=width, scheme=scheme)
        assert tab.complaints == [], name
        assert tab.fetched() == [], name
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width, name
        # Rows after the first ones are like them, and there are thousands.
        tab.page.evaluate("document.querySelectorAll('tr:nth-child(n+6)').forEach(one => one.remove())")
        tab.page.evaluate(axe)
        found = tab.page.evaluate("axe.run({resultTypes: ['violations']}).then(found => found.violations)")
        assert [(one["id"], one["nodes"][0]["html"]) for one in found] == [], name
        tab.context.close()  # a dozen open pages slow each other down


SOUGHT = {
    "propensity overfitting": "glossary.html",
    "causal": "faq.html",
    "counterfactual": "how-it-works.html",
    "ESS": "glossary.html?h=ess#ess",
}


def test_search_works_from_a_disk(site: Path, opened: Any) -> None:
    page = opened(site / "index.html").page
    for words, expected in SOUGHT.items():
        page.locator(".md-search__input").fill("")
        page.locator(".md-search__input").press_sequentially(words)
        # What was found for the words before may still stand there.
        page.wait_for_selector(f".md-search-result__link[href*='{expected}']", state="attached", timeout=30_000)


def test_thirty_questions_are_answered() -> None:
    parts = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8").split("\n\n")
    answered = [found for part in parts if (found := re.match(r"\*\*([^*]+)\*\*\s+\S", part))]
    assert len({found[1] for found in answered}) >= 30
