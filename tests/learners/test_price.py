"""The price of missing support: one dial from free to the hard rule, the same in training and in acting."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import ArrayLike

from poela.core.arrays import FloatArray
from poela.core.policy import Memoryless
from poela.data.trajectories import Trajectories
from poela.eligibility.eligible import Eligible
from poela.eligibility.rules import Eligibility
from poela.learners.consensus import Consensus
from poela.learners.fitted_q import FittedQ
from poela.learners.policy_gradient import POELA
from poela.learners.training_batch import TrainingBatch
from poela.networks.logged import Episodes, OpenSteps, log_logged
from poela.networks.modules import NetworkShape
from poela.networks.outputs import outputs_along, outputs_at
from poela.networks.stack import RecurrentStack, Stack
from poela.policies.valued import priced
from poela.regression.backward_induction import soft

PRICES = (0.0, 0.3, 1.0, 3.0, 100.0, 1e6)


class Everywhere(Memoryless):
    """A model of the logging policy that overlooks the hole."""

    n_features, n_actions = 2, 3

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        return np.tile([0.4, 0.4, 0.2], (len(np.asarray(contexts)), 1))


def logs_with_a_hole(n: int = 600, seed: int = 0) -> Trajectories:
    """Where the first feature is above 1, the third action, which pays, is never taken."""
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(n, 2))
    hole = contexts[:, 0] > 1
    chances = np.where(hole[:, None], [0.5, 0.5, 0.0], [0.4, 0.4, 0.2])
    actions = (rng.random(n)[:, None] > chances.cumsum(axis=1)[:, :2]).sum(axis=1)
    rewards = (actions == 2) + rng.normal(size=n)
    return Trajectories(contexts, actions, rewards, np.arange(n + 1), chances[np.arange(n), actions], 3)


def policies_of(learner: str, price: float | None, logs: Trajectories) -> FloatArray:
    rule = Eligibility(support=0.02, price=price)
    if learner == "poela":
        policy = POELA(price=price, steps=400, warm_start_steps=60, learning_rate=3e-3).fit(logs, seed=0)
    elif learner == "consensus":
        policy = Consensus(sharpness=(1.5,), rule=rule).fit(logs, behavior=Everywhere())
    else:
        tilt = FittedQ(temperature=0.5, temperatures=(), backup="soft", history=0, rule=rule)
        policy = tilt.fit(logs, behavior=Everywhere())
    return np.asarray(policy.along(logs))


@pytest.mark.parametrize("learner", ["poela", "fittedq", "consensus"])
def test_one_dial_from_free_to_the_hard_rule(learner: str) -> None:
    logs = logs_with_a_hole()
    support = Eligibility(support=0.02).fit(logs).support
    assert support is not None
    unsupported = ~support.supported(support.probabilities(logs.contexts))
    assert 0.05 < unsupported.any(axis=1).mean() < 0.4
    hard = policies_of(learner, None, logs)
    soft_ones = [policies_of(learner, price, logs) for price in PRICES]
    outside = [float(np.where(unsupported, one, 0.0).sum(axis=1).mean()) for one in soft_ones]
    assert outside == sorted(outside, reverse=True)
    assert outside[0] > 0.01
    assert outside[-1] < 1e-6
    assert np.where(unsupported, hard, 0.0).max() == 0
    distances = [float(np.abs(one - hard).sum(axis=1).mean()) for one in soft_ones]
    assert distances[-1] < 0.1 * distances[0]


def test_without_a_price_nothing_is_barred_and_the_policy_is_that_of_no_rule() -> None:
    logs = logs_with_a_hole(300)
    free = POELA(support=None, steps=30, warm_start_steps=30).fit(logs, seed=0).along(logs)
    unpriced = POELA(price=0, steps=30, warm_start_steps=30).fit(logs, seed=0).along(logs)
    np.testing.assert_array_equal(free, unpriced)


@pytest.mark.parametrize("network", ["mlp", "gru"])
def test_training_sees_the_policy_that_acts_and_pays_for_what_it_does(network: str) -> None:
    rng = np.random.default_rng(0)
    n, offsets = 12, np.array([0, 3, 4, 9, 12])
    logs = Trajectories(rng.normal(size=(n, 2)), rng.integers(3, size=n), rng.normal(size=n), offsets, np.full(n, 0.4))
    mask = rng.random((n, 3)) < 0.7
    mask[np.arange(n), logs.actions] = True
    penalty = np.where(rng.random((n, 3)) < 0.3, 5 * rng.random((n, 3)), 0.0)
    one = NetworkShape(network, 2, 3, (5,)).build(1)
    stack = RecurrentStack(one, "cpu") if network == "gru" else Stack([one])
    batch = TrainingBatch(logs, [mask], stack, discount=1.0, penalties=[penalty])
    logits = (
        outputs_along(one, logs.contexts, logs.actions, logs.offsets)
        if network == "gru"
        else outputs_at(one, logs.contexts)
    )
    scores = np.where(mask, np.exp(logits - penalty), 0.0)
    policy = scores / scores.sum(axis=1, keepdims=True)
    ratios = np.log(policy[np.arange(n), logs.actions] / 0.4)
    weights = batch.log_weights(stack).detach().numpy()[0]
    np.testing.assert_allclose(weights, np.add.reduceat(ratios, offsets[:-1]), atol=1e-5)
    choice = mask.sum(axis=1) > 1 if network == "mlp" else np.ones(n, bool)  # what cannot be helped is a constant
    paid = (np.where(mask, policy * penalty, 0.0).sum(axis=1) * choice).sum() / n
    assert float(batch.costs(stack).detach()) == pytest.approx(paid, rel=1e-5)


def test_each_policy_pays_by_its_own_rule() -> None:
    logs = logs_with_a_hole(50)
    free: np.ndarray = np.ones((50, 3), bool)
    costly = np.tile([0.0, 0.0, 2.0], (50, 1))
    stack = Stack([NetworkShape("mlp", 2, 3, (4,)).build(seed) for seed in range(3)])
    batch = TrainingBatch(
        logs, [free, free.copy(), free.copy()], stack, discount=1.0, penalties=[None, costly, 0 * costly]
    )
    costs = batch.costs(stack).detach().tolist()
    assert costs[1] > 0
    assert costs[0] == costs[2] == 0


def test_many_costly_steps_are_asked_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = logs_with_a_hole(50)
    free: np.ndarray = np.ones((50, 3), bool)
    even = NetworkShape("mlp", 2, 3, ()).build(0)
    for parameter in even.parameters():
        torch.nn.init.zeros_(parameter)
    stack, costly = Stack([even]), np.tile([0.0, 0.0, math.log(2)], (50, 1))
    monkeypatch.setattr("poela.learners.training_batch.MOST_PRICED", 20)
    batch = TrainingBatch(logs, [free], stack, discount=1.0, penalties=[costly])
    assert float(batch.costs(stack).detach()) == pytest.approx(0.2 * math.log(2))  # π is (1, 1, ½) over its sum


def test_the_written_out_gradient_with_a_penalty_is_that_of_autograd() -> None:
    random = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=random, dtype=torch.float64)

    actions = torch.randint(3, (9,), generator=random)
    steps = OpenSteps(normal(9, 2), actions, torch.zeros(3, 9, dtype=torch.bool), normal(3, 9).abs())
    weight, bias = normal(1, 2, 3).requires_grad_(), normal(1, 1, 3).requires_grad_()
    episodes = Episodes(torch.tensor([4, 5]))
    log_logged([(weight, bias)], steps, episodes).square().sum().backward()  # type: ignore[no-untyped-call]
    ours = weight.grad
    assert steps.penalty is not None
    log_policy = torch.log_softmax(steps.inputs @ weight[0] + bias[0] - steps.penalty.T, dim=1)
    sums = log_policy[torch.arange(9), actions].tensor_split([4])
    plain = torch.autograd.grad(sums[0].sum() ** 2 + sums[1].sum() ** 2, weight)[0]
    assert ours is not None
    torch.testing.assert_close(ours, plain)


def test_soft_backups_look_at_practice_under_the_price() -> None:
    behavior, q = np.array([[0.5, 0.3, 0.2]]), np.array([1.0, 0.0, 3.0])
    eligible = Eligible(np.array([[True, True, True]]), np.zeros(1, bool), np.array([[0.0, 0.0, 1.5]]))
    near = priced(behavior, eligible)
    expected = behavior[0] * np.exp([0.0, 0.0, -1.5])
    np.testing.assert_allclose(near[0], expected / expected.sum())
    value = soft(near, [2.0])(np.array([0]), q[:, None, None])
    np.testing.assert_allclose(value[0, 0], 2 * np.log((near[0] * np.exp(q / 2)).sum()))
    dear = Eligible(eligible.mask, eligible.stranded, np.array([[0.0, 0.0, 1e9]]))
    barred = Eligible(np.array([[True, True, False]]), eligible.stranded)
    np.testing.assert_array_equal(priced(behavior, dear), priced(behavior, barred))


def test_values_of_the_first_step_are_those_of_acting_so_in_the_second() -> None:
    """Where the first action leads decides whether the second step lies in the hole."""
    rng = np.random.default_rng(0)
    n, tau = 1500, 0.5
    first = rng.integers(2, size=n)
    second = np.where(first == 1, 0, rng.integers(2, size=n))  # after the second action, never again
    actions, contexts = np.column_stack([first, second]), np.column_stack([np.zeros(n), 1 + first])
    rewards = np.column_stack([np.zeros(n), 1.0 + second])
    chances = np.full((2 * n, 2), 0.5)

    class Fair(Memoryless):
        n_features, n_actions = 1, 2

        def probabilities(self, contexts: ArrayLike) -> FloatArray:
            return np.full((len(np.asarray(contexts)), 2), 0.5)

    offsets = np.arange(0, 2 * n + 1, 2)
    logs = Trajectories(contexts.reshape(-1, 1), actions.ravel(), rewards.ravel(), offsets, chances[:, 0])
    rule = Eligibility(support=0.02, price=0.7)
    tilt = FittedQ(temperature=tau, temperatures=(), backup="soft", history=0, penalty=1e-4, rule=rule)
    policy = tilt.fit(logs, behavior=Fair())
    places = np.array([[1.0], [2.0]], np.float32)
    penalty = policy.eligibility.resolve(places).penalty
    assert penalty is not None
    assert penalty[1, 1] > 0.5
    near = 0.5 * np.exp(-penalty)
    near /= near.sum(axis=1, keepdims=True)
    after = policy.values.q_at(places, np.array([1, 1]))
    expected = tau * np.log((near * np.exp(after / tau)).sum(axis=1))
    np.testing.assert_allclose(policy.values.q_at(np.zeros((1, 1), np.float32), np.array([0]))[0], expected, atol=0.03)
