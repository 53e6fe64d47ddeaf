"""log π of logged actions under stacked networks, summed by episode, with its gradient written out.

Steps pass in pieces that fit a core's cache, and nothing is copied on the way: on a CPU most of what autograd spends
beside the matrix products is such copying, and on few steps most of it is bookkeeping, so that all is one node. What is
too large to be kept for the backward pass is computed again there, piece by piece, so that memory does not grow with
the log.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

IN_A_PIECE = {"cpu": 2**18}  # numbers of the widest layer: 1 MiB, about half a core's own cache
IN_A_GPU_PIECE = 2**26
MOST_KEPT = 2**28  # numbers for the backward pass: 1 GiB

Layers = Sequence[tuple[Tensor, Tensor]]  # weight [K, inputs, outputs] and bias [K, 1, outputs] of each


@dataclass(frozen=True, eq=False)
class OpenSteps:
    """Steps of a log as networks of the current context see them."""

    inputs: Tensor  # [m, d], contexts as the networks take them; or [K, m, d], each its own
    actions: Tensor  # [m] or [K, m]
    barred: Tensor  # [A, m] or [K, A, m], the ineligible actions
    penalty: Tensor | None = None  # [A, m], what logits lose
    targets: Tensor | None = None  # [K, A, m]: what takes the place of one for the logged action, 0 where barred

    def between(self, start: int, end: int) -> "OpenSteps":
        """Some of the steps."""
        return self.at(slice(start, end))

    def at(self, rows: slice | Tensor) -> "OpenSteps":
        """Those of these numbers."""
        penalty, targets = (None if own is None else own[..., rows] for own in (self.penalty, self.targets))
        return OpenSteps(self.inputs[..., rows, :], self.actions[..., rows], self.barred[..., rows], penalty, targets)

    def __len__(self) -> int:
        return self.actions.shape[-1]


class Episodes:
    """How steps belong to episodes: `counts` [n] of each, one after the other."""

    def __init__(self, counts: Tensor) -> None:
        self.counts = counts

    @cached_property
    def of_step(self) -> Tensor:
        """The episode [m] of each step."""
        return torch.repeat_interleave(self.counts)

    def sums(self, values: Tensor) -> Tensor:
        """Sums [K, n] in float64 of values [K, m] of steps."""
        # Along the first axis: its sums always run in the same order, on a GPU too.
        return torch.segment_reduce(values.double().T.contiguous(), "sum", lengths=self.counts, unsafe=True).T

    def slopes(self, outward: Tensor) -> Tensor:
        """Of values [K, m] of steps, from those of the sums [K, n]."""
        return outward.index_select(1, self.of_step)


@dataclass(frozen=True, eq=False)
class Shares:
    """Means over steps, in which each counts by its share [K, m]; one that has none may be of any value."""

    shares: Tensor

    def sums(self, values: Tensor) -> Tensor:
        """Means [K]."""
        return (values * self.shares).masked_fill_(self.shares == 0, 0.0).sum(dim=1)

    def slopes(self, outward: Tensor) -> Tensor:
        """Of values [K, m] of steps, from those of the means [K]."""
        return outward[:, None] * self.shares


def together(parts: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The parts side by side; a single one as it is."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim=dim)


def log_logged(
    layers: Layers,
    steps: OpenSteps,
    episodes: Episodes | Shares,
    relu_outputs: bool = False,
    own: slice = slice(None),
) -> Tensor:
    """Sums [K, n] by episode, in float64, of log π of the logged actions over the eligible ones; or means by shares.

    Steps with targets: of Σ_a target·log π instead. `own`: of these networks only. A backward pass through the sums
    adds to `grad` of the layers by itself: with a few thousand steps, a node of autograd would take longer than all
    that it does.

    >>> steps = OpenSteps(torch.zeros(5, 3), torch.tensor([0, 1, 0, 1, 0]), torch.zeros(2, 5, dtype=torch.bool))
    >>> layers = [(torch.zeros(1, 3, 2), torch.zeros(1, 1, 2))]
    >>> log_logged(layers, steps, Episodes(torch.tensor([2, 3]))).exp().detach()
    tensor([[0.2500, 0.1250]], dtype=torch.float64)
    """
    learns = torch.is_grad_enabled()
    with torch.no_grad():
        asked = _Asked(layers, own, relu_outputs)
        pieces, keep = asked.pieces(steps), learns and asked.may_keep(steps)
        chosen, kept = [], []
        for piece in pieces:
            passed = asked.passed(piece)
            chosen.append(asked.chosen(passed, piece))
            kept.append(passed if keep else None)
        found = episodes.sums(together(chosen, dim=1))

    def send_back(slopes: Tensor) -> None:
        slope = episodes.slopes(slopes.to(asked.parameters[0].dtype))
        parts = list(zip(pieces, torch.split(slope, len(pieces[0]), dim=1), strict=True))
        while parts:  # from the last one, as autograd does it
            piece, own_slope = parts.pop()
            asked.add_gradients(kept.pop() or asked.passed(piece), piece, own_slope)

    if learns:
        found.requires_grad_().register_hook(send_back)  # type: ignore[no-untyped-call]
    return found


@dataclass(frozen=True, eq=False)
class _Pass:
    """What a forward pass leaves for the backward one."""

    inputs: list[Tensor]  # [K, m, width] of each layer
    log_policy: Tensor  # [K, A, m]: a softmax over actions is fast where steps lie side by side
    positive: Tensor | None  # [K, A, m]: logits that a ReLU lets pass


class _Asked:
    """The networks that are asked."""

    def __init__(self, layers: Layers, own: slice, relu_outputs: bool) -> None:
        self._whole = [parameter for layer in layers for parameter in layer]
        everyone = self._whole[0].shape[0]
        self._own = None if own.indices(everyone) == (0, everyone, 1) else own
        self.parameters = self._whole if self._own is None else [parameter[own] for parameter in self._whole]
        self.each = self.parameters[0].shape[0]
        self._widths = [weight.shape[2] for weight in self.parameters[::2]]
        self._relu_outputs = relu_outputs

    def may_keep(self, steps: OpenSteps) -> bool:
        """Whether what these steps leave for the backward pass is small enough."""
        return len(steps) * self.each * sum(self._widths) <= MOST_KEPT

    def pieces(self, steps: OpenSteps) -> list[OpenSteps]:
        n = len(steps)
        most = IN_A_PIECE.get(steps.actions.device.type, IN_A_GPU_PIECE)
        size = max(most // (self.each * max(self._widths)), 1)
        return [steps.between(start, start + size) for start in range(0, n, size)] if n > size else [steps]

    def passed(self, steps: OpenSteps) -> _Pass:
        inputs = [steps.inputs.expand(self.each, *steps.inputs.shape[-2:])]
        for number in range(0, len(self.parameters) - 2, 2):
            weight, bias = self.parameters[number : number + 2]
            inputs.append(torch.baddbmm(bias, inputs[-1], weight).relu_())
        weight, bias = self.parameters[-2:]
        logits = torch.baddbmm(bias.mT, weight.mT, inputs[-1].mT)
        positive = logits.relu_() > 0 if self._relu_outputs else None
        if steps.penalty is not None:
            logits = logits.sub_(steps.penalty)
        return _Pass(inputs, torch.log_softmax(logits.masked_fill_(steps.barred, -math.inf), dim=1), positive)

    def chosen(self, passed: _Pass, steps: OpenSteps) -> Tensor:
        """log π [K, m] of the logged actions, or what the targets make of all."""
        if steps.targets is not None:
            return passed.log_policy.masked_fill(steps.barred, 0.0).mul_(steps.targets).sum(dim=1)
        return passed.log_policy.gather(1, self._logged(steps))[:, 0]

    def _logged(self, steps: OpenSteps) -> Tensor:
        return steps.actions.expand(self.each, -1)[:, None]

    def add_gradients(self, passed: _Pass, steps: OpenSteps, slope: Tensor) -> None:
        """To those of the parameters, from the slope of what was chosen [K, m]; overwrites what passed."""
        slope = slope[:, None]
        if steps.targets is not None:  # which sum to one
            outputs = passed.log_policy.exp_().neg_().add_(steps.targets).mul_(slope)
        else:
            outputs = passed.log_policy.exp_().mul_(-slope)
            outputs.scatter_add_(1, self._logged(steps), slope)
        if passed.positive is not None:
            outputs.mul_(passed.positive)
        outward = outputs.mT
        # With few actions, a product of this form is much the faster one.
        gradients = [outward.sum(dim=1, keepdim=True), torch.bmm(outputs, passed.inputs[-1]).mT.contiguous()]
        for number in reversed(range(1, len(passed.inputs))):
            outward = torch.bmm(outward, self.parameters[2 * number].mT)
            torch.ops.aten.threshold_backward.grad_input(outward, passed.inputs[number], 0, grad_input=outward)
            gradients += [outward.sum(dim=1, keepdim=True), torch.bmm(passed.inputs[number - 1].mT, outward)]
        for parameter, gradient in zip(reversed(self._whole), gradients, strict=True):
            self._add(parameter, gradient)

    def _add(self, parameter: Tensor, gradient: Tensor) -> None:
        if self._own is None:
            parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)
        else:
            parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            parameter.grad[self._own] += gradient
