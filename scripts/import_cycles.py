"""Cycles of imports in the library, imports inside functions counted: `python scripts/import_cycles.py`."""

import ast
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1] / "src"
# Imports inside functions that close a cycle: methods that reach for what is made of their own class. No others may.
EDGES = (
    ("poela.cli", "poela.cli.application"),
    ("poela.data.done", "poela.behavior.adherence"),
    ("poela.eligibility.fitted", "poela.eligibility.files"),
    ("poela.eligibility.rules", "poela.eligibility.fitting"),
    ("poela.policies.decides", "poela.policies.deciding"),
    ("poela.policies.gaussian", "poela.policies.storage"),
    ("poela.policies.ruled", "poela.policies.storage"),
    ("poela.studies.study", "poela.report.page"),
    ("poela.studies.study", "poela.report.plots"),
    ("poela.studies.study", "poela.studies.by_group"),
)


def modules(package: str) -> dict[str, Path]:
    """Every module of the package, by its name."""
    names = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def imports_of(path: Path, known: Mapping[str, Path]) -> set[str]:
    """The modules that a file imports, anywhere in it but for type checkers alone."""
    imported = set()
    for node in _at_run_time(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported |= {f"{node.module}.{alias.name}" for alias in node.names}
            imported.add(node.module)
    return {name for name in imported if name in known}


def _at_run_time(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from _at_run_time(child)


def cycles(package: str = "poela", without: Collection[tuple[str, str]] = ()) -> list[list[str]]:
    """Groups of modules that import each other, `without` some edges: each group once, the largest first."""
    known = modules(package)
    graph = {name: imports_of(path, known) - {name, package} for name, path in known.items()}
    for name, other in without:
        graph[name].discard(other)
    reach = {name: _reached(name, graph) for name in graph}
    groups = {tuple(sorted({name} | {other for other in reach[name] if name in reach[other]})) for name in graph}
    return sorted((list(group) for group in groups if len(group) > 1), key=lambda group: (-len(group), group))


def _reached(start: str, graph: Mapping[str, set[str]]) -> set[str]:
    seen, waiting = set[str](), [*graph[start]]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += graph[name]
    return seen


if __name__ == "__main__":
    groups = cycles()
    for group in groups:
        print(" <-> ".join(group))
    print(
        f"{len(groups)} cycles; {len(cycles(without=EDGES))} without the {len(EDGES)} imports in functions named here"
    )
    sys.exit(len(cycles(without=EDGES)))
