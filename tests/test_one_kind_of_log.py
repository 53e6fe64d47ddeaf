"""There is one kind of log: what its actions are is known to the action space, which answers what others ask."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
HOME = SOURCE / "poela" / "data" / "action_space.py"
KINDS = {"ActionSpace", "Finite", "Box"}


def names_kind(node: ast.AST) -> bool:
    """Whether this is one of the kinds, or its name."""
    owner = node.value if isinstance(node, ast.Attribute) else node
    return isinstance(owner, ast.Name) and owner.id in KINDS


def asks_space(node: ast.AST) -> bool:
    """Whether this is the kind, the type or the width of somebody's action space, or the width of actions."""
    if isinstance(node, ast.Attribute) and node.attr in ("kind", "n_components"):
        return node.attr == "n_components" or "action_space" in ast.unparse(node) or "acts_in" in ast.unparse(node)
    owner = ast.unparse(node.value) if isinstance(node, ast.Attribute) and node.attr == "ndim" else ""
    return owner.endswith((".actions", "['actions']"))


def checks_in(source: str) -> Iterator[int]:
    """The lines that tell kinds of logs apart by themselves."""
    for node in ast.walk(ast.parse(source)):
        called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
        if isinstance(node, ast.Attribute) and node.attr == "is_real":
            yield node.lineno
        elif isinstance(node, ast.Call) and called in ("isinstance", "issubclass"):
            if any(names_kind(part) for part in ast.walk(node.args[1])):
                yield node.lineno
        elif (
            isinstance(node, ast.Compare)
            and any(
                names_kind(part) or asks_space(part)
                for side in (node.left, *node.comparators)
                for part in ast.walk(side)
            )
        ) or (
            isinstance(node, ast.If | ast.IfExp | ast.BoolOp)
            and any(
                asks_space(part)
                for side in ([node.test] if not isinstance(node, ast.BoolOp) else node.values)
                for part in ast.walk(side)
            )
        ):
            yield node.lineno


@pytest.mark.parametrize(
    "line",
    [
        "a = logs.is_real",
        "isinstance(space, Box)",
        "isinstance(space, (int, Finite))",
        "space.kind == Box.kind",
        "logs.action_space.kind == 'box'",
        "type(space) is Finite",
        "logs.actions.ndim == 2",
        "a = 1 if given['actions'].ndim == 2 else 2",
        "a = 1 if logs.action_space.n_components else 2",
    ],
)
def test_checks_are_found(line: str) -> None:
    assert set(checks_in(line)) == {1}


def test_nobody_else_tells_kinds_of_logs_apart() -> None:
    files = [path for path in SOURCE.rglob("*.py") if path != HOME]
    assert len(files) > 100
    found = {
        f"{path.relative_to(SOURCE)}:{line}" for path in files for line in checks_in(path.read_text(encoding="utf-8"))
    }
    assert found == set()
