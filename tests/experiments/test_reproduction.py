"""Paper beside ours: the rows, the page, and that the committed page is the one the stored results give."""

import re
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from poela_experiments.counterexamples import NEEDED, SAMPLES
from poela_experiments.frame.figures import comparison_figure
from poela_experiments.frame.judging import AGREES, compared
from poela_experiments.frame.published import Number, PublishedTable
from poela_experiments.frame.results import Cell, Report, ResultTable
from poela_experiments.pages import coverage
from poela_experiments.pages.reproduction import FINDINGS, HEAD, reproduction_page, stored_comparisons
from poela_experiments.pages.stored import stored_table
from poela_experiments.sepsis_tables import SEPSIS
from poela_experiments.tumor import EXCESS, TUMOR, VALUE
from poela_experiments.weights import WEIGHT, WEIGHTS

DOCS = Path(__file__).parents[2] / "docs"


def test_difference_and_its_error() -> None:
    (row,) = compared(TUMOR["main"], [Number("POELA", "non-Markov", VALUE, 92.92, 1.26)])
    assert row["difference"] == pytest.approx(-3.0)
    assert row["± difference"] == pytest.approx(2.1)  # √(1.68² + 1.26²)
    assert row[AGREES] == "yes"


def test_far_numbers_do_not_agree_and_single_runs_are_not_judged() -> None:
    far, single, extra = compared(
        TUMOR["main"],
        [
            Number("POELA", "non-Markov", VALUE, 80.0, 1.0),
            Number("POELA", "non-Markov", VALUE, 80.0),
            Number("CQL", "non-Markov", VALUE, 80.0, 1.0),
        ],
    )
    assert (far[AGREES], single[AGREES], extra[AGREES]) == ("no", "", "")
    assert extra["paper"] is None
    assert extra["difference"] is None


def test_a_number_that_is_not_to_be_judged_shows_its_errors_without_a_verdict() -> None:
    both = [Number("POELA", "non-Markov", VALUE, 80.0, 1.26, judged=judged) for judged in (True, False)]
    row, unjudged = compared(TUMOR["main"], both)
    assert unjudged["± ours"] == 1.26
    assert unjudged["± difference"] == pytest.approx(2.1)  # √(1.68² + 1.26²)
    assert (row.pop(AGREES), unjudged.pop(AGREES)) == ("no", "")
    assert row == unjudged


def test_error_of_the_paper_from_its_bounds() -> None:
    """By hand: POELA on sepsis has 92.32 between 90.91 and 95.83, which are 3.29 standard errors apart."""
    near, far, clinicians = compared(
        SEPSIS["main"],
        [
            Number("POELA", "", "SNTIS", 90.0, 0.5),
            Number("POELA", "", "SNTIS", 89.0, 0.5),
            Number("clinicians", "", "SNTIS", 80.0, 0.5),
        ],
    )
    assert near["± paper"] == pytest.approx(4.92 / 3.29)
    assert near["± difference"] == pytest.approx((0.25 + (4.92 / 3.29) ** 2) ** 0.5)
    assert (near[AGREES], far[AGREES], clinicians[AGREES]) == ("yes", "no", "yes")  # 1.47, 2.10 and 1.25 apart
    assert clinicians["± paper"] == pytest.approx(2.39 / 3.29)


def test_nothing_is_judged_where_the_paper_gives_no_error() -> None:
    (ess,) = compared(SEPSIS["main"], [Number("clinicians", "", "ESS", 2995.0, 1.0)])
    (months,) = compared(TUMOR["main"], [Number("9 months", "Markov", VALUE, 68.0, 0.1)])
    for row in (ess, months):
        assert row["difference"] is not None
        assert (row["± paper"], row["± difference"], row[AGREES]) == (None, None, "")


def test_counts_agree_where_they_are_equal() -> None:
    numbers = [Number("eligible actions", "H = 2", SAMPLES, count, error=0.0) for count in (16.0, 32.0)]
    assert [row[AGREES] for row in compared(NEEDED, numbers)] == ["yes", "no"]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    rows = compared(
        TUMOR["main"],
        [
            Number("POELA", "non-Markov", VALUE, 95.0, 1.0),
            Number("POELA", "non-Markov", EXCESS, 20.0, 1.0),
            Number("CQL", "non-Markov", VALUE, 50.0, 1.0),
            Number("PO-CRM", "non-Markov", VALUE, 90.0, 1.0),
        ],
    )
    where = {"contexts": "non-Markov", "behavior": "known", "protocol": "final"}
    truths = {"POELA": (94.0, 96.0, 95.0), "PO-CRM": (95.0, 88.0, 87.0)}
    each: list[dict[str, Cell]] = [
        {**where, "learner": name, "data set": number, "true value": truth}
        for name, own in truths.items()
        for number, truth in enumerate(own)
    ]
    other = ResultTable("data-sets", "another table", each, "poela reproduce x")
    Report("tumor", (ResultTable("main", "Tumor", rows, "poela reproduce tumor", ("made up",)), other)).write(tmp_path)
    counts = {"IS + CRM": (10.0, 30.0), "eligible actions": (16.0, 16.0)}
    numbers = [Number(name, f"H = {h}", SAMPLES, counts[name][h - 2], error=0.0) for name in counts for h in (2, 3)]
    Report("counts", (ResultTable("needed", "Counts", compared(NEEDED, numbers), "poela"),)).write(tmp_path)
    return tmp_path


def test_page_says_what_agrees_and_what_does_not(results: Path) -> None:
    assert [comparison.label for comparison in stored_comparisons(results)] == [TUMOR["main"].label, NEEDED.label]
    page = reproduction_page(results)
    assert "Agree: POELA, true value, non-Markov; PO-CRM, true value, non-Markov." in page
    assert "Do not agree: POELA, SNTIS - truth, non-Markov (ours 21.28 higher)." in page
    assert "| non-Markov | CQL | true value |  | 50.00 ± 1.00 |  |  |" in page
    assert "(`tab:tumor_result_main`) | 22 | 3 | 2 | 1 | 0 |" in page
    assert "(`tab:cartpole_results`) | 28 | none: no stored result | | | |" in page
    assert "made up." in page
    assert "(`tab:cartpole_results`): nothing of it." in page
    assert "IS + CRM: from 10 to 30 episodes (paper 32 to 128), at least 3 times as many" in page
    assert "eligible actions: no more episodes as H grows (16; paper 16)." in page


def test_order_of_the_learners_data_set_by_data_set(results: Path) -> None:
    """By hand: the differences -1, 8, 8 have mean 5 and a standard error of √27 / √3 = 3."""
    page = reproduction_page(results)
    assert "| non-Markov | true value | PO-CRM | +18.60 | +5.00 ± 3.00 | +1.7 | 2 of 3 | open |" in page
    assert "POELA is above PO-CRM in 2 of 3." in page


def stored(results: Path, name: str, table: PublishedTable, *numbers: Number) -> str:
    """The page, once these numbers have been stored as the only table of an experiment."""
    Report(name, (ResultTable(table.key, name, compared(table, numbers), "poela"),)).write(results)
    return reproduction_page(results)


def test_page_says_why_nothing_is_judged(tmp_path: Path) -> None:
    sntis, ess = Number("POELA", "", "SNTIS", 60.0, 5.0, judged=False), Number("POELA", "", "ESS", 7.0)
    clinicians = Number("clinicians", "", "SNTIS", 81.0, 1.0)
    of_protocol = "1 of policies that the paper's protocol would not choose (see the notes)"
    neither = "1 without an error (ours and the paper's)"
    page = stored(tmp_path, "sepsis", SEPSIS["main"], sntis, ess)
    assert f"Nothing can be judged: {of_protocol}; {neither}." in page
    page = stored(tmp_path, "sepsis", SEPSIS["main"], sntis, ess, clinicians)
    assert f"Agree: clinicians, SNTIS.\nNot judged: {of_protocol}; {neither}." in page
    months, poela = Number("9 months", "Markov", VALUE, 67.0, 0.1), Number("POELA", "Markov", VALUE, 90.0)
    page = stored(tmp_path, "tumor", TUMOR["main"], months, poela)
    assert "Nothing can be judged: 1 without an error (the paper's); 1 without an error (ours)." in page


def test_a_number_in_two_stored_tables_counts_once(tmp_path: Path) -> None:
    stored(tmp_path, "a", TUMOR["main"], Number("POELA", "Markov", VALUE, 90.0, 1.0))
    page = stored(
        tmp_path,
        "b",
        TUMOR["main"],
        Number("POELA", "Markov", VALUE, 10.0, 1.0),
        Number("POELA", "non-Markov", VALUE, 10.0, 1.0),
    )
    assert f"(`{TUMOR['main'].label}`) | 22 | 2 | 1 | 1 | 0 |" in page


def test_a_stored_table_knows_its_experiment(tmp_path: Path) -> None:
    page = stored(tmp_path, "tumor-weights", WEIGHTS["markov"], Number("POELA", "Markov", WEIGHT, 0.1, 0.01))
    (comparison,) = stored_comparisons(tmp_path)
    assert (comparison.name, comparison.experiment) == ("tumor-weights/markov", "tumor-weights")
    assert "[tumor-weights](results/tumor-weights.md)" in page
    assert "[findings](deviations.md#tumor)" in page


def test_every_comparison_has_a_picture_that_the_page_shows(results: Path) -> None:
    pytest.importorskip("matplotlib")
    assert "(results/tumor/main.svg)" in reproduction_page(results)
    assert not (results / "tumor" / "data-sets.svg").exists()  # no comparison
    again = results / "again"
    assert comparison_figure(again, pq.read_table(results / "tumor" / "main.parquet").to_pylist())
    assert (results / "again.svg").read_bytes() == (results / "tumor" / "main.svg").read_bytes()
    assert (results / "again.png").read_bytes()[1:4] == b"PNG"


def test_pictures_are_left_out_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    rows = compared(TUMOR["main"], [Number("POELA", "non-Markov", VALUE, 95.0, 1.0)])
    Report("tumor", (ResultTable("main", "Tumor", rows, "poela reproduce tumor"),)).write(tmp_path)
    assert {path.name for path in tmp_path.rglob("*.*")} == {"tumor.md", "main.parquet"}


def test_places_that_the_page_points_to_exist() -> None:
    titles = re.findall("^#+ (.+)$", (DOCS / "deviations.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    anchors = {re.sub("[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}
    assert {*FINDINGS.values(), *re.findall(r"deviations\.md#([\w-]+)", HEAD)} <= anchors
    assert "deviations.md#disclosed" in HEAD


def test_committed_page_is_that_of_the_stored_results() -> None:
    """If this fails: python -m poela_experiments.pages.reproduction."""
    assert (DOCS / "reproduction.md").read_text(encoding="utf-8") == reproduction_page(DOCS / "results")


def test_committed_page_on_intervals_is_that_of_the_stored_results() -> None:
    """If this fails: python -m poela_experiments.pages.coverage docs/intervals.md."""
    page = (DOCS / "intervals.md").read_text(encoding="utf-8")
    assert coverage.filled(page, coverage.coverage_summary(DOCS / "results")) == page


def test_every_stored_result_loads_and_is_named_by_its_key() -> None:
    files = sorted((DOCS / "results").rglob("*.parquet"))
    assert len(files) > 50
    for path in files:
        table = stored_table(path)
        assert table.rows, path
        assert table.name == f"{table.experiment}/{path.stem}"
        assert path.parent.parent == DOCS / "results"
        assert not re.search(r"-\d+$", path.stem), path


def test_another_table_renames_none(results: Path) -> None:
    """A report with one table more, in front, writes the others to the same files."""
    before = {path.name for path in results.glob("tumor/*")}
    rows: list[dict[str, Cell]] = [{"a": 1}]
    tables = [ResultTable(key, "title", rows, "poela") for key in ("first", "main", "data-sets")]
    Report("tumor", tuple(tables)).write(results)
    assert {path.name for path in results.glob("tumor/*")} == before | {"first.parquet"}
