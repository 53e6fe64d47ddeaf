"""Numbers worked out by hand, or by other software, with their tolerance."""

import numpy as np
import pytest
from scipy.special import ndtri

from poela.data.trajectories import Trajectories
from poela.evaluation.estimators import ESTIMATORS
from poela.evaluation.evidence import Evidence, ModelValues
from poela.stats.contributions import standard_error
from poela.stats.diagnostics import fit_generalised_pareto, pareto_k
from poela.stats.weights import LogWeights, effective_sample_size

# Two episodes: ratios (2, 1/2) and (4), rewards (1, 3) and (2), discount 1/2.
# Episode weights 1 and 4; running weights (2, 1) and (4, then kept 4); discounted returns 2.5 and 2.
LOGS = Trajectories([[0.0]] * 3, [0] * 3, [1.0, 3.0, 2.0], [0, 2, 3])
MODEL = ModelValues(taken=np.array([2.0, 2.0, 1.0]), expected=np.array([1.0, 4.0, 3.0]))
EVIDENCE = Evidence(LogWeights(np.log([2.0, 0.5, 4.0]), LOGS.offsets), LOGS, 0.5, truncation=3.0, values=MODEL)
BY_HAND = {
    "is": (1 * 2.5 + 4 * 2) / 2,
    "truncated_is": (1 * 2.5 + 3 * 2) / 2,
    "snis": (1 * 2.5 + 4 * 2) / 5,
    "sntis": (1 * 2.5 + 3 * 2) / 4,
    "pdis": ((2 * 1 + 0.5 * 1 * 3) + 4 * 2) / 2,
    "cwpdis": (2 * 1 + 4 * 2) / 6 + 0.5 * (1 * 3) / (1 + 4),
    # surprises: 1 + ½·4 − 2 = 1 and 3 − 2 = 1; 2 − 1 = 1
    "dr": ((1 + 2 * 1 + 0.5 * 1 * 1) + (3 + 4 * 1)) / 2,
    "wdr": (1 + 3) / 2 + (2 * 1 + 4 * 1) / 6 + 0.5 * (1 * 1) / (1 + 4),
    # effective episodes 36/20 and 25/17 of a believed half at ten
    "guarded": (1 + 3) / 2 + 1.8 / 11.8 * 1 + (25 / 17) / (25 / 17 + 10) * 0.1,
    "fqe": (1 + 3) / 2,
    "direct": (1 + 3) / 2,
    "behavior": (2.5 + 2) / 2,
}


@pytest.mark.parametrize("name", BY_HAND)
def test_two_episodes_by_hand(name: str) -> None:
    assert ESTIMATORS[name].function(EVIDENCE).value == pytest.approx(BY_HAND[name], abs=1e-12)


def test_only_magic_has_no_number_by_hand() -> None:
    assert set(ESTIMATORS) - set(BY_HAND) == {"magic"}


def test_standard_error_by_hand() -> None:
    # SNTIS 2.125: residuals 0.375 and −0.125 under shares ¼ and ¾.
    expected = np.sqrt((0.375 / 4) ** 2 + (0.125 * 3 / 4) ** 2)
    assert standard_error(ESTIMATORS["sntis"].function(EVIDENCE)) == pytest.approx(expected, abs=1e-12)


def test_effective_sample_size_by_hand() -> None:
    assert effective_sample_size(EVIDENCE.weights.episodes) == pytest.approx(25 / 17, abs=1e-12)


def even(n: int) -> np.ndarray:
    return np.asarray((np.arange(n) + 0.5) / n)


@pytest.mark.parametrize(
    ("log_weights", "published"),
    [
        (np.log1p(((1 - even(2000)) ** -0.7 - 1) / 0.7), 0.678643997972151),
        (ndtri(even(500)), 0.30785992506277904),
        (3 * ndtri(even(100)), 0.9651885908460256),
    ],
)
def test_pareto_k_is_that_of_arviz_0_23(log_weights: np.ndarray, published: float) -> None:
    assert pareto_k(log_weights) == pytest.approx(published, abs=1e-9)


def test_the_pareto_scale_is_that_of_arviz_0_23() -> None:
    _, scale = fit_generalised_pareto(((1 - even(300)) ** -0.4 - 1) / 0.4 * 2)
    assert scale == pytest.approx(1.9915166379039095, abs=1e-9)
