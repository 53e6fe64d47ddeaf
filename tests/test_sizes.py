"""Small files and small functions: what can be read at once can be changed with care."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1]
MOST_LINES, MOST_OF_A_FUNCTION = 400, 60
FILES = sorted(path for home in ("src", "benchmarks/coverage_of_intervals") for path in (SOURCE / home).rglob("*.py"))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_no_file_is_too_long() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert len(lengths) > 100
    assert {str(path.relative_to(SOURCE)): n for path, n in lengths.items() if n > MOST_LINES} == {}


def test_no_function_is_too_long() -> None:
    long = {
        f"{path.relative_to(SOURCE)}:{function.name}": length
        for path in FILES
        for function in functions(path)
        if (length := (function.end_lineno or 0) - function.lineno + 1) > MOST_OF_A_FUNCTION
    }
    assert long == {}
