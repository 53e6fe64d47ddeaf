"""Cross-fitting, the floor and the report."""

from dataclasses import dataclass

import numpy as np
import pytest

from poela.behavior.annotation import annotate, annotated, annotation
from poela.behavior.propensities import KNNBehavior
from poela.core.errors import InputError, PoelaWarning
from poela.core.policy import LoggedSteps
from poela.data.folds import fold_numbers
from poela.data.trajectories import Trajectories


def logs_of(episodes: int = 20, length: int = 3, n_actions: int = 3, seed: int = 0) -> Trajectories:
    rng = np.random.default_rng(seed)
    n = episodes * length
    return Trajectories(
        rng.normal(size=(n, 2)),
        rng.integers(0, n_actions, n),
        np.zeros(n),
        np.arange(0, n + 1, length),
        n_actions=n_actions,
    )


@dataclass(frozen=True)
class Spy:
    """A behavior whose model gives 1/2 to episodes it never saw and fails on any it saw."""

    def fit_quietly(self, train: Trajectories, seed: int) -> "SpyModel":
        assert train.episode_ids is not None
        return SpyModel(frozenset(train.episode_ids.tolist()))


@dataclass(frozen=True)
class SpyModel:
    known: frozenset[int]
    unseen: tuple[str | int, ...] = (2,)

    def along(self, trajectories: LoggedSteps) -> np.ndarray:
        assert isinstance(trajectories, Trajectories)
        assert trajectories.episode_ids is not None
        assert not self.known & set(trajectories.episode_ids.tolist())
        return np.tile(trajectories.contexts[:, :1] * 0 + [0.25, 0.5, 0.25], 1)


def test_an_episode_never_meets_a_model_that_saw_it() -> None:
    report = annotation(Spy(), logs_of(), folds=4)
    assert report.folds == 4
    assert report.unseen == (2,)
    np.testing.assert_array_equal(report.trajectories.propensities, np.tile([0.25, 0.5, 0.25], (60, 1)))


def test_cross_fitting_by_hand() -> None:
    logs = logs_of()
    folds = fold_numbers(logs, 5, seed=3)
    expected = np.empty((60, 3))
    for episode in range(logs.n_episodes):
        model = KNNBehavior(k=20).fit(logs.take(folds != folds[episode]))
        expected[3 * episode : 3 * episode + 3] = model.along(logs.take([episode]))
    report = annotation(KNNBehavior(k=20), logs, folds=5, seed=3)
    np.testing.assert_array_equal(report.trajectories.propensities, expected)
    for same in (
        annotate(KNNBehavior(k=20), logs, folds=5, seed=3),
        KNNBehavior(k=20).annotate(logs, folds=5, seed=3),
        KNNBehavior(k=20).fit(logs).annotate(logs, folds=5, seed=3),
    ):
        np.testing.assert_array_equal(same.propensities, expected)


def test_the_floor_raises_only_what_lies_below_it_and_rows_still_sum_to_one() -> None:
    logs = logs_of(episodes=2, length=2)
    rows = np.full((4, 3), 1 / 3)
    rows[1] = np.roll([0.0, 0.6, 0.4], logs.actions[1])
    rows[2] = np.roll([0.02, 0.49, 0.49], logs.actions[2])
    report = annotated(rows, logs, floor=0.05)
    given = report.trajectories.propensities
    assert given is not None
    np.testing.assert_array_equal(report.floored, [1, 2])
    np.testing.assert_array_equal(report.zero_support, [1])
    assert (report.floored_steps, report.zero_support_steps) == (2, 1)
    np.testing.assert_array_equal(given[[0, 3]], rows[[0, 3]])
    np.testing.assert_allclose(given[1], np.roll([0.05, 0.57, 0.38], logs.actions[1]))
    np.testing.assert_allclose(given[2], np.roll([0.05, 0.475, 0.475], logs.actions[2]))
    assert np.isfinite(report.calibration.log_likelihood)


def test_annotating_warns_where_the_floor_acted_and_says_how_often() -> None:
    logs = logs_of(n_actions=2)
    shifted = Trajectories(logs.contexts, 1 - logs.actions, logs.rewards, logs.offsets, n_actions=2)
    model = KNNBehavior(k=1).fit(logs)
    with pytest.warns(PoelaWarning, match=r"in 60 of 60 steps \(60 had probability 0\)"):
        annotated_logs = model.annotate(shifted)
    np.testing.assert_allclose(annotated_logs.logged_propensities, 1e-3)
    report = model.annotation(shifted)
    assert report.zero_support_steps == 60
    assert "acted in 60 steps, 60 of zero support" in str(report)


def test_folds_and_floors_that_make_no_sense() -> None:
    logs = logs_of(episodes=3)
    for folds in (1, 4):
        with pytest.raises(InputError, match=f"{folds} folds of 3 episodes cannot be made"):
            annotation(KNNBehavior(k=1), logs, folds=folds)
    for floor in (0.0, 1.0):
        with pytest.raises(InputError, match="between 0 and 1"):
            KNNBehavior(k=1).fit(logs_of()).annotate(logs, floor=floor)


def test_an_action_of_one_fold_alone_is_reported() -> None:
    logs = logs_of(n_actions=2)
    actions = np.array(logs.actions)
    actions[:3] = 2
    rare = Trajectories(logs.contexts, actions, logs.rewards, logs.offsets, action_names=["a", "b", "rare"])
    report = annotation(KNNBehavior(k=20), rare)
    assert report.unseen == ("rare",)
    np.testing.assert_array_equal(report.zero_support, [0, 1, 2])
    assert "actions never seen in training: rare" in str(report)
