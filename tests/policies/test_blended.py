"""Blends of a learned policy and the logging policy, and the logging policy sharpened: formulas by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poela.behavior.multinomial import MultinomialBehavior
from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import Radius
from poela.learners.consensus import Consensus
from poela.learners.learner import Learner, logging_policy
from poela.learners.policy_gradient import POCRM, POELA
from poela.learners.q_learning import BCQ
from poela.policies.blended import BlendedPolicy
from poela.policies.storage import load_policy
from poela.studies.runs import SHARES, ambition_path

QUICK: dict[str, Any] = {"steps": 5, "hidden": (4,), "device": "cpu"}
WARM: dict[str, Any] = {**QUICK, "warm_start_steps": 3}


def logs_of(seed: int) -> Trajectories:
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet(np.full(3, 2.0), size=60)
    chances[:20] = [0.0, 0.25, 0.75]  # where the logging policy never takes the first
    actions = (chances.cumsum(axis=1) < rng.random((60, 1))).sum(axis=1)
    return Trajectories(
        rng.normal(size=(60, 2)), actions, rng.normal(size=60) + actions, np.arange(0, 61, 3), chances,
        feature_names=("age", "dose"), action_names=("none", "low", "high"),
    )  # fmt: skip


TRAIN = logs_of(0)


def blend(learner: Learner, share: float, mixed: bool = False, behavior: Any = None) -> BlendedPolicy:
    policy = learner.fit(TRAIN)
    return BlendedPolicy(
        policy=policy,
        behavior=logging_policy(TRAIN, behavior),
        share=share,
        mixed=mixed,
        eligibility=policy.eligibility,
        feature_names=policy.feature_names,
        action_names=policy.action_names,
    )


def propensities() -> FloatArray:
    assert TRAIN.propensities is not None
    return TRAIN.propensities


def test_a_blend_is_geometric_where_both_act() -> None:
    found = blend(POCRM(**WARM), 0.3)
    learned = found.policy.along(TRAIN)
    expected = propensities() ** 0.7 * learned**0.3
    np.testing.assert_allclose(found.along(TRAIN), expected / expected.sum(axis=1, keepdims=True), rtol=1e-9)
    assert (found.along(TRAIN)[:20, 0] == 0).all()  # what the logging policy never does


def test_the_ends_of_a_blend_are_the_learned_and_the_logging_policy() -> None:
    bold, shy = blend(POELA(radius=0.2, **WARM), 1.0), blend(POELA(radius=0.2, **WARM), 0.0)
    learned = bold.policy.along(TRAIN)
    np.testing.assert_allclose(bold.along(TRAIN), learned, rtol=1e-9)
    within = propensities() * (learned > 0)
    assert (learned == 0).any()
    reached = within.sum(axis=1) > 0
    expected = within[reached] / within[reached].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shy.along(TRAIN)[reached], expected, rtol=1e-9)
    assert (shy.along(TRAIN)[learned == 0] == 0).all()


def test_a_greedy_policy_is_mixed() -> None:
    found = blend(BCQ(threshold=0.2, **QUICK), 0.25, mixed=True)
    learned = found.policy.along(TRAIN)
    assert set(np.unique(learned)) == {0.0, 1.0}
    np.testing.assert_allclose(found.along(TRAIN), 0.75 * propensities() + 0.25 * learned)


@pytest.mark.parametrize(
    ("learner", "mixed"), [(POELA(radius=0.2, **WARM), False), (BCQ(threshold=0.2, **QUICK), True)]
)
def test_acting_following_and_loose_contexts_agree(learner: Learner, mixed: bool) -> None:
    policy = blend(learner, 0.4, mixed)
    along, actor = policy.along(TRAIN), policy.actor(TRAIN.n_episodes)
    np.testing.assert_array_equal(policy.probabilities(TRAIN.contexts, steps=TRAIN.step_numbers), along)
    for step in range(3):
        rows = TRAIN.offsets[:-1] + step
        np.testing.assert_allclose(actor.probabilities(TRAIN.contexts[rows]), along[rows], atol=1e-9)
        actor.record(TRAIN.actions[rows])


@pytest.mark.parametrize("behavior", [None, MultinomialBehavior().fit(TRAIN)])
@pytest.mark.parametrize("mixed", [False, True])
def test_a_loaded_blend_is_the_same_to_the_bit(tmp_path: Path, behavior: Any, mixed: bool) -> None:
    policy = blend(POELA(radius=0.2, **WARM), 0.4, mixed, behavior)
    policy.save(tmp_path / "policy")
    loaded, other = load_policy(tmp_path / "policy"), logs_of(1)
    np.testing.assert_array_equal(loaded.along(other), policy.along(other))
    assert (loaded.share, loaded.mixed, loaded.feature_names) == (0.4, mixed, policy.feature_names)
    assert b'"contains_logged_contexts": true' in (tmp_path / "policy" / "poela-policy.json").read_bytes()


def test_a_blend_has_one_rule_also_in_a_file_with_fewer_contexts(tmp_path: Path) -> None:
    policy = blend(POELA(radius=0.5, **WARM), 0.4, behavior=MultinomialBehavior().fit(TRAIN))
    policy.save(tmp_path / "cover", include_contexts="cover")
    loaded = load_policy(tmp_path / "cover")
    assert loaded.policy.eligibility is loaded.eligibility
    assert len(loaded.eligibility.logged.contexts) < TRAIN.n_steps


def test_a_behavior_model_that_cannot_be_saved_is_told_of(tmp_path: Path) -> None:
    class Own:
        def probabilities(self, contexts: FloatArray) -> FloatArray:
            return np.full((len(contexts), 3), 1 / 3)

    with pytest.raises(InputError, match="cannot be saved, since it is made of Own"):
        blend(POCRM(**WARM), 0.5, behavior=Own()).save(tmp_path / "policy")


def test_the_path_goes_from_cautious_to_bold() -> None:
    learner = POCRM(**WARM)
    path = ambition_path(learner, list(learner.fit_path(TRAIN)), TRAIN, None)
    assert [point.policy.share for point in path] == list(SHARES)
    assert not any(point.policy.mixed for point in path)
    far = [np.abs(point.policy.along(TRAIN) - propensities()).sum() for point in path]
    assert far == sorted(far)
    np.testing.assert_allclose(path[-1].policy.along(TRAIN), learner.fit(TRAIN).along(TRAIN), rtol=1e-9)
    greedy = BCQ(threshold=0.2, **QUICK)
    assert all(point.policy.mixed for point in ambition_path(greedy, list(greedy.fit_path(TRAIN)), TRAIN, None))


def test_consensus_is_the_logging_policy_to_a_power() -> None:
    path = list(Consensus(sharpness=(1.5, 4.0)).fit_path(TRAIN))
    for checkpoint, sharpness in zip(path, (1.5, 4.0), strict=True):
        expected = propensities() ** sharpness
        expected /= expected.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(checkpoint.policy.along(TRAIN), expected, rtol=1e-9)
    assert [checkpoint.note for checkpoint in path] == ["sharpness 1.5", "sharpness 4"]


def test_consensus_stays_within_its_rule_and_does_not_look_at_rewards() -> None:
    ruled = Consensus(sharpness=(2.0,), rule=Radius(0.05)).fit(TRAIN)
    eligible = ruled.eligibility.along(TRAIN).mask
    expected = np.where(eligible, propensities(), 0.0) ** 2
    expected /= expected.sum(axis=1, keepdims=True)
    assert (~eligible).any()
    np.testing.assert_allclose(ruled.along(TRAIN), expected, rtol=1e-9)
    other = replace(TRAIN, rewards=-TRAIN.rewards)
    np.testing.assert_array_equal(
        Consensus(sharpness=(2.0,), rule=Radius(0.05)).fit(other).along(TRAIN), ruled.along(TRAIN)
    )
