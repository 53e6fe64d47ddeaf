"""The support of a study's folds: made without what it judges, and counted in what is shown."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from poela.core.arrays import BoolArray
from poela.data.trajectories import Trajectories
from poela.eligibility.support_model import SupportModel
from poela.evaluation.outside import LoggedSupport
from poela.evaluation.recombination import Recombined
from poela.evaluation.scoring import Evaluator, Scoring
from poela.stats.diagnostics import OutsideSupport
from poela.studies.candidates import Candidate
from poela.studies.held_out import Episodes
from poela.studies.settings import StudySettings
from poela.studies.shown_gain import judged
from poela.studies.splits import Splits, splits_of

FOLDS = 4


def logs_with_a_hole(n: int = 320, seed: int = 0, known: str = "own") -> Trajectories:
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(n, 2)).astype(np.float32)
    chances = np.where(contexts[:, :1] > 0.7, [0.5, 0.5, 0.0], [0.4, 0.3, 0.3])
    actions = (rng.random(n)[:, None] > chances.cumsum(axis=1)[:, :2]).sum(axis=1)
    told = {"none": None, "own": chances[np.arange(n), actions], "all": chances}[known]
    return Trajectories(contexts, actions, rng.normal(size=n), np.arange(n + 1), told, 3)


def splits(logs: Trajectories, directory: Path) -> tuple[Splits, StudySettings]:
    settings = StudySettings((Candidate("consensus"),), folds=FOLDS, by_model=False)
    directory.mkdir()
    return splits_of(logs, None, None, settings, directory), settings


def of_fold(logs: Trajectories, directory: Path, fold: int) -> tuple[SupportModel, LoggedSupport, BoolArray]:
    made, settings = splits(logs, directory)
    data = made.fold_data(settings)[str(fold)]
    assert data.rule is not None
    assert data.support is not None
    assert made.fold_of is not None
    return data.rule, data.support, made.fold_of == fold


def test_other_actions_in_a_fold_change_neither_its_rule_nor_what_is_doubtful_there(tmp_path: Path) -> None:
    logs = logs_with_a_hole()
    rule, support, own = of_fold(logs, tmp_path / "before", 1)
    actions, chances = logs.actions.copy(), logs.logged_propensities.copy()
    actions[own], chances[own] = (actions[own] + 1) % 3, 0.001
    changed = replace(logs, actions=actions, propensities=chances)
    other_rule, other_support, still = of_fold(changed, tmp_path / "after", 1)
    np.testing.assert_array_equal(own, still)
    np.testing.assert_array_equal(rule.probabilities(logs.contexts), other_rule.probabilities(logs.contexts))
    for limit in ("least", "doubtful"):
        np.testing.assert_array_equal(getattr(rule, limit), getattr(other_rule, limit))
    assert support.doubtful.any()
    np.testing.assert_array_equal(support.doubtful, other_support.doubtful)
    elsewhere = [of_fold(one, tmp_path / name, 0)[0] for name, one in (("one", logs), ("two", changed))]
    assert (elsewhere[0].probabilities(logs.contexts) != elsewhere[1].probabilities(logs.contexts)).any()


def test_logged_zeros_are_those_of_the_held_out_episodes(tmp_path: Path) -> None:
    logs = logs_with_a_hole(known="all")
    _, support, own = of_fold(logs, tmp_path / "study", 2)
    assert logs.propensities is not None
    assert support.exact
    np.testing.assert_array_equal(support.outside, logs.propensities[own] == 0)


def test_a_study_without_holes_needs_no_support(tmp_path: Path) -> None:
    logs = logs_with_a_hole()
    made, settings = splits(logs.with_propensities(np.full((logs.n_steps, 3), 1 / 3)), tmp_path / "study")
    assert all(data.rule is None and data.support is None for data in made.fold_data(settings).values())


class Second:
    """Does the second of two actions with this chance."""

    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        return np.tile([0.3, 0.7], (len(contexts), 1))


@pytest.mark.parametrize(
    ("outside", "share"),
    [
        (None, 0.0),
        (OutsideSupport(0.0, 0.0, 0.05, 0.0), 0.05),
        (OutsideSupport(0.002, 0.004, 0.03, 0.0), 0.03),
        (OutsideSupport(0.008, 0.008, -0.2, 0.0), 0.008),
    ],
)
def test_what_is_shown_loses_the_worst_for_that_share(outside: OutsideSupport | None, share: float) -> None:
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, 800)
    half = np.full((800, 2), 0.5)
    logs = Trajectories(np.zeros((800, 1)), actions, actions + rng.normal(size=800), np.arange(801), half)
    scoring, episodes = Scoring(), Episodes.of([logs], 1.0)
    (found,) = Evaluator(logs, scoring).evidence([Second()])
    recombined = np.float32(Recombined(logs, 0, 4).log_weights(found))

    def shown(beyond: OutsideSupport | None) -> tuple[float, float]:
        evidence = episodes.evidence(found.weights.episodes, scoring, None, beyond)
        (one,) = judged(episodes, [(evidence, recombined)], scoring, 0.95)  # type: ignore[list-item]
        assert one.shown is not None
        return one.shown, one.estimate.value

    plain, value = shown(None)
    # Half as far again below the mean as the worst return seen.
    mean, worst = logs.rewards.mean(), logs.rewards.min()
    assert plain - shown(outside)[0] == pytest.approx(share * (value - (mean - 1.5 * (mean - worst))))
