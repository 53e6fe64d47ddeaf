"""The public names: importable one by one, known to type checkers, and light to import."""

import ast
import subprocess
import sys
from pathlib import Path

import poela


def names_for_type_checkers() -> dict[str, str]:
    tree = ast.parse(Path(poela.__file__).read_text())
    return {
        alias.name: str(node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("poela.")
        for alias in node.names
    }


def test_type_checkers_and_the_interpreter_see_the_same_names() -> None:
    assert names_for_type_checkers() == poela._HOME


def test_every_public_name_can_be_had() -> None:
    for name in poela._HOME:
        assert getattr(poela, name) is not None


def test_import_does_not_import_torch() -> None:
    code = "import sys, poela; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
