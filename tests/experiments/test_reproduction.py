"""Paper beside ours: the rows, the page, and that the committed page is the one the stored results give."""

from pathlib import Path

import pytest

from poela.experiments.comparison import AGREES, compared
from poela.experiments.published.counterexamples import COUNTEREXAMPLES, SAMPLES
from poela.experiments.published.records import Number
from poela.experiments.published.tumor import EXCESS, TUMOR, VALUE
from poela.experiments.reproduction import reproduction_page, stored_comparisons
from poela.experiments.results import Report, ResultTable

DOCS = Path(__file__).parents[2] / "docs"


def test_difference_and_its_error() -> None:
    (row,) = compared(TUMOR[0], [Number("POELA", "non-Markov", VALUE, 92.92, 1.26)])
    assert row["difference"] == pytest.approx(-3.0)
    assert row["± difference"] == pytest.approx(2.1)  # √(1.68² + 1.26²)
    assert row[AGREES] == "yes"


def test_far_numbers_do_not_agree_and_single_runs_are_not_judged() -> None:
    far, single, extra = compared(
        TUMOR[0],
        [
            Number("POELA", "non-Markov", VALUE, 80.0, 1.0),
            Number("POELA", "non-Markov", VALUE, 80.0),
            Number("CQL", "non-Markov", VALUE, 80.0, 1.0),
        ],
    )
    assert (far[AGREES], single[AGREES], extra[AGREES]) == ("no", "", "")
    assert extra["paper"] is None
    assert extra["difference"] is None


@pytest.fixture
def results(tmp_path: Path) -> Path:
    rows = compared(
        TUMOR[0],
        [
            Number("POELA", "non-Markov", VALUE, 95.0, 1.0),
            Number("POELA", "non-Markov", EXCESS, 20.0, 1.0),
            Number("CQL", "non-Markov", VALUE, 50.0, 1.0),
        ],
    )
    other = ResultTable("another table", [{"x": 1}], "poela reproduce x")
    Report("tumor", (ResultTable("Tumor", rows, "poela reproduce tumor", ("made up",)), other)).write(tmp_path)
    counts = {"IS + CRM": (10.0, 30.0), "eligible actions": (16.0, 16.0)}
    numbers = [Number(name, f"H = {h}", SAMPLES, counts[name][h - 2]) for name in counts for h in (2, 3)]
    Report("counts", (ResultTable("Counts", compared(COUNTEREXAMPLES, numbers), "poela"),)).write(tmp_path)
    return tmp_path


def test_page_says_what_agrees_and_what_does_not(results: Path) -> None:
    assert [comparison.label for comparison in stored_comparisons(results)] == [TUMOR[0].label, COUNTEREXAMPLES.label]
    page = reproduction_page(results)
    assert "Agree: POELA, true value, non-Markov." in page
    assert "Do not agree: POELA, SNTIS - truth, non-Markov (ours 21.28 higher)." in page
    assert "| non-Markov | CQL | true value |  | 50.00 ± 1.00 |  |  |" in page
    assert "(`tab:tumor_result_main`) | 22 | 2 | 1 | 1 | 0 |" in page
    assert "(`tab:cartpole_results`) | 28 | none: no stored result | | | |" in page
    assert "made up." in page
    assert "IS + CRM: from 10 to 30 episodes (paper 32 to 128), at least 3 times as many" in page
    assert "eligible actions: no more episodes as H grows (16; paper 16)." in page


def test_committed_page_is_that_of_the_stored_results() -> None:
    """If this fails: python -m poela.experiments.reproduction."""
    assert (DOCS / "reproduction.md").read_text(encoding="utf-8") == reproduction_page(DOCS / "results")
