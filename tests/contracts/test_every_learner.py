"""What every registered learner owes its users; a new one is tested the day it is registered."""

from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from poela.behavior.multinomial import MultinomialBehavior
from poela.core.arrays import BoolArray, FloatArray
from poela.core.errors import InputError
from poela.data.action_space import Box
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import Radius
from poela.evaluation.evaluate import evaluate
from poela.learners.learner import Learner
from poela.learners.registry import LEARNERS
from poela.policies.storage import load_policy

RADIUS = 0.05

# Made quick, by name of the setting.
QUICK: dict[str, Any] = {
    "steps": 8,
    "warm_start_steps": 4,
    "density_steps": 5,
    "checkpoints": 2,
    "hidden": (6, 6),
    "temperatures": (2.0, 0.5),
    "device": "cpu",
}
# More than one form of the same learner, by its registered name.
FORMS: dict[str, list[dict[str, Any]]] = {
    "poela": [{}, {"network": "gru"}],
    "pql": [{}, {"density": "nearest"}],
    "fittedq": [{}, {"temperature": 1.0}, {"history": 0}, {"regressor": "boosted", "history": 1}],
    "clone": [{}, {"network": "gru"}],
    "spibb": [{}, {"history": 0, "reach": 0.2, "scale": None}],
    "softspibb": [{}, {"history": 0, "delta": 0.1}],
    "dprl": [{"least_count": (12, 9)}, {"least_count": (9,), "history": 0}],
}


def made(name: str, form: dict[str, Any]) -> Learner:
    learner: Any = LEARNERS[name]()
    quick = {field.name: QUICK[field.name] for field in fields(learner) if field.name in QUICK}
    result: Learner = replace(learner, **{**quick, **form})
    return result


EVERY = {
    " ".join([name, *(f"{key}={value}" for key, value in form.items())]): made(name, form)
    for name in LEARNERS
    if LEARNERS[name].acts_in is not Box  # those have a contract of their own
    for form in FORMS.get(name, [{}])
}
every_learner = pytest.mark.parametrize("learner", EVERY.values(), ids=EVERY.keys())


def logs_of(n_actions: int = 3, declared: int | None = None, seed: int = 0, episodes: int = 25) -> Trajectories:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, episodes)
    n, declared = int(lengths.sum()), declared or n_actions
    contexts = rng.normal(size=(n, 2))
    chances = np.zeros((n, declared))
    chances[:, :n_actions] = rng.dirichlet(np.full(n_actions, 3.0), size=n)
    actions = (chances.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return Trajectories(
        contexts,
        actions,
        contexts[:, 0] * (actions == 1) + rng.normal(size=n) * 0.1,
        np.concatenate([[0], np.cumsum(lengths)]),
        chances,
        n_actions=declared,
        feature_names=["age", "pulse"],
    )


TRAIN, OTHER = logs_of(), logs_of(seed=1)


def valid(rows: FloatArray, logs: Trajectories) -> None:
    assert rows.shape == (logs.n_steps, logs.n_actions)
    assert rows.dtype == np.float64
    assert (rows >= 0).all()
    np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-9)


def remembers(policy: Any) -> bool:
    """Whether the policy needs whole episodes: a network with memory, or values of the history."""
    network = getattr(policy, "network", None)
    return getattr(policy, "history", None) is not None or (network is not None and network.remembers)


def test_the_table_names_settings_that_need_nothing() -> None:
    for name in LEARNERS:
        learner: Any = LEARNERS[name]()
        assert learner == replace(learner)
        with pytest.raises(FrozenInstanceError):
            learner.steps = 1


@every_learner
def test_probabilities_are_valid_along_logs_that_were_never_seen(learner: Learner) -> None:
    policy: Any = learner.fit(TRAIN)
    assert callable(policy.probabilities)
    valid(policy.along(TRAIN), TRAIN)
    valid(policy.along(OTHER), OTHER)
    assert (policy.feature_names, policy.action_names) == (TRAIN.feature_names, TRAIN.action_names)


@every_learner
def test_the_same_seed_gives_the_same_bits_and_leaves_global_chance_alone(learner: Learner) -> None:
    np_state, torch_state = np.random.get_state(legacy=False), torch.get_rng_state()  # noqa: NPY002
    once, again = (learner.fit(TRAIN, seed=3).along(OTHER) for _ in range(2))
    np.testing.assert_array_equal(once, again)
    np.testing.assert_equal(np.random.get_state(legacy=False), np_state)  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), torch_state)


@every_learner
def test_the_path_ends_with_the_fitted_policy(learner: Learner) -> None:
    path = list(learner.fit_path(TRAIN, seed=1))
    steps = [checkpoint.step for checkpoint in path]
    assert steps == sorted(set(steps))
    np.testing.assert_array_equal(path[-1].policy.along(OTHER), learner.fit(TRAIN, seed=1).along(OTHER))
    # A checkpoint is a policy of its own: training on does not change it.
    kept = path[0].policy.along(OTHER)
    again = next(iter(learner.fit_path(TRAIN, seed=1)))
    np.testing.assert_array_equal(kept, again.policy.along(OTHER))


@every_learner
def test_a_loaded_policy_has_equal_probabilities(learner: Learner, tmp_path: Path) -> None:
    policy = learner.fit(TRAIN)
    policy.save(tmp_path / "policy")
    loaded = load_policy(tmp_path / "policy")
    assert type(loaded) is type(policy)
    np.testing.assert_array_equal(loaded.along(OTHER), policy.along(OTHER))


@every_learner
def test_a_policy_with_an_estimated_behavior_can_be_saved_too(learner: Learner, tmp_path: Path) -> None:
    policy = learner.fit(TRAIN, behavior=MultinomialBehavior().fit(TRAIN))
    policy.save(tmp_path / "policy")
    np.testing.assert_array_equal(load_policy(tmp_path / "policy").along(OTHER), policy.along(OTHER))


def near_by_hand(logs: Trajectories, radius: float) -> tuple[BoolArray, BoolArray]:
    """Which actions were logged in training within the radius of each context, and where there is none: the nearest."""
    differences = logs.contexts.astype(np.float64)[:, None] - TRAIN.contexts.astype(np.float64)
    distances = np.square(differences).mean(axis=2)
    nearest = np.stack([distances[:, TRAIN.actions == action].min(axis=1) for action in range(3)], axis=1)
    near = nearest <= radius
    stranded: BoolArray = np.asarray(~near.any(axis=1))
    near[stranded] = nearest[stranded] == nearest[stranded].min(axis=1, keepdims=True)
    return near, stranded


@every_learner
def test_ineligible_actions_have_probability_exactly_zero(learner: Learner) -> None:
    ruled: Any = learner
    names = [field.name for field in fields(ruled)]
    if "radius" in names:
        ruled = replace(ruled, radius=RADIUS)
    elif "rule" in names:
        ruled = replace(ruled, rule=Radius(RADIUS))
    else:
        pytest.skip("this learner's rule is not one of distance")
    rows = ruled.fit(TRAIN).along(OTHER)
    near, stranded = near_by_hand(OTHER, RADIUS)
    assert stranded.any()
    assert (~near).any()
    valid(rows, OTHER)
    assert (rows[~near] == 0).all()


@every_learner
def test_the_order_of_queries_does_not_matter(learner: Learner) -> None:
    policy = learner.fit(TRAIN)
    order = np.random.default_rng(0).permutation(OTHER.n_episodes)
    rows = [slice(OTHER.offsets[episode], OTHER.offsets[episode + 1]) for episode in order]
    expected = np.concatenate([policy.along(OTHER)[row] for row in rows])
    np.testing.assert_allclose(policy.along(OTHER.take(order)), expected, atol=1e-6)


@every_learner
def test_acting_step_by_step_agrees_with_following(learner: Learner) -> None:
    policy = learner.fit(TRAIN)
    long = OTHER.take(np.flatnonzero(OTHER.lengths >= 3))
    along, actor = policy.along(long), policy.actor(long.n_episodes)
    for step in range(3):
        rows = long.offsets[:-1] + step
        asked = [actor.probabilities(long.contexts[rows]) for _ in range(2)]  # to ask twice is not to act twice
        np.testing.assert_array_equal(asked[0], asked[1])
        np.testing.assert_allclose(asked[0], along[rows], atol=1e-6)
        actor.record(long.actions[rows])


@every_learner
@pytest.mark.parametrize(("n_actions", "declared"), [(1, 1), (1, 3), (2, 4)])
@pytest.mark.filterwarnings("ignore::poela.core.errors.PoelaWarning")
def test_few_actions_and_actions_never_logged(learner: Learner, n_actions: int, declared: int) -> None:
    logs = logs_of(n_actions, declared)
    valid(learner.fit(logs).along(logs), logs)


@every_learner
@pytest.mark.filterwarnings("ignore::poela.core.errors.PoelaWarning")  # a rule may leave nothing to choose
def test_a_log_of_one_episode(learner: Learner) -> None:
    one = TRAIN.take([int(TRAIN.lengths.argmax())])
    valid(learner.fit(one).along(one), one)


@every_learner
def test_contexts_of_another_width_get_one_sentence(learner: Learner) -> None:
    policy = learner.fit(TRAIN)
    wide = Trajectories(np.zeros((4, 5)), [0] * 4, [0.0] * 4, [0, 4], n_actions=3)
    for ask, asked in ((policy.along, wide), (policy.actor(4).probabilities, wide.contexts)):
        with pytest.raises(InputError) as caught:
            ask(asked)
        assert len(caught.value.problems) == 1
        assert "(4, 5)" in str(caught.value)
    with pytest.raises(InputError):
        policy.probabilities(wide.contexts, steps=np.arange(4))


@every_learner
def test_features_in_another_order_are_refused_by_evaluation(learner: Learner) -> None:
    turned = replace(OTHER, contexts=OTHER.contexts[:, ::-1], feature_names=("pulse", "age"))
    with pytest.raises(InputError, match="in another order"):
        evaluate(learner.fit(TRAIN), turned, interval=None)


@every_learner
def test_every_policy_can_be_evaluated_on_plain_logs(learner: Learner) -> None:
    estimate = evaluate(learner.fit(TRAIN), OTHER, interval=None)
    assert np.isfinite(estimate.value) or estimate.ess == 0
    smoothed = evaluate(learner.fit(TRAIN), OTHER, interval=None, smoothing=0.5)
    returns = OTHER.returns()
    assert returns.min() <= smoothed.value <= returns.max()


@every_learner
def test_loose_contexts_are_answered_or_refused_with_a_way_out(learner: Learner) -> None:
    policy = learner.fit(TRAIN)
    if remembers(policy):
        with pytest.raises(InputError, match=r"along\(trajectories\) or actor\(n\)"):
            policy.probabilities(OTHER.contexts, steps=OTHER.step_numbers)
    else:
        rows = policy.probabilities(OTHER.contexts, steps=OTHER.step_numbers)
        np.testing.assert_array_equal(rows, policy.along(OTHER))


@pytest.mark.parametrize("name", [name for name in EVERY if name.startswith("fittedq") and "boosted" not in name])
def test_learners_without_chance_do_not_look_at_the_order_of_training_episodes(name: str) -> None:
    order = np.random.default_rng(0).permutation(TRAIN.n_episodes)
    once, again = (EVERY[name].fit(train).along(OTHER) for train in (TRAIN, TRAIN.take(order)))
    np.testing.assert_allclose(once, again, atol=1e-6)
