"""The published numbers: as many as in the paper, with the paper's sums, and in agreement with its own claims."""

import math
from itertools import pairwise

import pytest

from poela_experiments.counterexamples import NEEDED, SAMPLES
from poela_experiments.frame.published import PUBLISHED, Number, PublishedTable
from poela_experiments.sepsis_tables import RADIUS, SEPSIS
from poela_experiments.tumor import AUTHORS_CODE, TUMOR

# Numbers, their sum, and the sum of their standard errors, added up from the paper's source by another program.
SUMS = {
    "tab:tumor_result_main": (22, 1082.84, 154.61),
    "tab:tumor_result_bc": (22, 1067.53, 107.16),
    "tab:tumor_result_bcrnn": (22, 1076.03, 128.02),
    "tab:tumor_result_checkpoint": (22, 1075.26, 160.23),
    "tab:tumor_result_bc_checkpoint": (22, 1081.58, 112.09),
    "tab:tumor_result_bcrnn_checkpoint": (22, 1081.28, 153.38),
    "tab:training_weights": (5, 0.091, 0),
    "tab:training_weights_mdp": (4, 0.3044, 0),
    "tab:sepsis_result_main": (28, 6322.17, 0),
    "tab:sepsis_result_bc": (24, 2697.03, 0),
    "tab:sepsis_result_bcrnn": (24, 2795.5, 0),
    "tab:sepsis_result_checkpoint": (28, 7254.64, 0),
    "tab:sepsis_result_bc_checkpoint": (28, 6206.89, 0),
    "tab:sepsis_result_bcrnn_checkpoint": (28, 6120.83, 0),
    "tab:sepsis_noess_result": (24, 2568.2, 0),
    "tab:sepsis_delta_study": (16, 13617.33, 0),
    "tab:cartpole_results": (28, 1686.55, 0),
    "tab:cartpole_pomdp_results": (28, 1499.58, 0),
    "tab:cartpole_results_checkpoint": (28, 1678.38, 0),
    "tab:cartpole_pomdp_results_checkpoint": (28, 1505.75, 0),
    "fig:overfitting_example_result": (21, 2 * (32 + 128 + 256 + 512 + 1024 + 2048 + 4096) + 7 * 16, 0),
}


def numbers_of(label: str) -> list[Number]:
    """Two experiments may have rows of one table."""
    return [number for table in PUBLISHED.values() if table.label == label for number in table.numbers]


def test_every_table_is_there() -> None:
    assert {table.label for table in PUBLISHED.values()} == set(SUMS)


@pytest.mark.parametrize("label", SUMS)
def test_sums_of_the_paper(label: str) -> None:
    numbers = numbers_of(label)
    count, values, errors = SUMS[label]
    assert len(numbers) == count
    assert math.isclose(math.fsum(item.value for item in numbers), values, abs_tol=1e-6)
    assert math.isclose(math.fsum(item.error or 0.0 for item in numbers), errors, abs_tol=1e-6)


def test_behavior_is_known_where_the_paper_writes_mu_without_a_hat() -> None:
    """The tumor tables without BC in their label, and the counter-examples; everywhere else it is estimated."""
    known = {table.label for table in PUBLISHED.values() if table.behavior == "known"}
    assert known == {
        "tab:tumor_result_main",
        "tab:tumor_result_checkpoint",
        "tab:training_weights",
        "tab:training_weights_mdp",
        "fig:overfitting_example_result",
    }


def value(table: PublishedTable, learner: str, quantity: str, contexts: str = "") -> float:
    found = table.find(learner, quantity, contexts)
    assert found is not None
    return found.value


@pytest.mark.parametrize("table", [*TUMOR.values()][:6], ids=lambda table: table.label)
def test_tumor_claims(table: PublishedTable) -> None:
    """POELA is above PO-mu and PO-CRM everywhere, and nearer to its estimate."""
    for contexts in ("Markov", "non-Markov"):
        assert value(table, "9 months", "true value", contexts) == 68.12
        for other in ("PO-mu", "PO-CRM"):
            assert value(table, "POELA", "true value", contexts) > value(table, other, "true value", contexts)
            ours, theirs = (value(table, name, "SNTIS - truth", contexts) for name in ("POELA", other))
            assert abs(ours) < abs(theirs)


def test_bounds_hold_the_estimate() -> None:
    tables = [table for table in PUBLISHED.values() if table.numbers[0].quantity == "SNTIS"]
    assert len(tables) == 11
    for table in tables:
        contexts = table.numbers[0].contexts
        for learner in {item.learner for item in table.numbers}:
            low, middle, high = (value(table, learner, q, contexts) for q in ("lower bound", "SNTIS", "upper bound"))
            assert low < middle < high


def test_sepsis_claims() -> None:
    """POELA is the best on all metrics of the main table; its radius 0.8 is the one of the checkpoint table."""
    main, best = SEPSIS["main"], SEPSIS["checkpoint"]
    for quantity in ("SNTIS", "lower bound", "upper bound", "ESS"):
        others = [value(main, name, quantity) for name in ("PO-mu", "PO-CRM", "BCQ", "PQL")]
        assert value(main, "POELA", quantity) > max(others)
    assert value(RADIUS, "0.8", "test SNTIS") == value(best, "POELA", "SNTIS")
    assert value(RADIUS, "0.8", "test ESS") == value(best, "POELA", "ESS")


def test_samples_grow_with_the_horizon_but_for_eligible_actions() -> None:
    by_method = {
        method: [value(NEEDED, method, SAMPLES, f"H = {h}") for h in range(2, 9)]
        for method in ("IS + CRM", "SNIS + CRM", "eligible actions")
    }
    assert set(by_method["eligible actions"]) == {16}
    for method in ("IS + CRM", "SNIS + CRM"):
        samples = by_method[method]
        assert all(after >= 2 * before for before, after in pairwise(samples))


def test_what_is_not_there_is_not_found() -> None:
    assert TUMOR["main"].find("9 months", "SNTIS - truth", "Markov") is None
    assert AUTHORS_CODE.find("PO-mu", "true value", "non-Markov") is None
