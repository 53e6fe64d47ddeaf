"""Rules survive a round trip through files, and say whether those hold logged contexts."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from poela.behavior.propensities import NearestPropensities
from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.core.storage import Stored, load_stored, save_stored
from poela.data.trajectories import Trajectories
from poela.eligibility.files import eligibility_from_stored
from poela.eligibility.fitted import FittedEligibility
from poela.eligibility.rules import AnyAction, Eligibility, MinimumProbability, Radius
from poela.policies.saving import live_objects

QUESTIONS = np.random.default_rng(1).normal(size=(40, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def logs() -> Trajectories:
    rng = np.random.default_rng(0)
    return Trajectories(
        contexts=rng.normal(size=(60, 3)),
        actions=rng.integers(4, size=60),
        rewards=np.zeros(60),
        offsets=np.arange(0, 61, 3),
        propensities=rng.dirichlet(np.ones(4), size=60),
        action_names=["a", "b", "c", "d"],
        episode_ids=[f"stay {number}" for number in range(20)],
    )


def load_part(stored: Stored) -> Any:
    assert stored.kind == NearestPropensities.kind
    return NearestPropensities.from_stored(stored)


def through_a_file(fitted: FittedEligibility, directory: Path) -> FittedEligibility:
    save_stored(directory / "rule", fitted.stored(), file_format="rule", version=1, notes={})
    return eligibility_from_stored(load_stored(directory / "rule", file_format="rule", version=1)[0], load_part)


@pytest.mark.parametrize(
    "rule",
    [
        Radius(0.3),
        Radius(np.inf, metric="euclidean"),
        Radius(0.3, scale="standard", weights=(1.0, 2.0, 0.0)),
        Radius(0.3, scale=(1.0, 2.0, 3.0), neighbours="same_step"),
        Radius(0.1, fallback="behavior"),
        Eligibility(radius=0.5, minimum_probability=0.2),
        MinimumProbability(0.2, scale="standard"),
        AnyAction(),
    ],
)
def test_the_loaded_rule_is_the_same_rule(rule: Eligibility, logs: Trajectories, tmp_path: Path) -> None:
    fitted = rule.fit(logs)
    loaded = through_a_file(fitted, tmp_path)
    steps = np.arange(len(QUESTIONS)) % 3
    assert loaded.settings == rule
    assert loaded.n_actions == 4
    before, after = fitted.resolve(QUESTIONS, steps), loaded.resolve(QUESTIONS, steps)
    np.testing.assert_array_equal(before.mask, after.mask)
    np.testing.assert_array_equal(before.stranded, after.stranded)
    if before.behavior is not None and after.behavior is not None:
        np.testing.assert_array_equal(before.behavior, after.behavior)
    if rule.radius is not None:
        np.testing.assert_array_equal(fitted.distances(QUESTIONS, steps), loaded.distances(QUESTIONS, steps))
        nameless = replace(fitted, episode_ids=None)
        assert str(nameless.explain(QUESTIONS[0], step=0)) == str(loaded.explain(QUESTIONS[0], step=0))


def floats_in(stored: Stored) -> set[float]:
    arrays = [array for array in stored.arrays.values() if array.dtype.kind == "f"]
    own = {float(value) for array in arrays for value in np.ravel(array)}
    return own.union(*(floats_in(part) for part in stored.parts.values()))


@pytest.mark.parametrize("rule", [Radius(0.3), MinimumProbability(0.2), AnyAction()])
def test_the_file_holds_logged_contexts_exactly_when_it_says_so(rule: Eligibility, logs: Trajectories) -> None:
    fitted = rule.fit(logs)
    logged = {float(value) for value in logs.contexts.ravel()}
    assert bool(logged & floats_in(fitted.stored())) == fitted.holds_logged_contexts
    assert fitted.stored().settings["holds_logged_contexts"] == fitted.holds_logged_contexts


def test_a_thinned_rule_stores_fewer_contexts_and_no_ids(logs: Trajectories, tmp_path: Path) -> None:
    fitted = Radius(2.0).fit(logs)
    whole, thin = fitted.stored(), fitted.thinned().stored()
    assert len(thin.arrays["contexts"]) < len(whole.arrays["contexts"]) == 60
    assert whole.settings["episode_ids"] is thin.settings["episode_ids"] is None
    loaded = through_a_file(fitted.thinned(), tmp_path)
    np.testing.assert_array_equal(loaded.mask(QUESTIONS), fitted.thinned().mask(QUESTIONS))


def test_a_rule_that_was_stored_with_names_of_episodes_still_loads(logs: Trajectories) -> None:
    stored = Radius(0.3).fit(logs).stored()
    names = [f"stay {number}" for number in range(20)]
    older = replace(stored, settings={**stored.settings, "episode_ids": names})
    assert eligibility_from_stored(older, load_part).episode_ids == tuple(names)


def test_without_a_radius_no_contexts_are_stored_and_distances_say_so(logs: Trajectories, tmp_path: Path) -> None:
    loaded = through_a_file(AnyAction().fit(logs), tmp_path)
    with pytest.raises(InputError, match="holds no logged contexts"):
        loaded.distances(QUESTIONS)
    explanation = loaded.explain(QUESTIONS[0])
    assert all(action.eligible and action.distance is None and not action.cases for action in explanation.actions)


class NotStorable:
    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        return np.full((len(np.asarray(contexts)), 4), 0.25)


def test_a_behavior_model_that_cannot_be_saved_is_referred_to(logs: Trajectories) -> None:
    fitted = MinimumProbability(0.1).fit(logs, NotStorable())
    assert live_objects(fitted.stored()) == ["NotStorable"]
    assert not fitted.holds_logged_contexts
