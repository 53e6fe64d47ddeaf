"""An approximate search errs to one side only: what it finds is logged, at its true distance."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poela import POELA, load_policy
from poela.core.errors import InputError
from poela.data.trajectories import Trajectories
from poela.eligibility.fitted import FittedEligibility
from poela.eligibility.rules import Eligibility
from poela.eligibility.words import rule_in_words
from poela.neighbours import approximate
from poela.serving.export import export_onnx


def logs_of(steps: int, features: int, seed: int) -> Trajectories:
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(steps, features)).round(1)
    return Trajectories(contexts, rng.integers(3, size=steps), np.zeros(steps), np.arange(0, steps + 1, 10))


def both(logs: Trajectories, **rule: object) -> tuple[FittedEligibility, FittedEligibility]:
    settings: Any = rule
    exact, found = (Eligibility(search=search, **settings).fit(logs) for search in ("exact", "approximate"))
    return exact, found


@pytest.fixture
def small_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approximate, "ASKED", 20)


@pytest.mark.usefixtures("small_index")
def test_eligible_actions_can_only_become_fewer() -> None:
    @settings(max_examples=30, deadline=None)
    @given(
        steps=st.sampled_from([50, 300, 900]),
        features=st.integers(1, 8),
        seed=st.integers(0, 99),
        radius=st.sampled_from([0.0, 0.1, 0.5, 2.0, "q50"]),
        neighbours=st.sampled_from(["pooled", "same_step"]),
        away=st.sampled_from([1.0, 1e6, 1e30]),
    )
    def fewer(steps: int, features: int, seed: int, radius: float | str, neighbours: str, away: float) -> None:
        logs = logs_of(steps, features, seed)
        exact, found = both(logs, radius=radius, neighbours=neighbours)
        assert found.radius == exact.radius
        asked = away * logs_of(40, features, seed + 1).contexts, np.arange(40) % 10
        true, near = exact.distances(*asked), found.distances(*asked)
        assert (near >= true).all()
        np.testing.assert_array_equal(np.isinf(near), np.isinf(true))

    fewer()


@pytest.mark.usefixtures("small_index")
def test_a_poor_index_says_so() -> None:
    logs = logs_of(3000, 5, 0)
    exact, found = both(logs, radius=0.05)
    some = np.unique(np.linspace(0, 2999, 200).astype(int))
    within = [(rule.distances(logs.contexts[some]) <= 0.05).sum() for rule in (exact, found)]
    assert found.recall() == within[1] / within[0]
    assert within[1] < within[0]
    assert f"finds {within[1] / within[0]:.1%} of what an exact one would" in rule_in_words(found)
    assert exact.recall() == 1.0


def test_a_full_index_finds_nearly_all() -> None:
    _, found = both(logs_of(30_000, 8, 1), radius=0.1)
    recall = found.recall()
    assert recall is not None
    assert recall > 0.95


@pytest.mark.usefixtures("small_index")
@pytest.mark.parametrize("neighbours", ["pooled", "same_step"])
def test_a_logged_context_is_found_with_every_action_it_was_logged_with(neighbours: str) -> None:
    logs = logs_of(3000, 2, 0)  # rounded, so that many contexts are equal
    exact, found = both(logs, radius=0.0, neighbours=neighbours)
    np.testing.assert_array_equal(found.along(logs).mask, exact.along(logs).mask)
    assert found.along(logs).mask.sum() > 3000


def test_equal_hashes_are_not_equal_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approximate, "_hashes", lambda contexts: np.zeros(len(contexts), np.uint64))
    contexts = np.array([[1.0], [2.0], [1.0]], np.float32)
    equal = approximate.EqualContexts(contexts, np.array([0, 1, 2]), 3)
    np.testing.assert_array_equal(equal.groups_of(contexts), [[1, 0, 1], [0, 0, 0], [1, 0, 1]])


def test_rare_actions_are_searched_far_and_wide() -> None:
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(5000, 3)).astype(np.float32)
    logs = Trajectories(contexts, (np.arange(5000) % 1000 == 7).astype(int), np.zeros(5000), np.arange(0, 5001, 10))
    exact, found = both(logs, radius=0.1)
    asked = rng.normal(size=(300, 3))
    np.testing.assert_array_equal(found.distances(asked)[:, 1], exact.distances(asked)[:, 1])


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_features_far_from_zero_do_not_blur_what_is_near(scale: float) -> None:
    logs = logs_of(6000, 3, 0)
    away = Trajectories(scale * (logs.contexts + 1000), logs.actions, logs.rewards, logs.offsets)
    _, found = both(away, radius="q20")
    recall = found.recall()
    assert recall is not None
    assert recall > 0.9


def test_a_policy_is_learned_saved_and_decides_under_it(tmp_path: Path) -> None:
    logs = logs_of(3000, 3, 0).with_propensities(np.full(3000, 1 / 3))
    learner = POELA(radius=0.02, search="approximate", steps=3, warm_start_steps=2, batch_episodes=50, hidden=(4,))
    policy = learner.fit(logs, seed=0)
    policy.save(tmp_path / "policy")
    loaded = load_policy(tmp_path / "policy")
    asked = logs_of(200, 3, 1).contexts
    assert loaded.eligibility.settings.search == "approximate"
    near = Eligibility(radius=0.02, search="approximate").fit(logs).mask(asked)
    assert not near.all()
    np.testing.assert_array_equal(loaded.probabilities(asked) > 0, near)
    np.testing.assert_array_equal(loaded.probabilities(asked), policy.probabilities(asked))
    pytest.importorskip("onnx")
    with pytest.raises(InputError, match="a rule with an approximate search cannot be exported to ONNX"):
        export_onnx(loaded, tmp_path / "policy.onnx")
    rows = {name: asked[:, number] for number, name in enumerate(logs.feature_names)}
    eligible = [len(text.split(";")) if text else 0 for text in loaded.decide(rows)["eligible"].to_pylist()]
    assert eligible == [
        0 if stranded else int(own.sum())
        for own, stranded in zip(near, loaded.eligibility.resolve(asked).stranded, strict=True)
    ]
