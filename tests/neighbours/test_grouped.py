"""The nearest point of each group by one product is that of a search in each group, to the last bit."""

import numpy as np
import pytest

from poela.core.arrays import FloatArray
from poela.data.trajectories import Trajectories
from poela.eligibility.logged import LoggedContexts
from poela.eligibility.rules import Eligibility
from poela.neighbours.grouped import NearestOfGroups
from poela.neighbours.quantised import products_by_numpy
from poela.neighbours.search import Neighbours

SHAPES = [(1, 1, 7), (16, 3, 8), (5, 25, 44)]


@pytest.mark.parametrize(("rows", "groups", "features"), SHAPES)
@pytest.mark.parametrize("kind", ["spread", "whole numbers", "far from the origin", "in two clouds"])
def test_distances_are_those_of_a_plain_search(rows: int, groups: int, features: int, kind: str) -> None:
    rng = np.random.default_rng(rows)

    def drawn(n: int) -> FloatArray:
        points = rng.normal(size=(n, features))
        if kind == "whole numbers":  # many are equally near
            return np.round(points)
        if kind == "in two clouds":
            return points + 1e3 * rng.integers(0, 2, (n, 1))
        return points + (1e6 if kind == "far from the origin" else 0)

    points = [drawn(int(rng.integers(1, 300))) for _ in range(groups)]
    contexts = drawn(rows)
    contexts[0] = points[0][0]  # which was logged, so at distance 0
    # A cumulative sum adds in the order of the features.
    squares = [((contexts[:, None] - of_group) ** 2).cumsum(axis=2)[..., -1] for of_group in points]
    expected = np.stack([of_group.min(axis=1) for of_group in squares], axis=1)
    search = NearestOfGroups(points)
    for in_bytes in (False, True):
        if in_bytes:
            search.in_bytes(products_by_numpy)
        squared = search.squared(contexts)
        if squared is None:
            assert kind != "spread"  # else float32 cannot tell them apart, and each group is searched
            continue
        assert np.array_equal(squared, expected)
        assert squared[0, 0] == 0


@pytest.mark.parametrize(("tails", "far"), [("light", 90.0), ("heavy", 900.0)])
def test_bytes_leave_few_cases_to_floats(tails: str, far: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a few points lie far outside, too; a case far from all points is left, since all are about as near."""
    rng = np.random.default_rng(5)

    def drawn(n: int) -> FloatArray:
        points = rng.normal(size=(n, 9))
        return np.where(rng.random((n, 1)) < 0.001, 60 * points, points) if tails == "heavy" else points

    points = [drawn(2000) for _ in range(3)]
    points[1][7] = points[1][3]
    contexts = np.concatenate([points[1][3:4], rng.normal(size=(99, 9)), np.full((1, 9), far)])
    search = NearestOfGroups(points)
    expected = search.squared(contexts)
    search.in_bytes(products_by_numpy)
    asked: list[int] = []
    by_floats = NearestOfGroups._candidates

    def counted(self: NearestOfGroups, rows: FloatArray) -> object:
        asked.append(len(rows))
        return by_floats(self, rows)

    monkeypatch.setattr(NearestOfGroups, "_candidates", counted)
    found = search.squared(contexts)
    assert found is not None
    assert expected is not None
    assert np.array_equal(found, expected)
    assert asked == [1]


def test_who_is_far_outside_is_left_to_another_search() -> None:
    points = np.random.default_rng(0).normal(size=(50, 8))
    assert NearestOfGroups([points]).squared(np.full((1, 8), 1e9)) is None


def test_few_contexts_have_the_distances_that_they_have_among_many() -> None:
    rng = np.random.default_rng(3)
    n, rule = 900, Eligibility(radius=1.0)
    train = Trajectories(rng.normal(size=(n, 9)), rng.integers(0, 4, n), np.zeros(n), np.arange(n + 1), n_actions=5)
    logged = LoggedContexts.of(train, rule.fit(train).logged.scale, rule)  # type: ignore[union-attr]
    contexts = rng.normal(size=(40, 9)).astype(np.float32)
    contexts[3] = 1e9
    whole = logged.squared_distances(contexts, None)
    parts = [logged.squared_distances(contexts[start : start + 7], None) for start in range(0, 40, 7)]
    assert np.array_equal(np.concatenate(parts), whole)
    assert np.isinf(whole[:, 4]).all()  # an action that nobody took
    alone = [Neighbours(train.contexts[train.actions == action]).nearest(contexts)[1] for action in range(4)]
    assert np.array_equal(whole[:, :4], np.stack(alone, axis=1))
