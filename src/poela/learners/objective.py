"""The learning objective, as in the paper: SNTIS minus λ times the root of its estimated variance (equation CRM).

Sums run over the last axis, the episodes; axes before it are policies that are learned side by side.
"""

import math

import torch
from torch import Tensor

TINY = 1e-12  # below this the root has no usable slope
SHORTFALL = 20.0  # κ: what each nat of effective episodes below the least costs


def truncated_weights(log_weights: Tensor, truncation: float) -> Tensor:
    """min(∏W, M) for each episode, up to one common factor that SNTIS and its variance do not see."""
    truncated = log_weights.clamp(max=math.log(truncation))
    return torch.exp(truncated - truncated.detach().amax(dim=-1, keepdim=True))


def sntis(weights: Tensor, returns: Tensor) -> Tensor:
    """Self-normalised truncated importance sampling: Σ r·w / Σ w.

    >>> sntis(torch.tensor([1.0, 3.0]), torch.tensor([0.0, 4.0]))
    tensor(3.)
    """
    return (returns * weights).sum(dim=-1) / weights.sum(dim=-1)


def variance_of_sntis(weights: Tensor, returns: Tensor) -> Tensor:
    """The normal approximation (Owen 2013, equation 9.9): Σ (r − v)²·w² / (Σ w)²."""
    deviations = returns - sntis(weights, returns)[..., None]
    return (deviations**2 * weights**2).sum(dim=-1) / weights.sum(dim=-1) ** 2


def crm_objective(log_weights: Tensor, returns: Tensor, truncation: float, variance_penalty: float | Tensor) -> Tensor:
    """v_SNTIS(π) − λ·sqrt(Var(v_SNTIS(π))), to be maximised; for weights [K, n] of K policies, that of each."""
    weights = truncated_weights(log_weights, truncation)
    spread = variance_of_sntis(weights, returns).clamp(min=TINY).sqrt()
    return sntis(weights, returns) - variance_penalty * spread


def shortfall(log_weights: Tensor, truncation: float, least_ess: Tensor) -> Tensor:
    """κ·max(0, ln E₀ − ln ESS): what it costs to rest on fewer effective episodes than E₀ (0: nothing).

    >>> round(float(shortfall(torch.zeros(10), 1000.0, torch.tensor(20.0))), 3)  # 20 · ln 2
    13.863
    """
    weights = truncated_weights(log_weights, truncation)
    ess = weights.sum(dim=-1) ** 2 / (weights**2).sum(dim=-1)
    return SHORTFALL * (least_ess.clamp(min=TINY) / ess).log().clamp(min=0.0)
