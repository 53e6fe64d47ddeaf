"""Paper beside ours: the rows, the pages, and that the committed page is the one the stored results give."""

import re
import shutil
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from poela.core.files import write_json
from poela_experiments.counterexamples import NEEDED, SAMPLES
from poela_experiments.frame.figures import comparison_figure
from poela_experiments.frame.judging import AGREES, VAGUE, compared, judged_today
from poela_experiments.frame.published import PUBLISHED, Number, PublishedTable
from poela_experiments.frame.results import NOT_REGENERATED, Cell, Report, ResultTable
from poela_experiments.frame.settings import described
from poela_experiments.pages.paper_items import GRIDS, ITEMS
from poela_experiments.pages.reproduction import facts, reproduction_page, stored_reports, summary_rows, write_pages
from poela_experiments.pages.stored import stored_table
from poela_experiments.sepsis_tables import SEPSIS
from poela_experiments.tumor import EXCESS, TUMOR, VALUE

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


def test_numbers_of_few_data_sets_are_judged_by_student() -> None:
    """Five data sets on either side, equal errors: 8 degrees of freedom and a quantile of 2.31."""
    rows = [["", "value", "10.0±1.0"]]
    paper = PublishedTable.of("x", {"label": "x", "title": "x", "columns": ["A"], "rows": rows, "runs": 5})
    far = 10.0 + 2**0.5 * 2.2  # 2.2 standard errors of the difference
    few, many = (Number("A", "", "value", far, 1.0, runs=runs) for runs in (5, 10**6))
    assert [row[AGREES] for row in compared(paper, [few])] == ["yes"]
    assert [row[AGREES] for row in compared(replace(paper, runs=None), [many])] == ["no"]


def test_error_of_the_paper_from_its_bounds_and_no_verdict_on_other_data() -> None:
    """By hand: POELA on sepsis has 92.32 between 90.91 and 95.83, which are 3.29 standard errors apart."""
    (row,) = compared(SEPSIS["main"], [Number("POELA", "", "SNTIS", 90.0, 0.5)])
    assert row["± paper"] == pytest.approx(4.92 / 3.29)
    assert row["± difference"] == pytest.approx((0.25 + (4.92 / 3.29) ** 2) ** 0.5)
    assert row[AGREES] == ""  # a simulator beside MIMIC-III


def test_nothing_is_judged_where_the_paper_gives_no_error() -> None:
    (months,) = compared(TUMOR["main"], [Number("9 months", "Markov", VALUE, 68.0, 0.1)])
    assert months["difference"] is not None
    assert (months["± paper"], months["± difference"], months[AGREES]) == (None, None, "")


def test_numbers_that_are_known_badly_are_too_vague_to_tell() -> None:
    """By hand: errors of 14.55 and 8 make one of 16.6 points; 27 below the paper's 77.32 is then within chance."""
    near, far = compared(
        TUMOR["main"],
        [Number("PO-CRM", "non-Markov", VALUE, 77.32 - off, 8.0, runs=10) for off in (27.0, 60.0)],
    )
    assert (near[AGREES], far[AGREES]) == (VAGUE, "no")
    old = {**near, AGREES: "yes"}  # as earlier versions stored it
    assert judged_today(old)[AGREES] == VAGUE
    assert judged_today({**old, "± difference": 9.9})[AGREES] == "yes"


def test_every_table_and_figure_of_the_paper_has_a_row() -> None:
    kinds = Counter(item.number.split()[0] for item in ITEMS)
    assert kinds == {"Table": 24, "Figure": 7}
    assert len({item.label for item in ITEMS}) == len(ITEMS)
    known = {(table.label, *key) for key, table in PUBLISHED.items()}
    mine = {(item.label, item.experiment, item.key) for item in ITEMS if item.label in {one[0] for one in known}}
    assert mine <= known
    assert {label for label, *_ in known} == {label for label, *_ in mine}


@pytest.mark.parametrize("experiment", GRIDS)
def test_settings_are_those_of_the_papers_tables(experiment: str) -> None:
    grids = described(experiment)["grids"]
    for (learner, setting), paper in GRIDS[experiment].items():
        ours = [grid[setting] for grid in grids if grid["learner"] == learner and setting in grid]
        assert [*map(float, paper)] in ours, (learner, setting)


def test_counts_agree_where_they_are_equal() -> None:
    numbers = [Number("eligible actions", "H = 2", SAMPLES, count, error=0.0) for count in (16.0, 32.0)]
    assert [row[AGREES] for row in compared(NEEDED, numbers)] == ["yes", "no"]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Tumor results of today, and counts of an earlier version."""
    rows = compared(
        TUMOR["main"],
        [
            Number("POELA", "non-Markov", VALUE, 95.0, 1.0),
            Number("POELA", "non-Markov", EXCESS, 20.0, 1.0),
            Number("9 months", "non-Markov", VALUE, 68.0, 0.1),
        ],
    )
    each: list[dict[str, Cell]] = [{"data set": number} for number in range(100)]
    tables = (
        ResultTable("main", "Tumor", rows, "poela reproduce tumor", ("made up",)),
        ResultTable("data-sets", "another table", each, "poela reproduce tumor"),
    )
    Report("tumor", tables).write(tmp_path)
    made = {"code": "abc", "machine": {"torch": "2", "device": "CPU"}}
    write_json(tmp_path / "tumor" / "made.json", {"parts": 3, "made": [made]})
    numbers = [Number("IS + CRM", f"H = {h}", SAMPLES, 32.0, error=0.0) for h in (2, 3)]
    Report("counterexamples", (ResultTable("needed", "Counts", compared(NEEDED, numbers), "poela"),)).write(tmp_path)
    return tmp_path


def test_summary_judges_what_its_command_made_and_nothing_else(results: Path) -> None:
    rows = {row[0].partition("]")[0].strip("["): row[1:] for row in summary_rows(stored_reports(results), results)}
    assert rows["Tumor growth, behavior known, final policy"][:5] == ["reproduces in part", "1", "0", "1", "1"]
    old = rows["Episodes needed to solve the counter-examples, by H"]
    assert old[:5] == ["cannot be compared here", "0", "0", "0", "2"]
    assert old[5] == "stored from an earlier version, not regenerated"
    assert rows["CartPole: 4 tables"] == ["no result", "0", "0", "0", "112", "not run"]
    assert rows["Hopper and Walker2D"][0] == "cannot be compared here"
    found = facts(stored_reports(results))
    assert (found["agree"], found["differ"], found["unjudged"]) == (1, 1, 3)
    assert found["main_poela_non_markov_true_value"] == "95.0 ± 1.0"


def test_pages_of_experiments(results: Path) -> None:
    for name, report in stored_reports(results).items():
        report.write_page(results, "" if name == "tumor" else NOT_REGENERATED)
    tumor, counts = ((results / f"{name}.md").read_text() for name in ("tumor", "counterexamples"))
    assert "| non-Markov | POELA | true value | 95.92 ± 1.68 | 95 ± 1 | -0.92 ± 1.96 | yes |" in tumor
    assert "100 rows: [data-sets.parquet](tumor/data-sets.parquet)." in tumor
    assert "made up." in tumor
    assert NOT_REGENERATED in counts
    assert "| yes |" not in counts


def test_every_comparison_has_a_picture_that_its_page_shows(results: Path) -> None:
    pytest.importorskip("matplotlib")
    assert "![Tumor](tumor/main.svg)" in (results / "tumor.md").read_text()
    assert not (results / "tumor" / "data-sets.svg").exists()  # no comparison
    again = results / "again"
    assert comparison_figure(again, "Tumor", pq.read_table(results / "tumor" / "main.parquet").to_pylist())
    assert (results / "again.svg").read_bytes() == (results / "tumor" / "main.svg").read_bytes()
    assert (results / "again.png").read_bytes()[1:4] == b"PNG"


def test_pictures_are_left_out_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    rows = compared(TUMOR["main"], [Number("POELA", "non-Markov", VALUE, 95.0, 1.0)])
    Report("tumor", (ResultTable("main", "Tumor", rows, "poela reproduce tumor"),)).write(tmp_path)
    assert {path.name for path in tmp_path.rglob("*.*")} == {"tumor.md", "main.parquet"}


def test_places_that_the_page_points_to_exist() -> None:
    page = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    places = re.findall(r"\]\(([\w./-]+)", page)
    assert len(places) > 10
    assert [place for place in places if not (DOCS / place).exists()] == []


def test_committed_pages_of_experiments_are_those_of_the_stored_results(tmp_path: Path) -> None:
    """If this fails: python -m poela_experiments.pages.reproduction."""
    pytest.importorskip("matplotlib")
    copy = tmp_path / "results"
    shutil.copytree(DOCS / "results", copy)
    write_pages(copy, tmp_path / "reproduction.md")
    for path in copy.glob("*.md"):
        assert path.read_text(encoding="utf-8") == (DOCS / "results" / path.name).read_text(encoding="utf-8"), path


def test_committed_page_is_that_of_the_stored_results() -> None:
    """If this fails: python -m poela_experiments.pages.reproduction."""
    assert (DOCS / "reproduction.md").read_text(encoding="utf-8") == reproduction_page(DOCS / "results")


def test_every_stored_result_loads_and_is_named_by_its_key() -> None:
    files = sorted((DOCS / "results").glob("*/*.parquet"))
    assert len(files) > 40
    for path in files:
        assert stored_table(path).rows, path
        assert pq.read_schema(path).metadata[b"experiment"].decode() == path.parent.name
        assert not re.search(r"-\d+$", path.stem), path


def test_another_table_renames_none(results: Path) -> None:
    """A report with one table more, in front, writes the others to the same files."""
    before = {path.name for path in results.glob("tumor/*")}
    rows: list[dict[str, Cell]] = [{"a": 1}]
    tables = [ResultTable(key, "title", rows, "poela") for key in ("first", "main", "data-sets")]
    Report("tumor", tuple(tables)).write(results)
    assert {path.name for path in results.glob("tumor/*")} == before | {"first.parquet"}
