"""How many small changes of the code do the tests notice? `make mutants`, or this with `--count 40 --seed 1`.

Each mutant is one change of one line in `src/poela/stats`, `evaluation` or `studies`, drawn with the seed, in a copy
of the repository. It is tried by the module's own examples and by the test files that import the module. What no test
notices survives, and is printed: it wants a test, or is a change that changes nothing.

    python scripts/mutants.py --named [--only support]

tries the mistakes of named_mutants.toml instead, each by the test that is there for it, and prints a table.
"""

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("stats", "evaluation", "studies")
FAILED = 1  # what pytest says where a test fails, and not that there is none
SECONDS = 120  # of processor time for the tests of one mutant: one that takes longer is noticed
SWAPS: dict[type[ast.AST], str] = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">",
    ast.Eq: "!=", ast.NotEq: "==", ast.And: "or", ast.Or: "and", ast.In: "not in", ast.NotIn: "in", ast.Is: "is not",
    ast.IsNot: "is",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change: the text from `start` to `end` of a module becomes another."""

    module: Path
    line: int
    start: int
    end: int
    text: str

    def of(self, source: str) -> str:
        """The module with the change.

        >>> Mutant(Path("a.py"), 1, 4, 5, "2").of("x = 1")
        'x = 2'
        """
        return source[: self.start] + self.text + source[self.end :]


def mutants_of(module: Path, source: str) -> Iterator[Mutant]:
    """Every change of an operator, a number or a truth value inside a function.

    >>> source = "def f(a):\\n    return a + 1"
    >>> [mutant.of(source) for mutant in mutants_of(Path("m.py"), source)]
    ['def f(a):\\n    return a - 1', 'def f(a):\\n    return a + 2']
    """
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    plain = source.encode()

    def place(line: int, column: int) -> int:
        return len(plain[: starts[line - 1] + column].decode())

    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    for node in (inner for function in functions for statement in function.body for inner in ast.walk(statement)):
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            other = str(not node.value) if isinstance(node.value, bool) else str(node.value + 1)
            yield Mutant(
                module,
                node.lineno,
                place(node.lineno, node.col_offset),
                place(node.end_lineno or 0, node.end_col_offset or 0),
                other,
            )
        for left, operator, right in _operators(node):
            between = place(left.end_lineno or 0, left.end_col_offset or 0), place(right.lineno, right.col_offset)
            gap, old = source[between[0] : between[1]], _text_of(operator)
            if type(operator) in SWAPS and (match := re.fullmatch(rf"([\s()]*){old}([\s(]*)", gap)):
                start = between[0] + match.end(1)
                yield Mutant(module, left.lineno, start, between[1] - len(match[2]), SWAPS[type(operator)])


def _operators(node: ast.AST) -> Iterator[tuple[ast.expr, ast.AST, ast.expr]]:
    if isinstance(node, ast.BinOp):
        yield node.left, node.op, node.right
    elif isinstance(node, ast.BoolOp):
        for left, right in zip(node.values, node.values[1:], strict=False):
            yield left, node.op, right
    elif isinstance(node, ast.Compare):
        yield from zip([node.left, *node.comparators], node.ops, node.comparators, strict=False)


def _text_of(operator: ast.AST) -> str:
    opposite: dict[type[ast.AST], str] = {
        ast.Add: "+",
        ast.Sub: "-",
        ast.Mult: "*",
        ast.Div: "/",
        ast.And: "and",
        ast.Or: "or",
    }
    compared: dict[type[ast.AST], str] = {
        ast.Lt: "<",
        ast.LtE: "<=",
        ast.Gt: ">",
        ast.GtE: ">=",
        ast.Eq: "==",
        ast.NotEq: "!=",
    }
    words: dict[type[ast.AST], str] = {ast.In: "in", ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not"}
    return re.escape({**opposite, **compared, **words}.get(type(operator), "\0"))


def tried_by(module: Path) -> list[str]:
    """The module's own examples, and the test files that import it."""
    name = ".".join(module.relative_to(ROOT / "src").with_suffix("").parts)
    files = [path for path in sorted((ROOT / "tests").rglob("test_*.py")) if f"from {name} import" in path.read_text()]
    return [str(path.relative_to(ROOT)) for path in (module, *files)]


def fails(tests: Sequence[str], copy: Path) -> bool:
    """Whether one of these tests fails, or never ends, with the modules of the copy."""
    return tested(tests, copy) != 0


def tested(tests: Sequence[str], copy: Path) -> int:
    """What pytest says of these tests, with the modules of the copy."""
    command = [sys.executable, "-m", "pytest", "-n0", "-x", "-q", "-p", "no:cacheprovider", *tests]
    limited = ["bash", "-c", f'ulimit -t {SECONDS}; exec "$@"', "bash", *command]
    env = {**os.environ, "PYTHONPATH": f"{copy / 'src'}{os.pathsep}{copy}", "OMP_NUM_THREADS": "1", "CI": "1"}
    return subprocess.run(limited, cwd=copy, env=env, capture_output=True).returncode


def noticed(mutant: Mutant, copy: Path) -> bool:
    """Whether a test fails (or never ends) with this change."""
    place = copy / mutant.module.relative_to(ROOT)
    source = place.read_text(encoding="utf-8")
    place.write_text(mutant.of(source), encoding="utf-8")
    try:
        return fails(tried_by(mutant.module), copy)
    finally:
        place.write_text(source, encoding="utf-8")


def named_mutants() -> dict[str, dict[str, str]]:
    """The mistakes that have a test of their own, by name."""
    return tomllib.loads((ROOT / "scripts" / "named_mutants.toml").read_text("utf-8"))


def try_named(only: str, copy: Path) -> bool:
    """Whether the test of each of these mistakes passes without it and fails with it; prints a table."""
    print("| mistake | where | noticed by | |\n|---|---|---|---|")
    every = True
    for name, one in named_mutants().items():
        if only not in name:
            continue
        place = copy / "src" / "poela" / one["file"]
        source = place.read_text(encoding="utf-8")
        sound = tested([one["test"]], copy) == 0
        place.write_text(source.replace(one["old"], one["new"]), encoding="utf-8")
        seen = tested([one["test"]], copy) == FAILED
        place.write_text(source, encoding="utf-8")
        every = every and sound and seen
        said = ("noticed" if seen else "**not noticed**") if sound else "**fails without it**"
        file, _, test = one["test"].partition("::")
        print(f"| {name} | `{one['file']}` | `{Path(file).name}`{f': `{test}`' * bool(test)} | {said} |", flush=True)
    return every


def copied(copy: Path) -> None:
    """What tests need, in another place."""
    for name in ("src", "tests", "pyproject.toml", "CONTRIBUTING.md", "scripts", "benchmarks", "docs"):
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, copy / name)


def main() -> None:
    """The command line."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--count", type=int, default=40)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--only", default="", help="modules whose path has this in it")
    asked.add_argument("--named", action="store_true", help="the mistakes of named_mutants.toml")
    given = asked.parse_args()
    if given.named:
        with tempfile.TemporaryDirectory() as folder:
            copied(Path(folder))
            sys.exit(not try_named(given.only, Path(folder)))
    modules = [path for room in ROOMS for path in sorted((ROOT / "src" / "poela" / room).glob("*.py"))]
    every = [one for path in modules if given.only in str(path) for one in mutants_of(path, path.read_text("utf-8"))]
    drawn = random.Random(given.seed).sample(every, min(given.count, len(every)))
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        copied(copy)
        survived = []
        if broken := [module for module in sorted({one.module for one in drawn}) if fails(tried_by(module), copy)]:
            sys.exit(f"tests of these fail without any change: {', '.join(map(str, broken))}")
        for mutant in drawn:
            if not noticed(mutant, copy):
                survived.append(mutant)
                old = mutant.module.read_text("utf-8")[mutant.start : mutant.end]
                where = mutant.module.relative_to(ROOT)
                print(f"survived: {where}:{mutant.line}: {old!r} → {mutant.text!r}", flush=True)
    counts = f"{len(drawn) - len(survived)} of {len(drawn)} mutants noticed"
    print(f"{counts}, seed {given.seed}, of {len(every):,} that there are")


if __name__ == "__main__":
    main()
