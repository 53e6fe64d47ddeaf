"""POELA, PO-mu and PO-CRM on problems whose answers are known."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from poela.core.errors import InputError, PoelaWarning, TrainingError
from poela.data.trajectories import Trajectories
from poela.learners.policy_gradient import POCRM, POELA, PolicyGradient, POMu, as_published

QUICK: dict[str, Any] = {"steps": 150, "warm_start_steps": 50, "learning_rate": 1e-2, "hidden": (8,), "device": "cpu"}


def bandit(n: int = 400, seed: int = 0) -> Trajectories:
    """Two groups of contexts, 0 and 10; action 1 is better at 0, action 0 at 10; uniform logging."""
    rng = np.random.default_rng(seed)
    group = rng.integers(2, size=n)
    actions = rng.integers(2, size=n)
    rewards = (actions != group).astype(float)
    contexts = (10.0 * group + rng.normal(0, 0.1, n))[:, None]
    return Trajectories(contexts, actions, rewards, np.arange(n + 1), propensities=np.full((n, 2), 0.5))


def avoidable() -> Trajectories:
    """A good and a bad patient: at the bad one only action 0 was tried (and lost), at the good one action 1 won."""
    contexts, actions, rewards = [[0.0]] * 20 + [[10.0]] * 20, [0] * 20 + [1] * 20, [-5.0] * 20 + [1.0] * 20
    return Trajectories(contexts, actions, rewards, np.arange(41), propensities=np.full((40, 2), 0.5))


@pytest.mark.parametrize("learner", [POELA(radius=0.5, **QUICK), POMu(**QUICK), POCRM(**QUICK)])
def test_the_better_action_is_learned_where_both_were_tried(learner: PolicyGradient) -> None:
    policy = learner.fit(bandit(), seed=0)
    assert policy.probabilities([[0.0]])[0, 1] > 0.9
    assert policy.probabilities([[10.0]])[0, 0] > 0.9


def test_propensity_overfitting_happens_without_a_rule_and_not_with_one() -> None:
    """The point of the paper: PO-CRM avoids the logged action of the unlucky context, POELA cannot."""
    free = POCRM(**{**QUICK, "variance_penalty": 0.0}).fit(avoidable(), seed=0)
    assert free.probabilities([[0.0]])[0, 0] < 0.1
    with pytest.warns(PoelaWarning, match="a single eligible action at every logged context"):
        held = POELA(radius=0.5, **{**QUICK, "variance_penalty": 0.0}).fit(avoidable(), seed=0)
    assert held.probabilities([[0.0], [10.0]]).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_improbable_actions_are_never_taken_by_po_mu() -> None:
    logs = bandit().with_propensities(np.tile([0.97, 0.03], (400, 1)))
    with pytest.warns(PoelaWarning, match="nothing to learn"):
        policy = POMu(minimum_probability=0.05, **QUICK).fit(logs, seed=0)
    assert (policy.probabilities(logs.contexts)[:, 1] == 0).all()


def weights_of(policy: Any) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = policy.network.weights()
    return found


def test_same_seed_same_bits_other_seed_other_policy() -> None:
    learner = POELA(radius=0.5, **{**QUICK, "steps": 20})
    first, again, other = (weights_of(learner.fit(bandit(), seed=seed)) for seed in (1, 1, 2))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["layers.0.weight"], other["layers.0.weight"])


def test_the_path_ends_with_the_fit_and_checkpoints_do_not_change_it() -> None:
    learner = POELA(radius=0.5, **{**QUICK, "steps": 25, "checkpoints": 5})
    path = list(learner.fit_path(bandit(), seed=0))
    assert [checkpoint.step for checkpoint in path] == [5, 10, 15, 20, 25]
    few = replace(learner, checkpoints=1).fit(bandit(), seed=0)
    assert all(
        np.array_equal(a, b)
        for a, b in zip(weights_of(path[-1].policy).values(), weights_of(few).values(), strict=True)
    )
    assert not np.array_equal(weights_of(path[0].policy)["layers.0.weight"], weights_of(few)["layers.0.weight"])


def test_ragged_episodes_and_logged_propensities_only() -> None:
    rng = np.random.default_rng(0)
    offsets = np.array([0, 1, 4, 6, 11])
    logs = Trajectories(
        rng.normal(size=(11, 2)), rng.integers(3, size=11), rng.normal(size=11), offsets, np.full(11, 0.4)
    )
    policy = POELA(radius=1.0, **{**QUICK, "steps": 10}).fit(logs, seed=0)
    np.testing.assert_allclose(policy.along(logs).sum(axis=1), 1)


def test_published_form_differs_from_ours_in_the_ways_that_are_listed() -> None:
    published = as_published(POELA(radius=0.1))
    assert (published.standardise, published.relu_logits, published.warm_start_last_steps) == (False, True, False)
    assert published.rule.fallback == "all"
    assert as_published(POCRM()).rule == POCRM().rule
    policy = as_published(POELA(radius=0.5, **{**QUICK, "warm_start_steps": 0})).fit(bandit(), seed=0)
    assert policy.network.weights()["scale"].tolist() == [1.0]


@pytest.mark.parametrize("rule", [{}, {"radius": "q95"}])
def test_units_do_not_matter_to_the_defaults(rule: dict[str, Any]) -> None:
    """Milligrams or grams: powers of two are exact, so that nothing but the units differs."""
    logs, rng = bandit(), np.random.default_rng(1)
    contexts = np.hstack([logs.contexts, rng.normal(size=(logs.n_steps, 1))])

    def in_units(units: list[float]) -> Trajectories:
        return Trajectories(contexts * units, logs.actions, logs.rewards, logs.offsets, logs.propensities)

    policies = [POELA(**rule, **QUICK).fit(in_units(units), seed=0) for units in ([1.0, 1.0], [1024.0, 2.0**-9])]
    one, other = (
        policy.probabilities(contexts * units)
        for policy, units in zip(policies, ([1.0, 1.0], [1024.0, 2.0**-9]), strict=True)
    )
    np.testing.assert_allclose(one, other, atol=1e-4)
    assert (one == 0).any() == bool(rule)  # the radius bars some of it; the log has no hole
    assert one[contexts[:, 0] < 5, 1].mean() > 0.9


def test_a_radius_in_numbers_is_a_distance_between_features_as_they_stand() -> None:
    near = POELA(radius=0.6)
    assert (near.rule.radius, near.rule.scale, near.rule.metric) == (0.6, None, "mean_squared")
    assert POELA(radius="q50").rule.scale == POELA(radius=1.0, scale="standard").rule.scale == "standard"
    assert (near.rule.support, POELA().rule.support, POELA().rule.radius) == (None, 0.02, None)
    assert POELA(radius="q50", scale=None).rule.scale is None
    assert as_published(POELA()).rule.scale is None
    with pytest.raises(InputError, match="scale"):
        POELA(scale="metric")


def test_a_rule_that_leaves_no_weight_is_refused() -> None:
    logs = bandit().take(np.flatnonzero(bandit().actions == 1))
    never = logs.with_propensities(np.tile([0.999, 0.001], (logs.n_steps, 1)))
    with pytest.raises(InputError, match="takes an ineligible action at some step"):
        POMu(minimum_probability=0.5, **QUICK).fit(never, seed=0)


def test_logs_without_propensities_are_refused() -> None:
    with pytest.raises(InputError, match="carry no propensities"):
        POELA(radius=0.5, **QUICK).fit(bandit().with_propensities(None), seed=0)


def test_a_broken_training_keeps_the_last_good_policy() -> None:
    logs = bandit()
    extreme = Trajectories(
        logs.contexts, logs.actions, np.where(logs.actions == 1, 1e200, -1e200), logs.offsets, logs.propensities
    )
    with pytest.raises(TrainingError, match="NaN or infinite"):
        POCRM(**{**QUICK, "variance_penalty": 1.0}).fit(extreme, seed=0)


def test_a_gru_policy_acts_as_it_is_evaluated() -> None:
    rng = np.random.default_rng(1)
    offsets = np.array([0, 3, 5, 9])
    logs = Trajectories(
        rng.normal(size=(9, 2)), rng.integers(2, size=9), rng.normal(size=9), offsets, np.full((9, 2), 0.5)
    )
    policy = POELA(radius=50.0, network="gru", **{**QUICK, "steps": 10}).fit(logs, seed=0)
    along = policy.along(logs)
    for start, end in ((0, 3), (3, 5), (5, 9)):
        actor = policy.actor(1)
        for row in range(start, end):
            np.testing.assert_allclose(actor.probabilities(logs.contexts[row : row + 1])[0], along[row], atol=1e-6)
            actor.record(logs.actions[row : row + 1])
    with pytest.raises(InputError, match="remembers the whole episode"):
        policy.probabilities(logs.contexts)
