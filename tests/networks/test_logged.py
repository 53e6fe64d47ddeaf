"""log π of logged actions and its written-out gradient, against autograd on the plain form, in float64."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from poela.networks import logged
from poela.networks.logged import Layers, OpenSteps, log_logged
from poela.networks.stack import stacked_outputs

RANDOM = torch.Generator().manual_seed(0)
N, N_ACTIONS = 50, 3


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=RANDOM, dtype=torch.float64)


def layers_of(widths: list[int], each: int) -> Layers:
    sizes = [4, *widths, N_ACTIONS]
    pairs = list(itertools.pairwise(sizes))
    return [(normal(each, i, o).requires_grad_(), normal(each, 1, o).requires_grad_()) for i, o in pairs]


def steps() -> OpenSteps:
    actions = torch.randint(N_ACTIONS, (N,), generator=RANDOM)
    barred = torch.rand(N_ACTIONS, N, generator=RANDOM) < 0.3
    barred[actions, torch.arange(N)] = False
    return OpenSteps(normal(N, 4), actions, barred)


def plainly(layers: Layers, given: OpenSteps, relu_outputs: bool) -> Tensor:
    logits = stacked_outputs(layers, given.contexts / 2)
    logits = torch.relu(logits) if relu_outputs else logits
    log_policy = torch.log_softmax(logits.masked_fill(given.barred.T, -math.inf), dim=2)
    return log_policy[:, torch.arange(N), given.actions]


@pytest.mark.parametrize("relu_outputs", [False, True])
@pytest.mark.parametrize("widths", [[], [5], [6, 8]])
@pytest.mark.parametrize(("in_a_piece", "kept"), [(10**6, 10**6), (8 * 2 * 7, 10**6), (8 * 2 * 7, 0)])
def test_values_and_gradients_are_those_of_autograd(
    widths: list[int], relu_outputs: bool, in_a_piece: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(logged.IN_A_PIECE, "cpu", in_a_piece)  # one piece, or about seven steps in each
    monkeypatch.setattr(logged, "MOST_KEPT", kept)
    layers, given, slopes = layers_of(widths, each=2), steps(), normal(2, N)
    parameters = [parameter for layer in layers for parameter in layer]
    found, expected = log_logged(layers, given, lambda x: x / 2, relu_outputs), plainly(layers, given, relu_outputs)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    ours = torch.autograd.grad((found * slopes).sum(), parameters)
    for mine, theirs in zip(ours, torch.autograd.grad((expected * slopes).sum(), parameters), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


def test_what_is_not_kept_is_computed_again_and_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    held = []
    for kept in (10**6, 0):
        monkeypatch.setattr(logged, "MOST_KEPT", kept)
        node = log_logged(layers_of([6], each=1), steps(), lambda x: x).grad_fn
        assert node is not None
        (piece, _), *_ = node.next_functions
        held.append(getattr(piece, "kept", None))
    assert held[0] is not None
    assert held[1] is None


def test_a_barred_logged_action_has_no_chance_and_no_slope_without_weight() -> None:
    layers, given = layers_of([5], each=1), steps()
    given.barred[given.actions[0], 0] = True
    found = log_logged(layers, given, lambda x: x)
    assert found[0, 0] == -math.inf
    (slope,) = torch.autograd.grad(found.exp().sum(), [layers[0][0]])
    assert torch.isfinite(slope).all()
