"""The words of pages: spelled right, in sentences that are not too long."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.site import notebooks

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"))]
LIMITS = {True: (22.0, 60), False: (30.0, 95)}  # words of a sentence, mean and most: pages to learn from, and records
RECORDS = re.compile(r"docs/(results/|reproduction|deviations)")
NAMES = "worstcase,notin,noes,bloc,clos,complet,admi"  # of code, and pieces of words that it looks for


def prose(text: str) -> str:
    """The sentences of a page, without code, tables, formulas, headings and where links lead to."""
    text = re.sub(r"^```.*?^```|<!--.*?-->|<math.*?</math>", " x ", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "X", text)
    lines = [line for line in text.splitlines() if not re.match(r"\s*([|#]|</?\w)", line)]
    return re.sub(r"\n\s*([-*]|\d+\.)\s", "\n\n", "\n".join(lines))


def sentences(text: str) -> list[int]:
    """How many words each sentence has; what is no sentence, such as one word of a list, does not count.

    >>> sentences("It is so. Is it, e.g. here? No (not here).")
    [3, 4, 3]
    """
    parts = [
        part
        for paragraph in re.split(r"\n\s*\n", prose(text))
        for part in re.split(r"(?<=[.:?!;])[\"*)\]_]*\s+(?=[\"*(\[_]*[A-Z0-9])", " ".join(paragraph.split()))
    ]
    return [count for part in parts if (count := len(re.findall(r"[^\W_][\w'’.,+-]*", part))) > 1]


def pages() -> dict[str, str]:
    """Every page that is read, and the texts of tutorials."""
    found = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}
    for script in notebooks.scripts():
        texts = [source for kind, source in notebooks.cells_of(script) if kind == "markdown"]
        found[str(script.relative_to(ROOT))] = "\n\n".join(texts)
    return found


@pytest.mark.parametrize("page", pages())
def test_sentences_are_short_enough(page: str) -> None:
    mean, most = LIMITS[RECORDS.match(page) is None]
    lengths = sentences(pages()[page])
    assert sum(lengths) <= mean * len(lengths)
    assert max(lengths, default=0) <= most


def test_a_page_of_long_sentences_is_noticed() -> None:
    long = "A " + " ".join(["word"] * 69) + "."
    assert sentences(f"# Title\n\nShort one. {long}\n\n| no | sentence |\n\n```python\nx = 1\n```\n") == [2, 70]


def test_words_are_spelled_right(tmp_path: Path) -> None:
    """Pages, tutorials, and what the program says."""
    pytest.importorskip("codespell_lib", reason="codespell is not installed: pip install '.[dev]'")
    wrong = tmp_path / "wrong.md"
    wrong.write_text("This sentance is wrong.")
    places = [str(place) for place in (*PAGES, ROOT / "CHANGELOG.md", *notebooks.scripts(), ROOT / "src")]
    for given, code in (([str(wrong)], 65), (places, 0)):
        command = [sys.executable, "-m", "codespell_lib", "--ignore-words-list", NAMES, *given]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == code, done.stdout + done.stderr
