"""Likeness by shared leaves: by hand, and in explanations of a rule by learned support."""

from dataclasses import replace

import numpy as np
import pytest

from poela.behavior.boosted import BoostedBehavior, BoostedModel
from poela.behavior.model import Schema
from poela.behavior.multinomial import MultinomialBehavior
from poela.data.trajectories import Trajectories
from poela.eligibility.explanation import shared_leaves
from poela.eligibility.rules import Eligibility
from poela.eligibility.support_model import SupportModel
from poela.regression.forest import Forest

STUMPS = Forest.from_arrays(
    {
        # x0 <= 0, and x1 <= 0 beside a second test of x1 on its right, x1 <= 2
        "features": np.array([0, 1, 1]),
        "thresholds": np.array([0.0, 0.0, 2.0]),
        "keeps": np.array([0xFFFFFFFE, 0xFFFFFFFE, 0xFFFFFFFD], np.uint32),
        "node_offsets": np.array([0, 1, 3]),
        "leaf_values": np.zeros(5),
        "leaf_offsets": np.array([0, 2, 5]),
        "baseline": np.zeros(1),
    }
)
LOGS = Trajectories(np.zeros((2, 2)), [0, 1], [0.0, 0.0], [0, 1, 2])


def model(forest: Forest) -> SupportModel:
    trees = BoostedModel(BoostedBehavior(), Schema.of(LOGS), forest)
    return SupportModel((trees, trees), np.zeros(2), np.zeros(2), np.full(2, 0.5), 0.0)


def test_shares_and_differences_by_hand() -> None:
    others = np.array([[2.0, 1.5], [1.0, 3.0], [-1.0, -1.0]], np.float32)
    found = shared_leaves(model(STUMPS), np.array([1.0, 1.0], np.float32), others)
    assert found is not None
    assert found.shares.tolist() == [1.0, 0.5, 0.0]
    # Both models have these tests, so that each counts twice.
    assert found.differing.tolist() == [[0, 0], [0, 2], [2, 2]]
    assert found.tests.tolist() == [2, 4]


def test_leaves_are_those_of_the_scores() -> None:
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(300, 3)).astype(np.float32)
    logs = Trajectories(contexts, contexts[:, 0] * contexts[:, 1] > 0, np.zeros(300), np.arange(301))
    forest = BoostedBehavior(max_rounds=10, held_out=0).fit_quietly(logs, 0).forest
    leaves = forest.leaves(forest.passed(contexts))
    by_tree = np.stack([forest.leaf_values[forest.leaf_offsets[tree] + leaves[:, tree]] for tree in range(10)])
    np.testing.assert_allclose(forest.baseline + by_tree.sum(axis=0)[:, None], forest._block_scores(contexts))


def test_without_trees_there_is_nothing_to_share() -> None:
    here = np.zeros(2, np.float32)
    plain = MultinomialBehavior().fit_quietly(LOGS, 0)
    assert shared_leaves(None, here, here[None]) is None
    assert shared_leaves(replace(model(STUMPS), models=(plain,)), here, here[None]) is None
    assert shared_leaves(model(Forest.of([], np.zeros(1))), here, here[None]) is None


@pytest.fixture(scope="module")
def holed() -> Trajectories:
    """Above 1 in the first of ten features, the third action is never taken; the others do not matter."""
    rng = np.random.default_rng(1)
    contexts = rng.normal(size=(900, 10)).astype(np.float32)
    third = (contexts[:, 0] <= 1) & (rng.random(900) < 0.3)
    names = ("lactate", *(f"x{place}" for place in range(9)))
    actions = np.where(third, 2, rng.integers(2, size=900))
    return Trajectories(contexts, actions, np.zeros(900), np.arange(901), None, 3, feature_names=names)


def test_explanations_name_cases_that_the_support_model_treats_alike(holed: Trajectories) -> None:
    rule = Eligibility(support=0.02, reach="auto", scale="robust").fit(holed)
    asked = np.zeros(10, np.float32)
    asked[0] = 1.5
    told = rule.explain(asked, k=5)
    assert not told.actions[2].eligible
    for action in told.actions[:2]:
        shares = [case.shared for case in action.cases]
        assert all(share is not None and share > 0.5 for share in shares)
        assert shares == sorted(shares, key=lambda share: -(share or 0))
        assert all(holed.contexts[case.row, 0] > 1 for case in action.cases)
        assert all("lactate" in case.likeness.alike for case in action.cases)
        assert "of trees (alike in lactate" in str(action.cases[0])
    plain = Eligibility(radius="q95", scale="robust").fit(holed).explain(asked, k=1)
    assert plain.actions[0].cases[0].shared is None
