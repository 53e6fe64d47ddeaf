"""Saved policies: equal after loading, honest about what they contain, refused when damaged."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poela.core.errors import InputError
from poela.data.trajectories import Trajectories
from poela.learners.policy_gradient import POCRM, POELA, POMu
from poela.policies.storage import load_policy

QUICK: dict[str, Any] = {"steps": 5, "warm_start_steps": 5, "hidden": (4,), "device": "cpu"}


def logs() -> Trajectories:
    rng = np.random.default_rng(0)
    return Trajectories(
        rng.normal(size=(60, 2)),
        rng.integers(3, size=60),
        rng.normal(size=60),
        np.arange(0, 61, 3),
        np.full((60, 3), 1 / 3),
        feature_names=("age", "dose"),
        action_names=("none", "low", "high"),
        episode_ids=[f"patient-{i}" for i in range(20)],
    )


@pytest.mark.parametrize("learner", [POELA(radius=0.3, **QUICK), POMu(**QUICK), POCRM(**QUICK)])
def test_a_loaded_policy_is_the_same_policy(tmp_path: Path, learner: POELA) -> None:
    policy = learner.fit(logs(), seed=0)
    policy.save(tmp_path / "policy")
    loaded = load_policy(tmp_path / "policy")
    contexts = np.random.default_rng(1).normal(size=(50, 2))
    np.testing.assert_array_equal(loaded.probabilities(contexts), policy.probabilities(contexts))
    assert (loaded.feature_names, loaded.action_names) == (policy.feature_names, policy.action_names)
    np.testing.assert_array_equal(loaded.sample(contexts, seed=4), policy.sample(contexts, seed=4))


def test_the_file_says_that_it_holds_logged_contexts_and_never_holds_episode_names(tmp_path: Path) -> None:
    POELA(radius=0.3, **QUICK).fit(logs(), seed=0).save(tmp_path / "poela")
    POCRM(**QUICK).fit(logs(), seed=0).save(tmp_path / "pocrm")
    held, free = (json.loads((tmp_path / name / "poela-policy.json").read_text()) for name in ("poela", "pocrm"))
    assert held["contains_logged_contexts"] is True
    assert "contexts from the training log" in held["note"]
    assert free["contains_logged_contexts"] is False
    everything = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"patient-" not in everything


def test_a_cover_holds_fewer_contexts_and_can_only_shrink_what_is_eligible(tmp_path: Path) -> None:
    policy = POELA(radius=0.8, **QUICK).fit(logs(), seed=0)
    policy.save(tmp_path / "all")
    policy.save(tmp_path / "cover", include_contexts="cover")
    cover = load_policy(tmp_path / "cover")
    sizes = [path.stat().st_size for name in ("cover", "all") for path in (tmp_path / name).glob("arrays-*")]
    assert sizes[0] < sizes[1]
    contexts = np.random.default_rng(2).normal(size=(300, 2))
    full, thin = policy.eligibility.resolve(contexts), cover.eligibility.resolve(contexts)
    near = ~thin.stranded
    assert near.any()
    assert not (thin.mask & ~full.mask)[near].any()


def test_explain_names_actions_and_logged_cases(tmp_path: Path) -> None:
    data = logs()
    policy = POELA(radius=0.3, **QUICK).fit(data, seed=0)
    explanation = policy.explain(data.contexts[7], k=2)
    text = str(explanation)
    assert all(name in text for name in ("none", "low", "high"))
    logged = next(a for a in explanation.actions if a.action == data.action_names[data.actions[7]])
    assert logged.eligible
    assert logged.distance == 0
    assert logged.cases[0].row == 7


def test_contexts_of_another_width_get_one_sentence() -> None:
    policy = POCRM(**QUICK).fit(logs(), seed=0)
    with pytest.raises(InputError, match=r"takes \[rows, 2\] with the features age, dose"):
        policy.probabilities(np.zeros((4, 3)))


def test_a_file_of_another_kind_runs_nothing(tmp_path: Path) -> None:
    from poela.core.storage import Stored, save_stored
    from poela.policies.saving import FILE_FORMAT, FORMAT_VERSION

    save_stored(tmp_path / "odd", Stored("os.system"), file_format=FILE_FORMAT, version=FORMAT_VERSION, notes={})
    with pytest.raises(InputError, match=r"unknown kind 'os\.system'"):
        load_policy(tmp_path / "odd")


def test_include_contexts_must_be_known(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'all' or 'cover'"):
        POCRM(**QUICK).fit(logs(), seed=0).save(tmp_path / "x", include_contexts="some")
    assert not (tmp_path / "x").exists()
