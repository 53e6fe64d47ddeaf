"""The published order: what counts, what is counted once, and what is listed without a verdict."""

import pytest
from scipy import stats

from poela_experiments.pages.order import Order, clear, order_section
from poela_experiments.sepsis_tables import SEPSIS
from poela_experiments.tumor import TUMOR

FINAL, BC, BEST = (TUMOR[key].label for key in ("main", "bc", "checkpoint"))


def order(
    *paired: float, table: str = FINAL, contexts: str = "Markov", other: str = "PO-CRM", paper: float = 9.0
) -> Order:
    """One in which the other learner has the value 80."""
    return Order(table, contexts, "true value", other, paper, (80 + sum(paired) / len(paired), 80.0), paired)


def page(*found: Order) -> str:
    return "\n".join(order_section(found))


@pytest.mark.parametrize("data_sets", [2, 5, 20])
def test_clear_is_the_quantile_of_student(data_sets: int) -> None:
    assert clear(data_sets) == pytest.approx(stats.t.ppf(0.975, data_sets - 1))


def test_five_data_sets_need_more_than_two_standard_errors() -> None:
    """By hand: 0, 1, 2, 3, 4 have mean 2 and a standard error of √½, so 2.83 > 2.78; one less far they do not."""
    assert order(0.0, 1.0, 2.0, 3.0, 4.0).holds == "yes"
    assert order(0.0, -1.0, -2.0, -3.0, -4.0).holds == "no"
    assert order(-0.2, 0.8, 1.8, 2.8, 3.8).holds == "open"  # 2.55
    assert stats.ttest_1samp([0, 1, 2, 3, 4], 0).pvalue < 0.05 < stats.ttest_1samp([-0.2, 0.8, 1.8, 2.8, 3.8], 0).pvalue


def test_equal_policies_on_every_data_set_are_open() -> None:
    assert order(0.0, 0.0, 0.0).holds == "open"


def test_protocols_are_counted_apart() -> None:
    clear_one, open_one = (0.0, 1.0, 2.0, 3.0, 4.0), (-1.0, 1.0, 2.0, 3.0, -4.0)
    text = page(order(*clear_one), order(*open_one, table=BC), order(*clear_one, table=BEST))
    assert (
        "- Final policies (behavior: known, BC): of 2 differences that the paper finds in favour of POELA, ours are "
        "clearly in favour in 1, clearly against in 0, open in 1." in text
    )
    assert "POELA is above PO-CRM in 7 of 10." in text
    assert "- Best checkpoints (behavior: known): of 1 differences" in text
    assert "POELA is above PO-CRM in 4 of 5." in text
    assert "2.78 standard errors for 5 data sets" in text


def test_the_same_numbers_count_once() -> None:
    same, different = (1.0, 2.0, -3.0), (1.0, 2.0, 6.0)
    text = page(
        order(*same, other="PO-mu"), order(*same), order(*different, other="PO-mu", table=BC), order(*same, table=BC)
    )
    assert "of 2 differences" in text
    assert "POELA is above PO-mu in 3 of 3, above PO-CRM in 2 of 3." in text
    assert text.count(f"| {FINAL} | Markov | true value |") == 2  # listed all the same


def test_what_the_paper_does_not_find_in_favour_is_not_counted() -> None:
    text = page(order(1.0, 2.0, 6.0), order(1.0, 2.0, 7.0, table=BC, paper=-1.0))
    assert "of 1 differences" in text


def test_one_data_set_is_listed_apart_without_a_verdict() -> None:
    single = Order(SEPSIS["main"].label, "", "SNTIS", "PO-mu", 2.11, (60.0, 75.0))
    assert single.holds == ""
    counted, listed = page(order(1.0, 2.0, 6.0), single).split("### On one data set each")
    assert "of 1 differences" in counted
    assert SEPSIS["main"].label not in counted
    assert "| table | contexts | quantity | POELA less | paper | ours |\n" in listed
    assert f"| {SEPSIS['main'].label} |  | SNTIS | PO-mu | +2.11 | -15.00 |\n" in listed
    assert "On one data set each" not in page(order(1.0, 2.0, 6.0))


def test_one_data_set_alone_makes_no_statement() -> None:
    text = page(Order(SEPSIS["main"].label, "", "SNTIS", "PO-mu", 2.11, (60.0, 75.0)))
    assert "in favour" not in text
