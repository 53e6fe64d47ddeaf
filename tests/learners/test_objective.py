"""The learning objective against NumPy and finite differences."""

import numpy as np
import pytest
import torch

from poela.learners.active import SHORTFALL, crm_objective, truncated_weights

LOG_WEIGHTS = np.array([0.3, -1.2, 8.0, -0.1, -np.inf])
RETURNS = np.array([1.0, -2.0, 0.5, 3.0, 100.0])


def by_hand(log_weights: np.ndarray, truncation: float, penalty: float, least_ess: float = 0.0) -> float:
    weights = np.minimum(np.exp(log_weights), truncation)
    value = (weights * RETURNS).sum() / weights.sum()
    variance = ((RETURNS - value) ** 2 * weights**2).sum() / weights.sum() ** 2
    ess = weights.sum() ** 2 / (weights**2).sum()
    return float(value - penalty * np.sqrt(variance) - SHORTFALL * max(np.log(max(least_ess, 1e-12) / ess), 0.0))


def test_objective_is_the_papers_equation() -> None:
    for truncation in (1000.0, 2.0):
        for penalty in (0.0, 0.7):
            ours = crm_objective(torch.tensor(LOG_WEIGHTS), torch.tensor(RETURNS), truncation, penalty)
            np.testing.assert_allclose(ours.item(), by_hand(LOG_WEIGHTS, truncation, penalty), rtol=1e-12)


@pytest.mark.parametrize("least_ess", [0.0, 1.5, 40.0])
@pytest.mark.parametrize("truncation", [1000.0, 2.0])
def test_gradient_matches_finite_differences_and_is_zero_where_it_should_be(
    truncation: float, least_ess: float
) -> None:
    log_weights = torch.tensor(LOG_WEIGHTS, requires_grad=True)
    least = torch.tensor(least_ess, dtype=torch.float64)
    found = crm_objective(log_weights, torch.tensor(RETURNS), truncation, 0.7, least)
    np.testing.assert_allclose(found.item(), by_hand(LOG_WEIGHTS, truncation, 0.7, least_ess), rtol=1e-12)
    (2.0 * found).backward()  # type: ignore[no-untyped-call]
    assert log_weights.grad is not None
    gradient = log_weights.grad.numpy() / 2
    assert gradient[4] == 0  # an ineligible episode
    assert gradient[2] == 0  # a truncated one
    for i in (0, 1, 3):
        step = np.zeros(5)
        step[i] = 1e-6
        ends = [by_hand(LOG_WEIGHTS + sign * step, truncation, 0.7, least_ess) for sign in (1, -1)]
        np.testing.assert_allclose(gradient[i], (ends[0] - ends[1]) / 2e-6, rtol=1e-4, atol=1e-7)


def test_policies_side_by_side_have_their_own_objectives_and_gradients() -> None:
    rows = torch.tensor(np.stack([LOG_WEIGHTS, LOG_WEIGHTS[::-1]]), requires_grad=True)
    penalty, least = (torch.tensor(own, dtype=torch.float64) for own in ([0.1, 1.0], [0.0, 3.0]))
    found = crm_objective(rows, torch.tensor(RETURNS), 1000.0, penalty, least)
    found.sum().backward()  # type: ignore[no-untyped-call]
    assert rows.grad is not None
    for number in range(2):
        own = rows.detach()[number].clone().requires_grad_()
        alone = crm_objective(own, torch.tensor(RETURNS), 1000.0, float(penalty[number]), least[number])
        alone.backward()  # type: ignore[no-untyped-call]
        assert own.grad is not None
        torch.testing.assert_close(found[number], alone, rtol=1e-12, atol=0)
        torch.testing.assert_close(rows.grad[number], own.grad, rtol=1e-12, atol=1e-15)


def test_huge_weights_do_not_overflow() -> None:
    log_weights = torch.tensor([2000.0, 2000.0, -5000.0], dtype=torch.float64)
    weights = truncated_weights(log_weights, float("inf"))
    assert weights.tolist() == [1.0, 1.0, 0.0]
    returns = torch.tensor([1.0, 3.0, 9.0], dtype=torch.float64)
    assert crm_objective(log_weights, returns, float("inf"), 0.0).item() == 2.0


def test_equal_returns_have_no_variance_and_a_finite_gradient() -> None:
    log_weights = torch.tensor([0.1, -0.4], dtype=torch.float64, requires_grad=True)
    returns = torch.tensor([2.0, 2.0], dtype=torch.float64)
    found = crm_objective(log_weights, returns, 1000.0, 1.0)
    assert found.item() == pytest.approx(2.0, abs=1e-5)
    found.backward()  # type: ignore[no-untyped-call]
    assert log_weights.grad is not None
    assert torch.isfinite(log_weights.grad).all()
