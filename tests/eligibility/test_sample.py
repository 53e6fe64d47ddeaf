"""Distances to a sample of the log: exact, to fewer cases, and so never too small."""

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

import poela
from poela.data.trajectories import Trajectories
from poela.eligibility import logged
from poela.eligibility.rules import Eligibility
from poela.studies.defaults import FULL_STEPS, MANY_STEPS, SUPPORTED
from poela.studies.requests import fit_to_actions, parse_settings


def logs_of(rows: int) -> Trajectories:
    """One case in fifty receives action 2."""
    rng = np.random.default_rng(0)
    actions = rng.choice(3, rows, p=[0.6, 0.38, 0.02])
    return Trajectories(rng.normal(size=(rows, 4)), actions, np.zeros(rows), np.arange(rows + 1))


@pytest.fixture
def small_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logged, "MOST_SAMPLED", 60)


@pytest.mark.usefixtures("small_sample")
def test_a_sample_has_as_many_of_each_action_or_all_of_a_rare_one() -> None:
    logs = logs_of(900)
    kept = Eligibility(reach="auto", search="sample").fit(logs).logged
    assert kept is not None
    assert np.bincount(kept.actions).tolist() == [20, 20, min(20, int((logs.actions == 2).sum()))]
    np.testing.assert_array_equal(kept.contexts, logs.contexts[kept.rows])
    np.testing.assert_array_equal(kept.actions, logs.actions[kept.rows])


@pytest.mark.usefixtures("small_sample")
def test_distances_are_those_to_the_sample_and_never_below_those_to_all() -> None:
    logs, asked = logs_of(900), np.random.default_rng(1).normal(size=(50, 4)).astype(np.float32)
    rules = [Eligibility(radius=1.0, search=search).fit(logs) for search in ("exact", "sample")]
    exact, found = (rule.distances(asked) for rule in rules)
    kept = rules[1].logged
    assert kept is not None
    for action in range(3):
        own = kept.contexts[kept.actions == action]
        apart = NearestNeighbors(n_neighbors=1).fit(own).kneighbors(asked)[0][:, 0]
        np.testing.assert_allclose(found[:, action], np.square(apart) / 4, rtol=1e-6)
    assert (found >= exact * (1 - 1e-12)).all()


def test_a_log_that_is_no_larger_than_a_sample_is_all_there() -> None:
    logs = logs_of(100)
    exact, found = (Eligibility(reach="auto", search=search).fit(logs) for search in ("exact", "sample"))
    assert exact.reach == found.reach
    np.testing.assert_array_equal(exact.distances(logs.contexts), found.distances(logs.contexts))


@pytest.mark.parametrize(("rows", "sampled"), [(MANY_STEPS - 1, False), (MANY_STEPS, True)])
def test_default_candidates_of_large_logs_look_for_like_cases_in_a_sample(rows: int, sampled: bool) -> None:
    logs = Trajectories(np.zeros((rows, 1)), np.arange(rows) % 2, np.zeros(rows), np.arange(rows + 1))
    options, _, settings = parse_settings({"learners": ["fittedq", "poela"]}, None, None)
    fitted, ascent = fit_to_actions(settings, options, logs).candidates
    assert dict(fitted.settings["rule"]) == SUPPORTED | ({"search": "sample"} if sampled else {})
    assert ascent.settings.get("search") == ("sample" if sampled else None)


@pytest.mark.parametrize(("rows", "part"), [(FULL_STEPS, None), (FULL_STEPS + 10, 5000)])
def test_ascent_on_large_logs_sees_a_part_of_them_at_each_step(rows: int, part: int | None) -> None:
    offsets = np.arange(0, rows + 1, 2)
    logs = Trajectories(np.zeros((rows, 1)), np.arange(rows) % 2, np.zeros(rows), offsets)
    for learners, expected in ((["poela"], part), ([poela.POELA()], None)):  # what somebody made stays as it is
        options, _, settings = parse_settings({"learners": learners}, None, None)
        [candidate] = fit_to_actions(settings, options, logs).candidates
        assert getattr(candidate.build(), "batch_episodes", None) == expected
