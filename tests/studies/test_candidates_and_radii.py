"""Candidates as plain data, and radii as quantiles."""

import json
from typing import Any

import numpy as np
import pytest

from poela.core.errors import InputError
from poela.core.typed import from_plain, to_plain
from poela.data.trajectories import Trajectories
from poela.eligibility.quantiles import action_distances, with_numeric_radius
from poela.eligibility.rules import Eligibility
from poela.learners.fitted_q import FittedQ
from poela.learners.policy_gradient import POELA
from poela.learners.q_learning import BCQ
from poela.learners.registry import LEARNERS
from poela.studies.candidates import Candidate, checked_candidates, grid
from poela.studies.defaults import DEFAULT_LEARNERS, default_candidates


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_is_a_candidate_and_comes_back(name: str) -> None:
    learner = LEARNERS[name]()
    candidate = Candidate.of(learner)
    assert candidate.learner == name
    assert from_plain(Candidate, json.loads(json.dumps(to_plain(candidate))), "here").build() == learner


def test_a_rule_is_kept_as_plain_fields() -> None:
    candidate = Candidate("bcq", {"rule": Eligibility(radius=0.5, fallback="all")})
    assert to_plain(candidate)["settings"] == {"rule": {"radius": 0.5, "fallback": "all"}}
    rule = candidate.build().rule  # type: ignore[attr-defined]
    assert rule == Eligibility(radius=0.5, fallback="all")
    assert from_plain(Candidate, to_plain(candidate), "here") == candidate


def test_the_key_depends_on_settings_alone() -> None:
    assert Candidate("poela", {"radius": 1, "steps": 2}).key == Candidate("poela", {"steps": 2, "radius": 1}).key
    assert Candidate("poela", {"radius": 1}).key != Candidate("poela", {"radius": 2}).key


def test_repeated_candidates_are_tried_once() -> None:
    assert len(checked_candidates([*grid("poela", radius=[0.1, 0.2]), Candidate("poela", {"radius": 0.1})])) == 2


def test_all_wrong_candidates_are_named_at_once() -> None:
    with pytest.raises(InputError) as caught:
        checked_candidates([Candidate("luck"), Candidate("poela", {"charm": 1, "radius": 0.1})])
    assert len(caught.value.problems) == 2


def test_default_learners_exist_and_have_grids() -> None:
    assert set(DEFAULT_LEARNERS) <= set(LEARNERS)
    assert {candidate.learner for candidate in default_candidates()} == set(DEFAULT_LEARNERS)
    for name in LEARNERS:
        checked_candidates(default_candidates([name]))
    with pytest.raises(InputError, match="there is no learner 'luck'"):
        default_candidates(["luck"])


def test_quantiles_are_those_of_distances_to_other_episodes() -> None:
    # Two folds of one episode each: every context's distance to the other episode's contexts with each action.
    logs = Trajectories([[0.0], [1.0], [3.0], [7.0]], [0, 1, 0, 1], np.zeros(4), [0, 2, 4])
    expected = sorted([9.0, 49.0, 4.0, 36.0, 9.0, 4.0, 49.0, 36.0])
    np.testing.assert_allclose(action_distances(logs, Eligibility(radius=0.0)), expected)
    median = with_numeric_radius(Eligibility(radius="q50"), logs).radius
    assert median == pytest.approx(np.median(expected))


def test_quantiles_follow_the_metric_and_every_learner_takes_them() -> None:
    logs = Trajectories(
        [[0.0], [1.0], [3.0], [7.0]], [0, 1, 0, 1], np.zeros(4), [0, 2, 4], propensities=np.full((4, 2), 0.5)
    )
    assert with_numeric_radius(Eligibility(radius="q100", metric="euclidean"), logs).radius == pytest.approx(7.0)
    assert with_numeric_radius(Eligibility(radius=0.25), logs).radius == 0.25
    assert with_numeric_radius(Eligibility(), logs) == Eligibility()
    tiny: dict[str, Any] = {"steps": 1, "hidden": (2,), "checkpoints": 1, "device": "cpu"}
    for learner in (
        POELA(radius="q100", scale=None, warm_start_steps=0, **tiny),
        BCQ(rule=Eligibility(radius="q100"), **tiny),
        FittedQ(rule=Eligibility(radius="q100"), history=0),
    ):
        assert learner.fit(logs).eligibility.radius == pytest.approx(49.0)


def test_one_episode_has_no_quantiles_so_that_only_equal_contexts_count() -> None:
    logs = Trajectories([[0.0], [1.0]], [0, 1], np.zeros(2), [0, 2])
    assert Eligibility(radius="q50").fit(logs).mask(logs.contexts).tolist() == [[True, False], [False, True]]
