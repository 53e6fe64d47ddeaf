"""Cycles of imports in the library: `python scripts/import_cycles.py`.

Imports inside functions count, and so do the modules that tables name as text ("module:attribute").
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1] / "src"
NAMED = re.compile(r"(poela(?:\.\w+)+):\w+")  # how tables name a thing that is imported when it is asked for
EDGE = "poela.core.forward"  # the one place that names what lies above it


def modules(package: str) -> dict[str, Path]:
    """Every module of the package, by its name."""
    names = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def imports_of(path: Path, known: Mapping[str, Path]) -> set[str]:
    """The modules that a file imports, anywhere in it but for type checkers alone, and those that its tables name."""
    imported = set()
    for node in _at_run_time(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            imported |= names if names <= set(known) else {*names, node.module}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and (named := NAMED.fullmatch(node.value)):
            imported.add(named[1])
    return {name for name in imported if name in known}


def _at_run_time(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from _at_run_time(child)


def cycles(package: str = "poela") -> list[list[str]]:
    """Groups of modules that import each other: each group once, the largest first."""
    known = modules(package)
    graph = {name: imports_of(path, known) - {name, package} for name, path in known.items()}
    graph[EDGE] = set()
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
    forward = sorted(imports_of(modules("poela")[EDGE], modules("poela")))
    print(f"{len(groups)} cycles; {EDGE} alone names what lies above it: {', '.join(forward)}")
    sys.exit(len(groups))
