"""K members of a stack learn what K fits learn one after the other, whatever happens to the others."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from poela.core.errors import InputError, TrainingError
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import Eligibility
from poela.learners import policy_gradient
from poela.learners.active import crm_objective
from poela.learners.learner import Learner
from poela.learners.policy_gradient import POCRM, POELA, POMu
from poela.learners.q_learning import BCQ, CQL, PQL
from poela.learners.stacked import Member, fit_stacked, in_parts, stack_key
from poela.networks.modules import NetworkShape
from poela.networks.stack import Stack
from poela.simulators.registry import simulate

FEW: dict[str, Any] = {"steps": 12, "hidden": (8, 8), "checkpoints": 3, "device": "cpu"}
GRADIENT: dict[str, Any] = {**FEW, "warm_start_steps": 8, "warm_start_episodes": 5, "learning_rate": 1e-2}


@pytest.fixture(scope="module")
def logs() -> Trajectories:
    """Episodes of different lengths."""
    whole = simulate("tumor", episodes=30, seed=0)
    ends = whole.offsets[1:] - np.arange(whole.n_episodes) % 7
    keep = [np.arange(start, end) for start, end in zip(whole.offsets[:-1], ends, strict=True)]
    rows = np.concatenate(keep)
    assert whole.propensities is not None
    return Trajectories(
        whole.contexts[rows],
        whole.actions[rows],
        whole.rewards[rows],
        np.cumsum([0, *map(len, keep)]),
        propensities=whole.propensities[rows],
    )


POLICY_GRADIENTS = [
    Member(POELA(radius=0.5, variance_penalty=0.0, **GRADIENT), 0),
    Member(POELA(radius=2.0, variance_penalty=1.0, **GRADIENT), 7),
    Member(POMu(minimum_probability=0.1, **GRADIENT), 0),
    Member(POCRM(variance_penalty=0.3, **GRADIENT), 7),
]
Q_FUNCTIONS = [
    Member(BCQ(threshold=0.0, **FEW), 0),
    Member(BCQ(threshold=0.3, **FEW), 5),
    Member(PQL(threshold=0.0, density="nearest", percentile=20.0, **FEW), 5),
    Member(CQL(conservatism=0.5, **FEW), 0),
]


@pytest.mark.parametrize("members", [POLICY_GRADIENTS, Q_FUNCTIONS], ids=["policy gradients", "Q functions"])
def test_a_stack_learns_the_same_policies_as_its_members_alone(members: list[Member], logs: Trajectories) -> None:
    together = fit_stacked(members, logs)
    for member, learned in zip(members, together, strict=True):
        alone = list(member.learner.fit_path(logs, member.seed))
        assert learned.error is None
        assert [c.step for c in learned.checkpoints] == [c.step for c in alone] == [4, 8, 12]
        for ours, theirs in zip(learned.checkpoints, alone, strict=True):
            scores = ours.policy.scores(logs.contexts, None)
            np.testing.assert_allclose(scores, theirs.policy.scores(logs.contexts, None), rtol=1e-4, atol=1e-5)
            assert (ours.policy.probabilities(logs.contexts)[~ours.policy.eligibility.mask(logs.contexts)] == 0).all()


WILD_GRADIENT = Member(POELA(radius=0.5, variance_penalty=1e300, **GRADIENT), 0)
WILD_Q = Member(CQL(conservatism=1e300, **FEW), 0)


@pytest.mark.parametrize(
    ("steady", "wild"),
    [(POLICY_GRADIENTS[0], WILD_GRADIENT), (Q_FUNCTIONS[0], WILD_Q)],
    ids=["policy gradients", "Q functions"],
)
def test_one_that_breaks_down_stops_alone(steady: Member, wild: Member, logs: Trajectories) -> None:
    kept, broken = fit_stacked([steady, wild], logs)
    assert isinstance(broken.error, TrainingError)
    assert len(broken.checkpoints) < 3
    assert kept.error is None
    found = [checkpoint.policy.scores(logs.contexts, None) for checkpoint in kept.checkpoints]
    alone = [checkpoint.policy.scores(logs.contexts, None) for checkpoint in steady.learner.fit_path(logs, steady.seed)]
    np.testing.assert_allclose(found, alone, rtol=1e-4, atol=1e-5)
    with pytest.raises(TrainingError, match=str(broken.error)[:40]):
        wild.learner.fit(logs, wild.seed)


def test_training_ends_where_nobody_learns_any_more(logs: Trajectories, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(*given: Any) -> Tensor:
        calls.append(given)
        return crm_objective(*given)

    monkeypatch.setattr(policy_gradient, "crm_objective", counted)
    long = replace(WILD_GRADIENT.learner, steps=1000)
    for learned in fit_stacked([Member(long, 0), Member(long, 1)], logs):
        assert isinstance(learned.error, TrainingError)
    assert len(calls) < 100


def test_what_a_member_cannot_do_is_said_of_it_alone(logs: Trajectories) -> None:
    decided = Member(POMu(minimum_probability=0.2, **GRADIENT), 0)
    fine, warned = fit_stacked([POLICY_GRADIENTS[0], decided], logs)
    assert fine.error is None
    assert not fine.warnings
    assert "nothing to learn" in warned.warnings[0]
    assert [checkpoint.step for checkpoint in warned.checkpoints] == [12]
    for refused in fit_stacked(POLICY_GRADIENTS[:2], logs.with_propensities(None)):
        assert "carry no propensities" in str(refused.error)
    unruled = Member(BCQ(rule=Eligibility(scale=(1.0,) * 9), **FEW), 0)
    learned, refused = fit_stacked([Q_FUNCTIONS[0], unruled], logs)
    assert learned.error is None
    assert "scale has 9 numbers" in str(refused.error)


def test_a_gradient_that_stays_zero_is_said_of_its_member_alone(logs: Trajectories) -> None:
    # ReLU on the logits of raw inputs leaves some networks dead from the start.
    settings = {**GRADIENT, "relu_logits": True, "standardise": False, "steps": 40}
    members = [Member(POCRM(**settings), seed) for seed in range(20)]
    told = [learned.warnings for learned in fit_stacked(members, logs)]
    alone = [fit_stacked([member], logs)[0].warnings for member in members]
    assert told == alone
    assert any(told)
    assert not all(told)


@pytest.mark.parametrize("other", [POCRM(**{**GRADIENT, "steps": 5}), BCQ(**FEW), POCRM(**GRADIENT, network="gru")])
def test_unlike_learners_are_refused(other: Learner, logs: Trajectories) -> None:
    assert stack_key(other) != stack_key(POLICY_GRADIENTS[0].learner)
    with pytest.raises(InputError, match="cannot be trained as one stack"):
        fit_stacked([POLICY_GRADIENTS[0], Member(other, 0)], logs)


def test_a_stack_gives_back_its_networks() -> None:
    shape = NetworkShape("mlp", 3, 2, (4, 5), relu_outputs=True)
    networks = [shape.build(seed) for seed in range(3)]
    contexts = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    stack = Stack(networks)
    for before, after, logits in zip(networks, stack.members(), stack.logits(contexts), strict=True):
        for name, weight in before.weights().items():
            np.testing.assert_array_equal(weight, after.weights()[name])
        torch.testing.assert_close(logits, before.along(contexts, torch.zeros(0), None))


def test_parts_hold_every_member_once() -> None:
    members = [Member(POCRM(), seed) for seed in range(7)]
    parts = list(in_parts(members, 3))
    assert sorted(member.seed for part in parts for member in part) == list(range(7))
    assert max(map(len, parts)) <= 3
