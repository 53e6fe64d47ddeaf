"""Scores of trees as arrays, for few rows and for many, against scikit-learn's own."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from poela.core.arrays import FloatArray
from poela.regression import forest
from poela.regression.forest import Forest


def logged(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Contexts of which many are equal, and one of three classes for each."""
    rng = np.random.default_rng(seed)
    contexts = np.round(rng.normal(size=(rows, 6)), 1).astype(np.float32)
    contexts[:, 5] = rng.normal(size=rows)  # all different: as many thresholds as trees want
    return contexts, (contexts[:, 0] + contexts[:, 5] + rng.normal(size=rows) > 0).astype(int) + (contexts[:, 1] > 1)


@pytest.mark.parametrize(("leaves", "by_bytes"), [(2, True), (8, True), (9, False), (31, False)])
@pytest.mark.parametrize("rows", [1, 700, 6000])
def test_scores_are_those_of_scikit_learn(
    leaves: int, by_bytes: bool, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forest, "BYTES_AT_A_TIME", 4000)
    monkeypatch.setattr(forest, "FEW_TESTS", 1 << 16)
    contexts, classes = logged(2000)
    grown = HistGradientBoostingClassifier(max_iter=30, max_leaf_nodes=leaves, min_samples_leaf=3).fit(
        contexts, classes
    )
    trees = [tree.nodes for each in grown._predictors for tree in each]
    ours = Forest.of(trees, np.ravel(grown._baseline_prediction))
    assert (ours._codes() is not None) == by_bytes
    asked = logged(rows, seed=1)[0]
    theirs: FloatArray = grown.decision_function(asked)
    np.testing.assert_allclose(ours.scores(asked), theirs, rtol=1e-12, atol=1e-12)


def test_a_feature_with_more_thresholds_than_a_byte_counts() -> None:
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(5000, 1)).astype(np.float32)
    grown = HistGradientBoostingRegressor(max_iter=120, max_leaf_nodes=8, min_samples_leaf=5, early_stopping=False)
    parts = []
    for part in range(2):  # other cases, other bins
        own = contexts[2500 * part : 2500 * (part + 1)]
        grown.fit(own, np.sin(9 * own[:, 0]))
        parts += [tree.nodes for (tree,) in grown._predictors]
    both = Forest.of(parts, np.zeros(1))
    assert len(np.unique(both.thresholds)) > 255
    assert both._codes() is None
    sums = sum(Forest.of(half, np.zeros(1)).scores(contexts) for half in (parts[:120], parts[120:]))
    np.testing.assert_allclose(both.scores(contexts), sums, rtol=1e-12, atol=1e-12)
