"""The learning objective against NumPy and finite differences."""

import numpy as np
import torch

from poela.learners.active import crm_objective, sntis, truncated_weights, variance_of_sntis

LOG_WEIGHTS = np.array([0.3, -1.2, 8.0, -0.1, -np.inf])
RETURNS = np.array([1.0, -2.0, 0.5, 3.0, 100.0])


def by_hand(log_weights: np.ndarray, truncation: float, penalty: float) -> float:
    weights = np.minimum(np.exp(log_weights), truncation)
    value = (weights * RETURNS).sum() / weights.sum()
    variance = ((RETURNS - value) ** 2 * weights**2).sum() / weights.sum() ** 2
    return float(value - penalty * np.sqrt(variance))


def test_objective_is_the_papers_equation() -> None:
    for truncation in (1000.0, 2.0):
        for penalty in (0.0, 0.7):
            ours = crm_objective(torch.tensor(LOG_WEIGHTS), torch.tensor(RETURNS), truncation, penalty)
            np.testing.assert_allclose(ours.item(), by_hand(LOG_WEIGHTS, truncation, penalty), rtol=1e-12)


def test_gradient_matches_finite_differences_and_is_zero_where_it_should_be() -> None:
    log_weights = torch.tensor(LOG_WEIGHTS, requires_grad=True)
    crm_objective(log_weights, torch.tensor(RETURNS), 1000.0, 0.7).backward()  # type: ignore[no-untyped-call]
    assert log_weights.grad is not None
    gradient = log_weights.grad.numpy()
    assert gradient[4] == 0  # an ineligible episode
    assert gradient[2] == 0  # a truncated one
    for i in (0, 1, 3):
        step = np.zeros(5)
        step[i] = 1e-6
        difference = by_hand(LOG_WEIGHTS + step, 1000.0, 0.7) - by_hand(LOG_WEIGHTS - step, 1000.0, 0.7)
        np.testing.assert_allclose(gradient[i], difference / 2e-6, rtol=1e-5)


def test_huge_weights_do_not_overflow() -> None:
    log_weights = torch.tensor([2000.0, 2000.0, -5000.0], dtype=torch.float64)
    weights = truncated_weights(log_weights, float("inf"))
    assert weights.tolist() == [1.0, 1.0, 0.0]
    assert sntis(weights, torch.tensor([1.0, 3.0, 9.0], dtype=torch.float64)).item() == 2.0


def test_equal_returns_have_no_variance_and_a_finite_gradient() -> None:
    log_weights = torch.tensor([0.1, -0.4], dtype=torch.float64, requires_grad=True)
    returns = torch.tensor([2.0, 2.0], dtype=torch.float64)
    assert variance_of_sntis(log_weights.exp(), returns).item() == 0.0
    crm_objective(log_weights, returns, 1000.0, 1.0).backward()  # type: ignore[no-untyped-call]
    assert log_weights.grad is not None
    assert torch.isfinite(log_weights.grad).all()
