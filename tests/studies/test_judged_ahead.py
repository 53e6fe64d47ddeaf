"""One policy judged ahead of the others: error rates of both kinds against independent draws, and who goes ahead."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm
from tests.studies.test_shown_gain import coins, shown

from poela.core.arrays import FloatArray
from poela.data.trajectories import Trajectories
from poela.studies.candidates import Candidate
from poela.studies.critical_values import critical_pair, critical_value
from poela.studies.held_out import Episodes
from poela.studies.judging import ahead_of, first_judged
from poela.studies.learning import learn
from poela.studies.selection import Point
from poela.studies.settings import StudySettings
from poela.studies.shown_gain import AHEAD_SHARE

BLOCK = slice(None)


def pair(influences: FloatArray, ahead: FloatArray) -> tuple[float, float]:
    return critical_pair([(BLOCK, influences)], [ahead > 0], influences.shape[1], 0.95, seed=0)


@pytest.mark.parametrize("points", [2, 5, 20])
def test_of_independent_points_both_kinds_go_beyond_as_often_and_together_in_five_percent(points: int) -> None:
    influences = np.asarray(np.kron(np.eye(points), np.random.default_rng(0).normal(size=100)), np.float64)
    one, others = pair(influences, np.eye(points)[0])
    share = np.sqrt(0.95)  # each kind stays within as often, and they are independent
    assert one == pytest.approx(norm.ppf(share), abs=0.1)
    assert others == pytest.approx(norm.ppf(share ** (1 / (points - 1))), abs=0.12)


def test_alike_points_cost_nothing_and_one_kind_alone_is_the_usual_value() -> None:
    rng = np.random.default_rng(1)
    alike, apart = np.tile(rng.normal(size=300), (6, 1)), rng.normal(size=(6, 300))
    assert pair(alike, np.eye(6)[0]) == pytest.approx((norm.ppf(0.95),) * 2, abs=0.1)
    for ahead in (np.zeros(6), np.ones(6)):
        assert pair(apart, ahead) == (critical_value(apart, 0.95, seed=0),) * 2


def test_what_goes_ahead_is_bound_more_tightly_and_the_others_less() -> None:
    logs, chances = coins(400, effect=1.0, seed=3), (0.9, 0.1, 0.3)
    before, after = shown(logs, chances), shown(logs, chances, ahead=(0,))
    gained = [(new.shown or 0.0) - (old.shown or 0.0) for new, old in zip(after, before, strict=True)]
    assert gained[0] > 0 > max(gained[1:])
    assert [one.best and one.best.value for one in after] == [one.best and one.best.value for one in before]


def test_of_those_ahead_the_one_goes_whose_weights_leave_the_wanted_share() -> None:
    logs, chances = coins(400, effect=1.0, seed=3), (0.5, 0.9, 0.99, 0.1, 0.6)
    judged_ones = shown(logs, chances, ahead=(4, 1, 0))
    sizes = [abs(judged_ones[number].estimate.ess / 400 - AHEAD_SHARE) for number in (4, 1, 0)]
    assert np.argmin(sizes) == 1  # the bolder one: fair coins leave everything, the last but one nearly half
    alone = shown(logs, chances, ahead=(1,))
    assert [one.shown for one in judged_ones] == [one.shown for one in alone]


def test_returns_have_no_part_in_who_goes_ahead() -> None:
    logs, chances = coins(400, effect=1.0, seed=3), (0.9, 0.7, 0.3)
    flipped = replace(logs, rewards=-logs.rewards)
    for one in (logs, flipped):
        every = [[each.shown for each in shown(one, chances, ahead=ahead)] for ahead in ((0, 1), (0,), (1,))]
        assert every[0] == every[1] != every[2]


def several_steps() -> Trajectories:
    logs = coins(40, 1.0, 0)
    return Trajectories(logs.contexts, logs.actions, logs.rewards, np.arange(0, 41, 2), logs.propensities)


def test_the_first_candidate_that_was_learned_goes_ahead() -> None:
    candidates = tuple(Candidate(name) for name in ("poela", "fittedq", "consensus"))
    points = [Point(f"{one.learner}-{one.key}-0", number, False, {}) for one in candidates[1:] for number in (0, 1)]
    settings = StudySettings(candidates=candidates)
    single, longer = (Episodes.of([logs], 1.0) for logs in (coins(40, 1.0, 0), several_steps()))
    assert ahead_of(points[::-1], settings, single) == [2, 3]
    assert ahead_of([], settings, single) == []
    assert ahead_of(points[2:], settings, single) == [0, 1]
    assert ahead_of(points, settings, longer) == []
    sized = [replace(point, metrics={"ess": 4.0 + 2 * number}) for number, point in enumerate(points)]  # of 40
    assert first_judged(sized, sized[::-1], settings, single) == 2
    assert first_judged(sized, sized[2:], settings, single) is None  # as in the study, where the first shows nothing


def test_the_first_learner_of_a_study_of_single_decisions_goes_ahead() -> None:
    logs = coins(200, effect=1.0, seed=5)
    logs = replace(logs, contexts=np.random.default_rng(0).normal(size=(200, 1)).astype(np.float32))
    points = learn(logs, learners=["fittedq", "rules"], backend="inline", folds=2, no_audit=True).points
    tilts = [one.metrics for one in points if one.path_id.startswith("fittedq")]
    rows = [[one[name] for name in ("gain", "shown", "gain_low", "ess")] for one in tilts]
    gain, low, alone, ess = np.array(rows, np.float64).T
    reaches = (gain - low) / (gain - alone)
    assert (reaches < 0.9 * np.median(reaches)).sum() == 1
    assert reaches.argmin() == np.abs(ess / 200 - AHEAD_SHARE).argmin()
