"""The learning objective, as in the paper: SNTIS minus λ times the root of its estimated variance (equation CRM).

Sums run over the last axis, the episodes; axes before it are policies that are learned side by side.
"""

import math
from typing import Any

import torch
from torch import Tensor

TINY = 1e-12  # below this the root has no usable slope
SHORTFALL = 20.0  # κ: what each nat of effective episodes below the least costs


def truncated_weights(log_weights: Tensor, truncation: float) -> Tensor:
    """min(∏W, M) for each episode, up to one common factor that SNTIS and its variance do not see; without slopes."""
    truncated = log_weights.detach().clamp(max=math.log(truncation))
    return truncated.sub_(truncated.amax(dim=-1, keepdim=True)).exp_()


class _Known(torch.autograd.Function):
    """Values [K] whose slopes [K, n] are worked out already: one node, where autograd would spend most of a step."""

    @staticmethod
    def forward(ctx: Any, log_weights: Tensor, values: Tensor, slopes: Tensor) -> Tensor:
        ctx.save_for_backward(slopes)
        return values

    @staticmethod
    def backward(ctx: Any, *outward: Tensor) -> tuple[Tensor, None, None]:
        (slopes,) = ctx.saved_tensors
        return outward[0][..., None] * slopes, None, None


def crm_objective(
    log_weights: Tensor,
    returns: Tensor,
    truncation: float,
    variance_penalty: float | Tensor,
    least_ess: Tensor | None = None,
) -> Tensor:
    """v_SNTIS(π) − λ·sqrt(Var(v_SNTIS(π))), to be maximised, less what a policy pays for resting on few episodes.

    For weights [K, n] of K policies, that of each. Of shares p of the weights, v = Σ p·r and Var = Σ a² with
    a = p·(r − v), the normal approximation (Owen 2013, equation 9.9). Their slopes by log weights are a and, of the
    root, (a² − a·Σ p·a − p·Var) / sqrt(Var); of truncated weights they are 0. With `least_ess` see `shortfall`.

    >>> crm_objective(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 3.0]), 1000.0, 1.0)  # 2 − sqrt(2 · (1/2)²)
    tensor(1.2929)
    """
    with torch.no_grad():
        shares = truncated_weights(log_weights, truncation)
        shares /= shares.sum(dim=-1, keepdim=True)
        value = (shares * returns).sum(dim=-1, keepdim=True)
        added = (returns - value).mul_(shares)
        squares = added * added
        variance = squares.sum(dim=-1, keepdim=True)
        spread = variance.clamp(min=TINY).sqrt_()
        penalty = variance_penalty[..., None] if isinstance(variance_penalty, Tensor) else variance_penalty
        by_spread = penalty / spread * (variance >= TINY)
        in_both = (shares * added).sum(dim=-1, keepdim=True)
        slopes = added - squares.sub_(added * in_both).sub_(shares * variance).mul_(by_spread)
        values = value - penalty * spread
        if least_ess is not None:
            price, slope = shortfall(shares, least_ess)
            values, slopes = values - price, slopes.sub_(slope)
        slopes.masked_fill_(log_weights > math.log(truncation), 0.0)
    found: Tensor = _Known.apply(log_weights, values[..., 0], slopes)  # type: ignore[no-untyped-call]
    return found


def shortfall(shares: Tensor, least_ess: Tensor) -> tuple[Tensor, Tensor]:
    """κ·max(0, ln E₀ − ln ESS), what it costs to rest on fewer effective episodes than E₀ (0: nothing); and its slopes.

    Of shares p of the weights, ESS = 1 / Σ p², whose logarithm has the slopes 2·p − 2·p² / Σ p².

    >>> cost, _ = shortfall(torch.full((10,), 0.1), torch.tensor(20.0))
    >>> round(float(cost), 3)  # 20 · ln 2
    13.863
    """
    squares = shares * shares
    concentration = squares.sum(dim=-1, keepdim=True)
    missing = (least_ess.clamp(min=TINY)[..., None] * concentration).log_()
    slopes = squares.div_(concentration).sub_(shares).mul_((missing > 0) * (2 * SHORTFALL))
    return missing.clamp_(min=0.0) * SHORTFALL, slopes
