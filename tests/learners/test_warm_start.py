"""One warm start for all that share it: bit for bit what each would have done by itself."""

from typing import Any

import numpy as np
import pytest

from poela.core.errors import PoelaWarning
from poela.data.trajectories import Trajectories
from poela.learners import warm_start
from poela.learners.learner import Learner
from poela.learners.policy_gradient import POCRM, POELA, PolicyGradient
from poela.learners.stacked import Member, TrainingStack, fit_stacked
from poela.learners.training_batch import TrainingBatch
from poela.simulators.registry import simulate

FEW: dict[str, Any] = {"steps": 2, "warm_start_steps": 8, "warm_start_episodes": 5, "hidden": (8, 8), "device": "cpu"}


@pytest.fixture
def logs() -> Trajectories:
    return simulate("tumor", episodes=30, seed=0)


@pytest.fixture
def cloned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many networks were cloned each time."""
    counts = []
    plain = PolicyGradient.clone

    def counted(self: PolicyGradient, trained: TrainingStack, train: Trajectories, batch: TrainingBatch) -> Any:
        counts.append(len(trained.members))
        return plain(self, trained, train, batch)

    monkeypatch.setattr(PolicyGradient, "clone", counted)
    return counts


def started(learner: PolicyGradient, members: list[Member], logs: Trajectories) -> list[dict[str, Any]]:
    """The weights of each member's network after the warm start."""
    trained = learner.training_stack(members, logs)
    free = np.ones((logs.n_steps, logs.n_actions), np.bool_)
    for _ in warm_start.warm_start(learner, trained, logs, [free] * len(members)):
        pass
    return [network.weights() for network in trained.stack.members()]


def test_members_with_one_rule_and_seed_share_a_warm_start(logs: Trajectories, cloned: list[int]) -> None:
    penalties, seeds = (0.0, 0.1, 1.0), (3, 4)
    members = [Member(POCRM(variance_penalty=penalty, **FEW), seed) for seed in seeds for penalty in penalties]
    found = started(members[0].learner, members, logs)
    assert cloned == [2]
    for member, weights in zip(members, found, strict=True):
        warm_start._remembered.clear()
        (alone,) = started(member.learner, [member], logs)
        for name, weight in weights.items():
            np.testing.assert_array_equal(weight, alone[name])
    assert any((found[0][name] != found[3][name]).any() for name in found[0])


def test_learners_of_one_log_share_it_one_after_the_other(logs: Trajectories, cloned: list[int]) -> None:
    other_settings: list[Learner] = [POCRM(variance_penalty=1.0, **{**FEW, "steps": 3}), POCRM(least_ess=9.0, **FEW)]
    fresh = []
    for learner in other_settings:
        warm_start._remembered.clear()
        fresh.append(learner.fit(logs, seed=5).scores(logs.contexts, None))
    cloned.clear()
    warm_start._remembered.clear()
    POCRM(**FEW).fit(logs, seed=5)
    for learner, expected in zip(other_settings, fresh, strict=True):
        np.testing.assert_array_equal(learner.fit(logs, seed=5).scores(logs.contexts, None), expected)
    assert cloned == [1]


@pytest.mark.parametrize("other", [{"warm_start_steps": 9}, {"weight_decay": 0.1}, {"hidden": (8,)}, {"seed": 6}])
def test_other_settings_start_anew(logs: Trajectories, cloned: list[int], other: dict[str, Any]) -> None:
    settings = {**FEW, **other}
    seed = settings.pop("seed", 5)
    POCRM(**FEW).fit(logs, seed=5)
    POCRM(**settings).fit(logs, seed=seed)
    POELA(radius=0.01, **settings).fit(logs, seed=seed)  # another rule
    POCRM(**settings).fit(logs.take(np.arange(20)), seed=seed)  # another log
    assert cloned == [1] * 4


def test_a_warning_is_said_to_all_that_share_it_and_said_again(logs: Trajectories) -> None:
    # ReLU on the logits of raw inputs leaves this network dead from the start.
    settings = {**FEW, "relu_logits": True, "standardise": False, "warm_start_steps": 40}
    dead = next(seed for seed in range(40) if fit_stacked([Member(POCRM(**settings), seed)], logs)[0].warnings)
    told = [learned.warnings for learned in fit_stacked([Member(POCRM(**settings), dead) for _ in range(2)], logs)]
    assert told[0] == told[1]
    assert "gradient has been exactly zero" in told[0][0]
    for _ in range(2):
        with pytest.warns(PoelaWarning, match="warm start: the gradient has been exactly zero"):
            POCRM(**settings).fit(logs, seed=dead)


def test_few_are_remembered(logs: Trajectories, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_start, "MOST_REMEMBERED", 2)
    for seed in range(4):
        POCRM(**FEW).fit(logs, seed=seed)
    assert [key[2] for key in warm_start._remembered[logs]] == [2, 3]  # type: ignore[index]
