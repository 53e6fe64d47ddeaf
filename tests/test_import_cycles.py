"""No import cycles, imports inside functions counted, and one place that looks the other way."""

from pathlib import Path

from scripts.import_cycles import EDGE, cycles, imports_of, modules


def test_no_cycles() -> None:
    assert cycles() == []


def test_the_one_place_that_looks_ahead_names_three_things() -> None:
    known = modules("poela")
    ahead = {"poela.behavior.adherence", "poela.report.page", "poela.report.plots"}
    assert imports_of(known[EDGE], known) == ahead


def test_imports_in_functions_and_names_in_tables_count(tmp_path: Path) -> None:
    known = dict.fromkeys(("poela.core", "poela.core.errors", "poela.core.ragged", "poela.core.draws"), tmp_path)
    text = """
from typing import TYPE_CHECKING
from poela.core import errors
if TYPE_CHECKING:
    from poela.core.arrays import FloatArray
    from poela.core.draws import uniforms
def late():
    import poela.core.errors
TABLE = {"sum": "poela.core.ragged:segment_sums"}
"""
    (tmp_path / "one.py").write_text(text)
    assert imports_of(tmp_path / "one.py", known) == {"poela.core.errors", "poela.core.ragged"}
    (tmp_path / "two.py").write_text("from poela.core import errors, room\n")
    assert imports_of(tmp_path / "two.py", known) == {"poela.core", "poela.core.errors"}
