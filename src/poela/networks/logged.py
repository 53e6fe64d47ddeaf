"""log π of logged actions under stacked networks, with its gradient written out.

Steps pass in pieces that fit a core's cache, and nothing is copied on the way: on a CPU most of what autograd spends
beside the matrix products is such copying. What is too large to be kept for the backward pass is computed again there,
piece by piece, so that memory does not grow with the log.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

IN_A_PIECE = {"cpu": 2**18}  # numbers of the widest layer: 1 MiB, about half a core's own cache
IN_A_GPU_PIECE = 2**26
MOST_KEPT = 2**28  # numbers for the backward pass: 1 GiB

Layers = Sequence[tuple[Tensor, Tensor]]  # weight [K, inputs, outputs] and bias [K, 1, outputs] of each


@dataclass(frozen=True, eq=False)
class OpenSteps:
    """Steps of a log as networks of the current context see them."""

    contexts: Tensor  # [m, d]
    actions: Tensor  # [m]
    barred: Tensor  # [A, m], the ineligible actions

    def between(self, start: int, end: int) -> "OpenSteps":
        """Some of the steps."""
        return OpenSteps(self.contexts[start:end], self.actions[start:end], self.barred[:, start:end])


def log_logged(
    layers: Layers, steps: OpenSteps, prepared: Callable[[Tensor], Tensor], relu_outputs: bool = False
) -> Tensor:
    """log π [K, m] of the logged actions over the eligible ones; `prepared` makes inputs of contexts.

    >>> steps = OpenSteps(torch.zeros(5, 3), torch.tensor([0, 1, 0, 1, 0]), torch.zeros(2, 5, dtype=torch.bool))
    >>> log_logged([(torch.zeros(1, 3, 2), torch.zeros(1, 1, 2))], steps, lambda contexts: contexts).exp()
    tensor([[0.5000, 0.5000, 0.5000, 0.5000, 0.5000]])
    """
    n, each = len(steps.actions), len(layers[0][0])
    widths = [weight.shape[2] for weight, _ in layers]
    keep = n * each * sum(widths) <= MOST_KEPT
    size = max(IN_A_PIECE.get(steps.actions.device.type, IN_A_GPU_PIECE) // (each * max(widths)), 1)
    parameters = [parameter for layer in layers for parameter in layer]
    pieces = [steps.between(start, start + size) for start in range(0, n, size)] or [steps]
    found = [
        _LogLogged.apply(piece, prepared, relu_outputs, keep, *parameters)  # type: ignore[no-untyped-call]
        for piece in pieces
    ]
    return torch.cat(found, dim=1)


@dataclass(frozen=True, eq=False)
class _Pass:
    """What a forward pass leaves for the backward one."""

    inputs: list[Tensor]  # [K, m, width] of each layer
    log_policy: Tensor  # [K, A, m]: a softmax over actions is fast where steps lie side by side
    positive: Tensor | None  # [K, A, m]: logits that a ReLU lets pass


class _LogLogged(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        steps: OpenSteps,
        prepared: Callable[[Tensor], Tensor],
        relu_outputs: bool,
        keep: bool,
        *parameters: Tensor,
    ) -> Tensor:
        passed = _passed(steps, prepared, relu_outputs, parameters)
        ctx.save_for_backward(*parameters)
        ctx.given = steps, prepared, relu_outputs
        ctx.kept = passed if keep else None
        return passed.log_policy.gather(1, _chosen(steps, len(passed.log_policy)))[:, 0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        parameters = ctx.saved_tensors
        steps, prepared, relu_outputs = ctx.given
        passed = ctx.kept or _passed(steps, prepared, relu_outputs, parameters)
        ctx.kept = None  # it is used up below
        outputs = passed.log_policy.exp_().mul_(-gradient[:, None])
        outputs.scatter_add_(1, _chosen(steps, len(outputs)), gradient[:, None])
        if passed.positive is not None:
            outputs.mul_(passed.positive)
        outward = outputs.mT
        gradients: list[Tensor | None] = []
        for number in reversed(range(len(passed.inputs))):
            own = passed.inputs[number]
            gradients = [torch.bmm(own.mT, outward), outward.sum(dim=1, keepdim=True), *gradients]
            if number:
                outward = torch.bmm(outward, parameters[2 * number].mT)
                torch.ops.aten.threshold_backward.grad_input(outward, own, 0, grad_input=outward)
        return None, None, None, None, *gradients


def _passed(
    steps: OpenSteps, prepared: Callable[[Tensor], Tensor], relu_outputs: bool, parameters: Sequence[Tensor]
) -> _Pass:
    contexts = prepared(steps.contexts)
    inputs = [contexts.expand(len(parameters[0]), *contexts.shape)]
    layers = list(zip(parameters[::2], parameters[1::2], strict=True))
    for weight, bias in layers[:-1]:
        inputs.append(torch.baddbmm(bias, inputs[-1], weight).relu_())
    weight, bias = layers[-1]
    logits = torch.baddbmm(bias.mT, weight.mT, inputs[-1].mT)
    positive = logits.relu_() > 0 if relu_outputs else None
    return _Pass(inputs, torch.log_softmax(logits.masked_fill_(steps.barred, -math.inf), dim=1), positive)


def _chosen(steps: OpenSteps, each: int) -> Tensor:
    return steps.actions.expand(each, 1, -1)
