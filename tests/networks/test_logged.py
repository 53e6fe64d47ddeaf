"""log π of logged actions and its written-out gradient, against autograd on the plain form, in float64."""

import itertools
import math
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor

from poela.networks import logged
from poela.networks.logged import Episodes, Layers, OpenSteps, Shares, log_logged
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


EPISODES = Episodes(torch.tensor([20, 1, 0, 29]))


def plainly(layers: Layers, given: OpenSteps, relu_outputs: bool) -> Tensor:
    logits = stacked_outputs(layers, given.inputs)
    logits = torch.relu(logits) if relu_outputs else logits
    log_policy = torch.log_softmax(logits.masked_fill(given.barred.T, -math.inf), dim=2)
    chosen = log_policy[:, torch.arange(N), given.actions]
    return torch.stack([own.sum(dim=1) for own in torch.split(chosen, EPISODES.counts.tolist(), dim=1)], dim=1)


def gradients(value: Tensor, layers: Layers) -> list[Tensor]:
    parameters = [parameter for layer in layers for parameter in layer]
    for parameter in parameters:
        parameter.grad = None
    value.backward()  # type: ignore[no-untyped-call]
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


@pytest.mark.parametrize("relu_outputs", [False, True])
@pytest.mark.parametrize("widths", [[], [5], [6, 8]])
@pytest.mark.parametrize(("in_a_piece", "kept"), [(10**6, 10**6), (8 * 2 * 7, 10**6), (8 * 2 * 7, 0)])
def test_values_and_gradients_are_those_of_autograd(
    widths: list[int], relu_outputs: bool, in_a_piece: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(logged.IN_A_PIECE, "cpu", in_a_piece)  # one piece, or about seven steps in each
    monkeypatch.setattr(logged, "MOST_KEPT", kept)
    layers, given, slopes = layers_of(widths, each=2), steps(), normal(2, 4)
    found = log_logged(layers, given, EPISODES, relu_outputs)
    expected = plainly(layers, given, relu_outputs)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    ours, plain = (gradients((own * slopes).sum(), layers) for own in (found, expected))
    for mine, theirs in zip(ours, plain, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)
        assert mine.stride() == theirs.stride()  # which the fused Adam takes for granted


def test_some_networks_of_a_stack_have_their_own_values_and_gradients() -> None:
    layers, given, slopes = layers_of([6, 8], each=3), steps(), normal(3, 4)
    expected = plainly(layers, given, False)
    parts = [slice(0, 2), slice(2, 3)]
    found = torch.cat([log_logged(layers, given, EPISODES, own=own) for own in parts])
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    ours, plain = (gradients((own * slopes).sum(), layers) for own in (found, expected))
    for mine, theirs in zip(ours, plain, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("in_a_piece", [10**6, 8 * 2 * 7])
@pytest.mark.parametrize("known", [True, False], ids=["all propensities", "logged actions"])
def test_cross_entropies_of_steps_of_their_own_are_those_of_autograd(
    known: bool, in_a_piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(logged.IN_A_PIECE, "cpu", in_a_piece)
    layers, each = layers_of([6, 8], each=2), [steps(), steps()]
    inputs, actions, barred = (
        torch.stack([getattr(own, name) for own in each]) for name in ("inputs", "actions", "barred")
    )
    targets = torch.rand(2, N_ACTIONS, N, generator=RANDOM, dtype=torch.float64).masked_fill(barred, 0.0)
    targets = targets / targets.sum(dim=1, keepdim=True)
    if not known:
        targets = torch.nn.functional.one_hot(actions, N_ACTIONS).mT.double()
    shares = torch.rand(2, N, generator=RANDOM, dtype=torch.float64)
    shares[:, ::5] = 0.0
    given = OpenSteps(inputs, actions, barred, targets=targets if known else None)
    found = log_logged(layers, given, Shares(shares))
    log_policy = torch.log_softmax(stacked_outputs(layers, inputs).mT.masked_fill(barred, -math.inf), dim=1)
    expected = ((targets * log_policy.masked_fill(barred, 0.0)).sum(dim=1) * shares).sum(dim=1)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    slopes = normal(2)
    ours, plain = (gradients((own * slopes).sum(), layers) for own in (found, expected))
    for mine, theirs in zip(ours, plain, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("most_kept", [10**6, 0])
def test_what_is_not_kept_is_computed_again_and_not_held(most_kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[weakref.ref[Any]] = []
    plain = logged._Asked.passed

    def recorded(asked: Any, given: OpenSteps) -> Any:
        passed = plain(asked, given)
        passes.append(weakref.ref(passed))
        return passed

    monkeypatch.setattr(logged, "MOST_KEPT", most_kept)
    monkeypatch.setattr(logged._Asked, "passed", recorded)
    layers = layers_of([6], each=1)
    found = log_logged(layers, steps(), EPISODES)
    assert [own() is not None for own in passes] == [most_kept > 0]
    gradients(found.sum(), layers)
    assert len(passes) == (1 if most_kept else 2)
    assert [own() for own in passes] == [None] * len(passes)


def test_without_a_gradient_nothing_is_held() -> None:
    with torch.no_grad():
        assert not log_logged(layers_of([6], each=1), steps(), EPISODES).requires_grad


def test_a_barred_logged_action_has_no_chance_and_no_slope_without_weight() -> None:
    layers, given = layers_of([5], each=1), steps()
    given.barred[given.actions[0], 0] = True
    found = log_logged(layers, given, EPISODES)
    assert found[0, 0] == -math.inf
    assert all(torch.isfinite(slope).all() for slope in gradients(found.exp().sum(), layers))
