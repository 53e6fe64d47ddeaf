"""BCQ, PQL and CQL against values worked out by hand, and what happens when training breaks down."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from torch import Tensor

from poela.core.arrays import BoolArray, FloatArray
from poela.core.errors import InputError, TrainingError
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import Radius
from poela.evaluation.rollouts import true_value
from poela.learners import q_learning
from poela.learners.q_learning import BCQ, CQL, PQL, Limits, QLearning, Transitions, conservative_terms
from poela.learners.value_learner import DIVERGED
from poela.networks.modules import NetworkShape
from poela.networks.outputs import outputs_at
from poela.networks.stack import Stack
from poela.simulators.episodes import run
from poela.simulators.tumor import TumorBehavior, TumorGrowth, normalised

# Tables reach their values exactly, and then nothing is left to learn.
pytestmark = pytest.mark.filterwarnings("ignore:.*gradient has been exactly zero:poela.core.errors.PoelaWarning")

# A linear network on one-hot contexts is a table, so training must end at the Bellman values themselves.
TABLE: dict[str, Any] = {
    "hidden": (),
    "standardise": False,
    "weight_decay": 0.0,
    "learning_rate": 0.1,
    "steps": 600,
    "target_rate": 0.1,
    "discount": 0.9,
    "device": "cpu",
}
STATES = np.eye(2, dtype=np.float32)


def fork() -> Trajectories:
    """At the start, action 0 pays nothing and leads on, action 1 pays 1 and ends; then 0 pays 2, and 1 pays 10.

    The logging policy takes the last one only once in ten times.
    """
    episodes: list[list[tuple[int, int, float]]] = [[(0, 0, 0.0), (1, 0, 2.0)]] * 9
    episodes += [[(0, 0, 0.0), (1, 1, 10.0)]] + [[(0, 1, 1.0)]] * 10
    steps = [step for episode in episodes for step in episode]
    chances = {0: [0.5, 0.5], 1: [0.9, 0.1]}
    return Trajectories(
        STATES[[state for state, _, _ in steps]],
        [action for _, action, _ in steps],
        [reward for _, _, reward in steps],
        np.concatenate([[0], np.cumsum([len(episode) for episode in episodes])]),
        [chances[state] for state, _, _ in steps],
    )


def values_of(learner: QLearning, train: Trajectories) -> FloatArray:
    values: FloatArray = outputs_at(learner.fit(train).network, STATES)
    return values


def test_without_a_threshold_values_are_those_of_acting_best() -> None:
    np.testing.assert_allclose(values_of(BCQ(threshold=0.0, **TABLE), fork()), [[9.0, 1.0], [2.0, 10.0]], atol=0.3)


def test_a_barred_action_is_neither_taken_nor_bootstrapped_from() -> None:
    learner = BCQ(threshold=0.2, **TABLE)  # 0.1 / 0.9 is below it
    assert values_of(learner, fork())[0, 0] == pytest.approx(0.9 * 2.0, abs=0.1)
    np.testing.assert_array_equal(learner.fit(fork()).probabilities(STATES), [[1, 0], [1, 0]])


def test_threshold_and_rule_must_both_be_passed() -> None:
    train = fork()
    only_first = train.take(np.flatnonzero(train.lengths == 2)[:9])  # action 1 never logged at either state
    learner = BCQ(threshold=0.0, rule=Radius(0.01), **TABLE)
    np.testing.assert_array_equal(learner.fit(only_first).probabilities(STATES), [[1, 0], [1, 0]])


def test_a_disbelieved_context_counts_as_the_lowest_value() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Wary(PQL):
        def pessimistic_steps(self, train: Trajectories, seeds: Sequence[int]) -> tuple[list[BoolArray], float]:
            return [train.contexts[:, 1] == 1] * len(seeds), -4.0

    values = values_of(Wary(**TABLE), fork())
    np.testing.assert_allclose(values, [[0.9 * -4.0, 1.0], [2.0, 10.0]], atol=0.3)


def test_the_lowest_value_of_pql_is_by_default_the_lowest_return_to_go() -> None:
    train = Trajectories(np.zeros((5, 1)), [0] * 5, [1.0, -2.0, 4.0, -3.0, 0.5], [0, 3, 5])
    learner = PQL(density="nearest", discount=0.5)
    # To go: −2 + 0.5·4 = 0, 4, 1 + 0.5·0 = 1; 0.5, −3 + 0.25 = −2.75.
    assert learner.pessimistic_steps(train, [0])[1] == -2.75
    assert replace(learner, lowest_value=-30.0).pessimistic_steps(train, [0])[1] == -30.0


def test_goals_follow_the_double_q_rule_step_by_step() -> None:
    rng = np.random.default_rng(0)
    lengths = [3, 1, 4]
    n = sum(lengths)
    train = Trajectories(
        rng.normal(size=(n, 2)), rng.integers(3, size=n), rng.normal(size=n), np.r_[0, np.cumsum(lengths)], n_actions=3
    )
    eligible = rng.random((n, 3)) < 0.6
    eligible[:, 1] |= ~eligible.any(axis=1)
    disbelieved = rng.random(n) < 0.4
    limits = [Limits(eligible, disbelieved, -7.0), Limits(np.ones((n, 3), np.bool_), np.zeros(n, np.bool_), 0.0)]
    networks = [NetworkShape("mlp", 2, 3, (5,)).build(seed) for seed in (1, 2, 3, 4)]
    for network in networks:
        network.standardise_by(train.contexts)
    stack, target = Stack(networks[:2]), Stack(networks[2:])
    data = Transitions.of(train, stack, limits, discount=0.8)
    rows = np.stack([np.arange(n), rng.permutation(n)])
    values, goals = data.values(torch.tensor(rows), stack.layers, target.layers)

    for own in range(2):
        online, slow = (outputs_at(networks[number], train.contexts) for number in (own, own + 2))
        np.testing.assert_allclose(values[own].detach().numpy(), online[rows[own]], atol=1e-6)
        for row, goal in zip(rows[own], goals[own], strict=True):
            following = 0.0
            if row + 1 not in train.offsets:
                allowed = np.flatnonzero(limits[own].eligible[row + 1])
                best = allowed[online[row + 1, allowed].argmax()]
                following = limits[own].floor if limits[own].disbelieved[row + 1] else slow[row + 1, best]
            assert float(goal) == pytest.approx(train.rewards[row] + 0.8 * following, abs=1e-5)
    assert goals.requires_grad is False


def test_the_conservative_term_is_log_sum_exp_less_the_logged_value() -> None:
    values = np.random.default_rng(0).normal(size=(2, 6, 4)) * 3
    actions = np.array([[0, 3, 1, 1, 2, 0]] * 2)[:, :, None]
    logged = np.take_along_axis(values, actions, axis=2)[:, :, 0]
    expected = [np.mean(logsumexp(values[own], axis=1) - logged[own]) for own in range(2)]
    found = conservative_terms(torch.tensor(values), torch.tensor(logged))
    np.testing.assert_allclose(found.numpy(), expected)


def test_conservatism_turns_the_learner_towards_what_was_logged() -> None:
    # Action 1 pays more, but was logged once in 20 times.
    actions = (np.arange(400) % 20 == 0).astype(int)
    logs = Trajectories(np.zeros((400, 1)), actions, np.where(actions == 1, 1.2, 1.0), np.arange(401))
    settings = {**TABLE, "steps": 200}
    bold = CQL(conservatism=0.0, **settings).fit(logs).probabilities([[0.0]])
    careful = CQL(conservatism=5.0, **settings).fit(logs).probabilities([[0.0]])
    np.testing.assert_array_equal(bold, [[0.0, 1.0]])
    np.testing.assert_array_equal(careful, [[1.0, 0.0]])


def runaway(values: Tensor, logged: Tensor) -> Tensor:
    """Rewards networks for large values: they grow step by step."""
    return -100 * values.mean(dim=(1, 2))


def broken(values: Tensor, logged: Tensor) -> Tensor:
    """A loss that turns to NaN once values reach 1."""
    return runaway(values, logged) + torch.where(values.amax(dim=(1, 2)) > 1, torch.nan, 0.0)


def test_diverging_values_are_named_and_leave_the_last_good_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(q_learning, "conservative_terms", runaway)
    train = fork()
    reachable = 10.0 * (1 + 0.9)
    with pytest.raises(TrainingError, match=r"CQL: values diverged at step \d+: they reach") as caught:
        CQL(**{**TABLE, "steps": 10_000, "checkpoints": 200}).fit(train)
    good = outputs_at(caught.value.last_good.network, STATES)
    assert 0.5 * DIVERGED * reachable < np.abs(good).max() <= DIVERGED * reachable
    np.testing.assert_allclose(caught.value.last_good.along(train).sum(axis=1), 1)


def test_a_loss_that_turns_to_nan_is_named_and_leaves_the_last_good_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(q_learning, "conservative_terms", broken)
    with pytest.raises(TrainingError, match=r"CQL: .* NaN or infinite") as caught:
        CQL(**{**TABLE, "learning_rate": 0.01, "checkpoints": 600}).fit(fork())
    assert np.isfinite(outputs_at(caught.value.last_good.network, STATES)).all()


def test_zero_rewards_are_no_divergence() -> None:
    logs = Trajectories(STATES[[0, 1] * 20] * 50, [0, 1] * 20, np.zeros(40), np.arange(0, 41, 2), np.full((40, 2), 0.5))
    BCQ(steps=100, device="cpu").fit(logs)


def test_wrong_settings_are_listed_all_at_once() -> None:
    with pytest.raises(InputError) as caught:
        BCQ(steps=0, batch_size=0, discount=1.5, learning_rate=-1.0).fit(fork())
    assert len(caught.value.problems) == 4
    with pytest.raises(InputError, match="conservatism is -1"):
        CQL(conservatism=-1.0).fit(fork())
    with pytest.raises(InputError, match="percentile is 200"):
        PQL(percentile=200.0).fit(fork())


def test_bcq_without_any_propensities_says_what_it_needs() -> None:
    train = fork()
    with pytest.raises(InputError, match="behavior model"):
        BCQ(**TABLE).fit(train.with_propensities(None))
    BCQ(**{**TABLE, "steps": 5}).fit(train.with_propensities(None), behavior=Even())


class Even:
    def probabilities(self, contexts: Any) -> FloatArray:
        return np.full((len(contexts), 2), 0.5)

    def along(self, trajectories: Any) -> FloatArray:
        return self.probabilities(trajectories.contexts)

    def actor(self, n: int) -> Any:
        raise NotImplementedError


def test_bcq_learns_to_treat_less_on_the_markov_tumor() -> None:
    simulator = TumorGrowth(markov=True)
    train = run(simulator, TumorBehavior(), 300, seed=5)
    policy = BCQ(steps=600, device="cpu").fit(train, behavior=TumorBehavior())
    # The logging policy is worth 48, nine months of treatment 68, the best schedule found 100.
    assert normalised(true_value(policy, simulator, 300).value) > 85
