"""What MkDocs does not do by itself: pages from notebooks, commands and files of the repository, and their places."""

import ast
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]  # MkDocs runs this file by itself, without its neighbours

from scripts.evidence import evidence_page, noted, state_line  # noqa: E402
from scripts.site.commands import commands_page  # noqa: E402
from scripts.site.notebooks import page_of  # noqa: E402

DOCS = ROOT / "docs"
COPIES = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md", "security.md": "SECURITY.md"}
TUTORIALS = (
    "incentives",
    "fashion",
    "hospital",
    "clicks",
    "tutoring",
    "doses",
    "gymnasium",
    "cluster",
    "rounds",
)  # in this order, then all others
PAPER = ("counterexamples", "tumor", "tumor-order", "sepsis", "cartpole", "mujoco", "values", "behavior")
MEASURED = (
    *("claims", "shown-gain", "headline", "usual-ways", "real-trials", "holes", "rounds", "plain", "limits"),
    *("coverage", "d3rlpy", "speed", "mutants", "hostile"),
)  # in this order, then all others
PRINTED = re.compile(r'<div class="highlight">(.*?)</div>', re.DOTALL)
FORMULA = re.compile(r'<math display="block".*?</math>', re.DOTALL)
COLUMNS = re.compile(r"\S {2,}\S|\n +\S")  # which sentences do not have
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#:]+)\)")


def on_config(config: Any) -> Any:
    """Put pages that are found into the navigation."""
    for entry in config.nav:
        if "Tutorials" in entry:
            entry["Tutorials"] = _tutorials()
        if "The paper" in entry:
            entry["The paper"] += _results(PAPER)
        if "Measured" in entry:
            entry["Measured"] += _results(MEASURED)
        if "Guides" in entry and (DOCS / "continuous.md").exists():
            entry["Guides"].insert(4, "continuous.md")
    return config


def _results(first: tuple[str, ...]) -> list[str]:
    """Pages under results in reading order; those that no list names stand at the end of what is measured."""
    names = {page.stem for page in (DOCS / "results").glob("*.md")}
    others = sorted(names - {*PAPER, *MEASURED}) if first == MEASURED else []
    return [f"results/{name}.md" for name in (*first, *others) if name in names]


def _tutorials() -> list[str]:
    order = {name: place for place, name in enumerate(TUTORIALS)}
    names = [notebook.stem for notebook in (DOCS / "tutorials").glob("*.ipynb")]
    return [f"tutorials/{name}.md" for name in sorted(names, key=lambda name: (order.get(name, len(order)), name))]


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made."""
    made = {"reference/commands.md": commands_page(), "benchmarks.md": _benchmarks()}
    made["results/evidence.md"] = evidence_page()
    for notebook in sorted((DOCS / "tutorials").glob("*.ipynb")):
        made[f"tutorials/{notebook.stem}.md"] = page_of(nbformat.read(notebook, as_version=4), notebook.stem)
    for page, source in COPIES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        made[page] = text.replace("](docs/", "](")
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    return files


def _benchmarks() -> str:
    rows = []
    for script in sorted((ROOT / "benchmarks").glob("*.py")):
        about = (ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or "").split("\n\n")[0]
        rows.append(f"| `{script.name}` | {' '.join(about.split()).replace('|', '/')} |\n")
    head = (ROOT / "scripts" / "site" / "benchmarks.md").read_text(encoding="utf-8")
    return f"{head}\n| script | what it measures |\n|---|---|\n{''.join(rows)}"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links to folders and to what lies outside of the site are names there."""
    name = str(page.file.src_uri).removesuffix(".md")
    key = name.removeprefix("results/") if name.startswith("results/") else f"../{name}"
    if key in noted():
        markdown = re.sub(r"(?m)^(# .+)$", lambda title: f"{title[1]}\n\n{state_line(key)}", markdown, count=1)
    folder = (DOCS / page.file.src_uri).parent

    def link(found: re.Match[str]) -> str:
        target = folder / found[2]
        inside = DOCS in target.resolve().parents
        return found[1] if target.is_dir() or (target.exists() and not inside) else found[0]

    return LINK.sub(link, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """A corner of a table that says nothing is no heading, errors stay beside their numbers, and sentences wrap."""
    tidy = html.replace("<th></th>", "<td></td>").replace(" ± ", "\u00a0±\u00a0")
    tidy = FORMULA.sub(lambda formula: f'<span class="formula" tabindex="0">{formula[0]}</span>', tidy)  # which scrolls
    return PRINTED.sub(
        lambda block: block[0] if COLUMNS.search(block[1]) else f'<div class="prose">{block[0]}</div>', tidy
    )


def on_post_page(output: str, **_: Any) -> str:
    """Names for what the theme leaves without one, for those who listen to pages."""
    named = output.replace(
        'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'
    )
    return re.sub(r'aria-labelledby="__nav_([\d_]+)_label"', r'aria-label="Pages of part \1"', named)
