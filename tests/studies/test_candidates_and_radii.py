"""Candidates as plain data, and radii as quantiles."""

import json

import numpy as np
import pytest

from poela.core.errors import InputError
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import Eligibility
from poela.learners.registry import LEARNERS, learner_class
from poela.studies.candidates import Candidate, checked_candidates, grid
from poela.studies.defaults import DEFAULT_LEARNERS, default_candidates
from poela.studies.radii import action_distances, with_numeric_radii


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_is_a_candidate_and_comes_back(name: str) -> None:
    learner = learner_class(name)()
    candidate = Candidate.of(learner)
    assert candidate.learner == name
    assert Candidate.from_plain(json.loads(json.dumps(candidate.to_plain()))).build() == learner


def test_a_rule_is_kept_as_plain_fields() -> None:
    candidate = Candidate("bcq", {"rule": Eligibility(radius=0.5, fallback="all")})
    assert candidate.to_plain()["settings"] == {"rule": {"radius": 0.5, "fallback": "all"}}
    rule = candidate.build().rule  # type: ignore[attr-defined]
    assert rule == Eligibility(radius=0.5, fallback="all")
    assert Candidate.from_plain(candidate.to_plain()) == candidate


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
    median = with_numeric_radii([Candidate("poela", {"radius": "q50"})], logs)[0].settings["radius"]
    assert median == pytest.approx(np.median(expected))


def test_quantiles_follow_the_metric_and_nested_rules() -> None:
    logs = Trajectories([[0.0], [1.0], [3.0], [7.0]], [0, 1, 0, 1], np.zeros(4), [0, 2, 4])
    found = with_numeric_radii(
        [
            Candidate("poela", {"radius": "q100", "metric": "euclidean"}),
            Candidate("bcq", {"rule": {"radius": "q100"}}),
            Candidate("poela", {"radius": 0.25}),
            Candidate("pocrm"),
        ],
        logs,
    )
    assert found[0].settings["radius"] == pytest.approx(7.0)
    assert found[1].settings["rule"]["radius"] == pytest.approx(49.0)
    assert found[2].settings["radius"] == 0.25
    assert found[3] == Candidate("pocrm")


def test_one_episode_has_no_quantiles() -> None:
    logs = Trajectories([[0.0], [1.0]], [0, 1], np.zeros(2), [0, 2])
    with pytest.raises(InputError, match="at least 2 training episodes"):
        with_numeric_radii([Candidate("poela", {"radius": "q50"})], logs)
