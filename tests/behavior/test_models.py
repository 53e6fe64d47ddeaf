"""Behavior models against scikit-learn, and their answers to bad input."""

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from poela.behavior.boosted import BoostedBehavior, BoostedModel
from poela.behavior.clone import CloneBehavior
from poela.behavior.multinomial import MultinomialBehavior
from poela.behavior.propensities import KNNBehavior
from poela.core.errors import InputError, PoelaWarning
from poela.data.trajectories import Trajectories


def logs_of(episodes: int = 60, length: int = 5, n_actions: int = 4, seed: int = 0, **changes: Any) -> Trajectories:
    rng = np.random.default_rng(seed)
    n = episodes * length
    contexts = rng.normal(size=(n, 3)).astype(np.float32) * [1.0, 3.0, 0.2]
    scores = contexts @ np.random.default_rng(99).normal(size=(3, n_actions))
    actions = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    fields: dict[str, Any] = {
        "contexts": contexts,
        "actions": actions,
        "rewards": np.zeros(n),
        "offsets": np.arange(0, n + 1, length),
        "n_actions": n_actions,
    }
    return Trajectories(**{**fields, **changes})


TRAIN = logs_of()
ASKED = logs_of(seed=1).contexts


def test_knn_equals_scikit_learn() -> None:
    theirs = KNeighborsClassifier(n_neighbors=7).fit(TRAIN.contexts, TRAIN.actions)
    ours = KNNBehavior(k=7).fit(TRAIN)
    np.testing.assert_allclose(ours.probabilities(ASKED), theirs.predict_proba(ASKED), atol=1e-12)


def test_knn_counts_a_training_context_among_its_own_neighbours() -> None:
    rows = KNNBehavior(k=1).fit(TRAIN).along(TRAIN)
    np.testing.assert_array_equal(rows.argmax(axis=1), TRAIN.actions)
    np.testing.assert_array_equal(rows.max(axis=1), 1.0)


@pytest.mark.parametrize("n_actions", [2, 4])
def test_multinomial_equals_scikit_learn(n_actions: int) -> None:
    train = logs_of(n_actions=n_actions)
    scaler = StandardScaler().fit(train.contexts.astype(np.float64))
    theirs = LogisticRegression(C=0.5, max_iter=1000).fit(scaler.transform(train.contexts), train.actions)
    ours = MultinomialBehavior(penalty=2.0).fit(train)
    np.testing.assert_allclose(
        ours.probabilities(ASKED), theirs.predict_proba(scaler.transform(ASKED.astype(np.float64))), atol=1e-5
    )


@pytest.mark.parametrize("n_actions", [2, 4])
@pytest.mark.parametrize("leaves", [2, 15, 32])
def test_boosted_trees_without_scikit_learn_give_its_probabilities(n_actions: int, leaves: int) -> None:
    train = logs_of(n_actions=n_actions, episodes=200)
    theirs = HistGradientBoostingClassifier(
        max_iter=25, max_leaf_nodes=leaves, min_samples_leaf=5, early_stopping=False
    ).fit(train.contexts, train.actions)
    ours = BoostedBehavior(max_rounds=25, leaves=leaves, steps_per_leaf=5, held_out=0).fit(train)
    np.testing.assert_allclose(ours.probabilities(ASKED), theirs.predict_proba(ASKED), rtol=1e-12, atol=1e-15)
    # Contexts that lie exactly on a threshold are where rounding would show.
    assert isinstance(ours, BoostedModel)
    edges = np.tile(np.resize(ours.forest.thresholds, (500, 1)), 3)
    np.testing.assert_allclose(ours.probabilities(edges), theirs.predict_proba(edges), rtol=1e-12, atol=1e-15)


def test_boosting_stops_where_behavior_does_not_depend_on_the_context() -> None:
    rng = np.random.default_rng(0)
    train = logs_of(actions=rng.integers(0, 4, 300))
    model = BoostedBehavior().fit(train)
    assert isinstance(model, BoostedModel)
    assert len(model.forest.leaf_offsets) - 1 < 4 * 20
    assert np.abs(model.probabilities(ASKED) - 0.25).mean() < 0.1


MEMORYLESS = [
    KNNBehavior(k=5),
    MultinomialBehavior(),
    BoostedBehavior(max_rounds=10),
    CloneBehavior(hidden=(8,), max_steps=100),
]


@pytest.mark.parametrize("behavior", MEMORYLESS, ids=lambda behavior: type(behavior).__name__)
class TestEveryModel:
    def test_an_action_that_never_occurs_is_named_and_gets_probability_zero(self, behavior: Any) -> None:
        names = ["none", "low", "middle", "high", "extreme"]
        train = logs_of(actions=np.where(TRAIN.actions == 1, 0, TRAIN.actions), n_actions=5, action_names=names)
        with pytest.warns(PoelaWarning, match=r"2 of 5 actions never occur in training \(low, extreme\)"):
            model = behavior.fit(train)
        rows = model.probabilities(ASKED)
        assert model.unseen == ("low", "extreme")
        assert (rows[:, [1, 4]] == 0).all()
        np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-12)

    def test_a_log_of_one_action(self, behavior: Any) -> None:
        train = logs_of(actions=np.full(300, 2))
        with pytest.warns(PoelaWarning, match="3 of 4 actions never occur"):
            model = behavior.fit(train)
        np.testing.assert_array_equal(model.probabilities(ASKED[:2]), [[0, 0, 1, 0]] * 2)

    def test_a_log_of_one_episode(self, behavior: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PoelaWarning)
            rows = behavior.fit(TRAIN.take([0])).probabilities(ASKED)
        np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-12)

    def test_constant_features_do_no_harm(self, behavior: Any) -> None:
        constant = np.full((TRAIN.n_steps, 1), 1e4 / 3)
        model = behavior.fit(logs_of(contexts=np.hstack([TRAIN.contexts, constant])))
        rows = model.probabilities(np.hstack([ASKED, constant]))
        # Another number of inputs is another network, so its probabilities are near the others, not equal.
        tolerance = 0.1 if isinstance(behavior, CloneBehavior) else 1e-7
        assert np.abs(rows - behavior.fit(TRAIN).probabilities(ASKED)).mean() < tolerance

    def test_contexts_of_another_width_or_order(self, behavior: Any) -> None:
        model = behavior.fit(logs_of(feature_names=["age", "pulse", "sofa"]))
        with pytest.raises(InputError, match=r"shape \(300, 2\), but this behavior model was fitted on 3 features"):
            model.probabilities(ASKED[:, :2])
        with pytest.raises(InputError, match=r"shape \(3,\)"):
            model.probabilities(ASKED[0])
        with pytest.raises(InputError, match=r"another order than in training .first at column 1: 'sofa'"):
            model.along(logs_of(feature_names=["age", "sofa", "pulse"]))
        with pytest.raises(InputError, match=r"1 features of the training logs are missing here .first 'pulse'"):
            model.annotate(logs_of(feature_names=["age", "pH", "sofa"]))
        with pytest.raises(InputError, match="have 5 actions, but this behavior model was fitted on 4"):
            model.annotate(logs_of(n_actions=5))
        assert model.along(logs_of()).shape == (300, 4)  # logs without names are taken as they are

    def test_contexts_with_holes(self, behavior: Any) -> None:
        holes = ASKED.copy()
        holes[[3, 7]] = np.nan
        with pytest.raises(InputError, match="2 contexts hold NaN or infinity, first in row 3"):
            behavior.fit(TRAIN).probabilities(holes)

    def test_no_contexts_give_no_rows(self, behavior: Any) -> None:
        assert behavior.fit(TRAIN).probabilities(ASKED[:0]).shape == (0, 4)


def test_more_neighbours_than_steps() -> None:
    with pytest.raises(InputError, match="k is 100, but there are 60 training steps: choose k from 1 to 60"):
        KNNBehavior().fit(logs_of(episodes=12))


def test_settings_that_make_no_sense() -> None:
    with pytest.raises(InputError, match="leaves is 64: it must be a whole number, at least 2 and at most 32"):
        BoostedBehavior(leaves=64).fit(TRAIN)
    with pytest.raises(InputError, match=r"held_out is 1\.0"):
        BoostedBehavior(held_out=1.0).fit(TRAIN)
    with pytest.raises(InputError, match="penalty"):
        MultinomialBehavior(penalty=0).fit(TRAIN)
    with pytest.warns(PoelaWarning, match="not converged in 2 iterations"):
        MultinomialBehavior(max_iterations=2).fit(TRAIN)


@pytest.mark.parametrize("n_actions", [2, 4])
def test_fewer_rounds_are_the_beginning_of_more(n_actions: int) -> None:
    logs = (
        logs_of() if n_actions == 4 else Trajectories(TRAIN.contexts, TRAIN.actions % 2, TRAIN.rewards, TRAIN.offsets)
    )
    long, short = (BoostedBehavior(max_rounds=rounds, held_out=0).fit_quietly(logs, 0) for rounds in (9, 4))
    np.testing.assert_array_equal(long.after(4).probabilities(ASKED), short.probabilities(ASKED))
    assert np.abs(long.probabilities(ASKED) - short.probabilities(ASKED)).max() > 1e-3
