"""Neighbour search against SciPy's brute force, where rounding would mislead it, and in its dull corners."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.neighbours import search as neighbours
from poela.neighbours import tensors
from poela.neighbours.search import Neighbours, k_nearest

TREE, PRODUCTS = 2, 20  # features


def brute_force(contexts: FloatArray, logged: FloatArray, k: int) -> FloatArray:
    return np.asarray(np.sort(cdist(contexts, logged, "sqeuclidean"), axis=1)[:, :k])


@pytest.mark.parametrize("n_features", [1, TREE, neighbours.TREE_FEATURES, neighbours.TREE_FEATURES + 1, PRODUCTS])
@pytest.mark.parametrize("k", [1, 2, 50, 300])
def test_distances_are_those_of_brute_force(n_features: int, k: int) -> None:
    rng = np.random.default_rng(0)
    logged, contexts = rng.normal(size=(300, n_features)), rng.normal(size=(70, n_features))
    rows, squared = k_nearest(contexts, logged, k)
    np.testing.assert_allclose(squared, brute_force(contexts, logged, k), rtol=1e-13)
    differences = contexts[:, None] - logged[rows]
    np.testing.assert_allclose(squared, np.square(differences).sum(axis=2), rtol=1e-13)
    assert all(len(set(row)) == k for row in rows.tolist())


KINDS = ["all different", "on a grid", "logged often", "far from zero", "one first feature"]


def of_kind(kind: str, rows: int, n_features: int, seed: int) -> FloatArray:
    contexts = np.random.default_rng(seed).normal(size=(rows, n_features))
    if kind == "on a grid":  # full of ties, and of both zeros
        return np.round(contexts)
    if kind == "logged often":
        return np.asarray(np.round(contexts[np.random.default_rng(seed).integers(rows // 4, size=rows)], 1))
    if kind == "far from zero":  # few digits are left for differences, so that many are equal
        return 1e15 + contexts
    contexts[:, 0] = 1.0 if kind == "one first feature" else contexts[:, 0]
    return contexts


def in_documented_order(contexts: FloatArray, logged: FloatArray, k: int) -> tuple[list[list[int]], FloatArray]:
    """Nearest first; then by the first feature, by the bytes, and as logged."""
    squared = np.zeros((len(contexts), len(logged)))
    for feature in range(contexts.shape[1]):
        squared += (contexts[:, feature, None] - logged[:, feature]) ** 2
    values = [(row[0], (row + 0.0).tobytes()) for row in logged]
    rows = [sorted(range(len(logged)), key=lambda row: (own[row], *values[row], row))[:k] for own in squared]
    return rows, np.take_along_axis(squared, np.array(rows), axis=1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_features", [1, TREE, 4, PRODUCTS])
@pytest.mark.parametrize("k", [1, 3, 40])
def test_ties_are_decided_by_values_then_by_the_log(
    kind: str, n_features: int, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged, contexts = of_kind(kind, 200, n_features, seed=0), of_kind(kind, 60, n_features, seed=1)
    contexts[:20] = logged[:20]
    expected_rows, expected = in_documented_order(contexts, logged, k)
    for large_tree in (neighbours.LARGE_TREE, 10):
        monkeypatch.setattr(neighbours, "LARGE_TREE", large_tree)
        monkeypatch.setattr(neighbours, "ROWS_OF_TREE", 25)
        rows, squared = k_nearest(contexts, logged, k)
        assert rows.tolist() == expected_rows
        np.testing.assert_array_equal(squared, expected)
    assert (squared[:20, 0] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_logged", [1, 127, 500])
def test_torch_decides_ties_as_documented(kind: str, n_logged: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(neighbours, "SOME_PAIRS", 0)
    monkeypatch.setattr(tensors, "BLOCK", 128)
    logged = of_kind(kind, 500, PRODUCTS, seed=0)[:n_logged]
    contexts = of_kind(kind, 90, PRODUCTS, seed=1)
    contexts[:20] = logged[:20] if n_logged > 20 else logged
    rows, squared = Neighbours(logged).nearest(contexts)
    expected_rows, expected = in_documented_order(contexts, logged, 1)
    np.testing.assert_array_equal(rows[:, None], expected_rows)
    np.testing.assert_array_equal(squared[:, None], expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_features", [TREE, PRODUCTS])
@pytest.mark.parametrize("k", [1, 5])
def test_neither_the_order_of_the_log_nor_company_matters(
    kind: str, n_features: int, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "SOME_PAIRS", 1000)  # all contexts by torch, two of them without
    logged, contexts = of_kind(kind, 300, n_features, seed=0), of_kind(kind, 40, n_features, seed=1)
    rows, squared = k_nearest(contexts, logged, k)
    shuffled = np.random.default_rng(2).permutation(len(logged))
    other_rows, other = k_nearest(contexts[7:9], logged[shuffled], k)
    np.testing.assert_array_equal(other, squared[7:9])
    np.testing.assert_array_equal(logged[shuffled][other_rows], logged[rows[7:9]])


@pytest.mark.parametrize("k", [1, 7, 40])
def test_many_blocks_and_chunks(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "BLOCK", 32)
    monkeypatch.setattr(neighbours, "CHUNK", 500)
    monkeypatch.setattr(neighbours, "REFINED", 10)
    rng = np.random.default_rng(1)
    logged, contexts = rng.normal(size=(333, PRODUCTS)), rng.normal(size=(50, PRODUCTS))
    np.testing.assert_allclose(k_nearest(contexts, logged, k)[1], brute_force(contexts, logged, k), rtol=1e-13)


@pytest.mark.parametrize("kind", ["all different", "on a grid", "too near for float32", "asked from far away"])
@pytest.mark.parametrize("n_logged", [1, 130, 1000])
def test_large_searches_by_torch_give_the_same_bits(kind: str, n_logged: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    logged, contexts = rng.normal(size=(n_logged, PRODUCTS)), rng.normal(size=(70, PRODUCTS))
    if kind == "on a grid":  # full of ties
        logged, contexts = np.round(logged / 2), np.round(contexts / 2)
    elif kind == "too near for float32":
        logged = 5 + 1e-9 * logged
        contexts = 5 + 1e-9 * contexts
    elif kind == "asked from far away":
        contexts = 1e6 * contexts
    contexts.flags.writeable = False
    monkeypatch.setattr(neighbours, "SOME_PAIRS", np.inf)
    expected = Neighbours(logged).nearest(contexts)
    monkeypatch.setattr(neighbours, "SOME_PAIRS", 0)
    monkeypatch.setattr(neighbours, "ROWS_OF_TENSORS", {"cpu": 32})
    monkeypatch.setattr(tensors, "SCORES_AT_ONCE", {"cpu": 5 * 512})
    monkeypatch.setattr(tensors, "REFINED", {"cpu": 7})
    monkeypatch.setattr(tensors, "BLOCK", 512)
    found = Neighbours(logged).nearest(contexts)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize(
    ("offset", "spread"),
    [(0.0, 1.0), (1e4, 1.0), (1e9, 1.0), (0.0, 1e-30), (0.0, 1e30), (1e30, 1e20)],
)
def test_no_offset_or_unit_misleads_the_search(offset: float, spread: float) -> None:
    rng = np.random.default_rng(2)
    logged = offset + spread * rng.normal(size=(400, PRODUCTS))
    contexts = offset + spread * rng.normal(size=(50, PRODUCTS))
    np.testing.assert_allclose(k_nearest(contexts, logged, 3)[1], brute_force(contexts, logged, 3), rtol=1e-12)


@pytest.mark.parametrize("n_features", [TREE, PRODUCTS])
def test_clusters_that_float32_cannot_tell_apart(n_features: int) -> None:
    rng = np.random.default_rng(3)
    centres = 100.0 * rng.normal(size=(4, n_features))
    logged = np.repeat(centres, 100, axis=0) + 1e-9 * rng.normal(size=(400, n_features))
    contexts = np.repeat(centres, 5, axis=0) + 1e-9 * rng.normal(size=(20, n_features))
    # Differences of about 1e-9 between numbers of about 100 have six digits left.
    np.testing.assert_allclose(k_nearest(contexts, logged, 2)[1], brute_force(contexts, logged, 2), rtol=1e-12)


@pytest.mark.parametrize("n_features", [TREE, PRODUCTS])
def test_an_outlier_changes_nothing(n_features: int) -> None:
    rng = np.random.default_rng(4)
    logged, contexts = rng.normal(size=(300, n_features)), rng.normal(size=(40, n_features))
    rows, squared = k_nearest(contexts, logged, 2)
    with_outlier = np.concatenate([logged, np.full((1, n_features), 1e12)])
    rows_too, squared_too = k_nearest(contexts, with_outlier, 2)
    np.testing.assert_array_equal(rows, rows_too)
    np.testing.assert_array_equal(squared, squared_too)


@pytest.mark.parametrize("n_features", [TREE, PRODUCTS])
def test_equal_contexts_come_in_the_order_of_the_log(n_features: int) -> None:
    logged = np.zeros((6, n_features))
    logged[3] = -0.0
    logged[1] = 1.0
    rows, squared = k_nearest(np.zeros((2, n_features)), logged, 6)
    np.testing.assert_array_equal(rows, [[0, 2, 3, 4, 5, 1]] * 2)
    np.testing.assert_array_equal(squared[:, :5], 0)
    np.testing.assert_array_equal(k_nearest(np.zeros((1, n_features)), logged, 2)[0], [[0, 2]])


def test_a_lattice_full_of_ties() -> None:
    side = np.arange(6.0)
    logged = np.stack(np.meshgrid(side, side, side), axis=-1).reshape(-1, 3)
    centres = logged[(logged < 5).all(axis=1)] + 0.5
    search = Neighbours(logged)
    np.testing.assert_array_equal(search.nearest(centres)[1], 0.75)
    rows, squared = search.k_nearest(centres, 8)
    np.testing.assert_array_equal(squared, 0.75)
    assert all(len(set(row)) == 8 for row in rows.tolist())
    for k in range(1, 8):  # which of the tied rows comes first does not depend on how many are asked for
        np.testing.assert_array_equal(search.k_nearest(centres, k)[0], rows[:, :k])


@pytest.mark.parametrize("n_features", [TREE, PRODUCTS])
@pytest.mark.parametrize("away", [1e3, 1e9, 1e30])
def test_contexts_far_away_from_everything_logged(n_features: int, away: float) -> None:
    rng = np.random.default_rng(5)
    logged, contexts = rng.normal(size=(300, n_features)), away * rng.normal(size=(40, n_features))
    np.testing.assert_allclose(k_nearest(contexts, logged, 2)[1], brute_force(contexts, logged, 2), rtol=1e-12)


def test_without_features_everything_is_at_distance_zero() -> None:
    rows, squared = k_nearest(np.empty((2, 0)), np.empty((3, 0)), 2)
    np.testing.assert_array_equal(rows, [[0, 1], [0, 1]])
    np.testing.assert_array_equal(squared, 0)


def test_nothing_asked_nothing_found() -> None:
    for n_features in (TREE, PRODUCTS):
        rows, squared = k_nearest(np.empty((0, n_features)), np.zeros((3, n_features)), 2)
        assert rows.shape == squared.shape == (0, 2)


@pytest.mark.parametrize(
    ("contexts", "logged", "k", "words"),
    [
        ([[0.0]], [[0.0], [1.0]], 3, "3 neighbours were asked for among 2"),
        ([[0.0]], [[0.0], [1.0]], 0, "0 neighbours were asked for among 2"),
        ([[0.0, 1.0]], [[0.0], [1.0]], 1, r"contexts must have shape \(rows, 1\), not \(1, 2\)"),
        ([[np.nan]], [[0.0], [1.0]], 1, "contexts hold NaN or infinity"),
        ([[0.0]], np.empty((0, 1)), 1, "at least one row"),
    ],
)
def test_bad_input_is_said_in_one_sentence(contexts: FloatArray, logged: FloatArray, k: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        k_nearest(contexts, logged, k)


def counted(contexts: FloatArray, logged: FloatArray, squared: float) -> FloatArray:
    differences = contexts[:, None] - logged[None]
    return np.asarray((np.einsum("ijk,ijk->ij", differences, differences) <= squared).sum(axis=1))


@pytest.mark.parametrize("n_features", [0, 1, TREE, neighbours.TREE_FEATURES, neighbours.TREE_FEATURES + 1, PRODUCTS])
@pytest.mark.parametrize("kind", ["all different", "on a grid", "logged often"])
def test_counts_are_those_of_brute_force(n_features: int, kind: str) -> None:
    rng = np.random.default_rng(4)
    logged, contexts = rng.normal(size=(600, n_features)), rng.normal(size=(120, n_features))
    if kind == "on a grid":  # many exactly at the radius
        logged, contexts = np.round(2 * logged), np.round(2 * contexts)
    elif kind == "logged often":
        logged = logged[rng.integers(90, size=600)]
        contexts[:60] = logged[:60]
    some = float(np.square(contexts[0] - logged[5]).sum())
    for squared in (0.0, 0.5, 1.0, 2.0, 9.0, float(n_features), some * (1 + 1e-9), np.inf):
        found = Neighbours(logged).count_within(contexts, squared)
        np.testing.assert_array_equal(found, counted(contexts, logged, squared))


@pytest.mark.parametrize(("offset", "spread"), [(1e4, 1.0), (0.0, 1e-30), (0.0, 1e30), (1e9, 1.0)])
@pytest.mark.parametrize("n_features", [TREE, PRODUCTS])
def test_no_offset_or_unit_misleads_the_count(offset: float, spread: float, n_features: int) -> None:
    rng = np.random.default_rng(5)
    logged, contexts = (offset + spread * rng.normal(size=(n, n_features)) for n in (400, 50))
    contexts[0] += 1e6 * spread  # far outside
    squared = spread**2 * n_features
    found = Neighbours(logged).count_within(contexts, squared)
    np.testing.assert_array_equal(found, counted(contexts, logged, squared))
    assert 0 < found.mean() < 400


def test_counts_in_many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "BLOCK", 32)
    monkeypatch.setattr(neighbours, "CHUNK", 500)
    monkeypatch.setattr(neighbours, "REFINED", 10)
    rng = np.random.default_rng(6)
    logged, contexts = np.round(rng.normal(size=(333, PRODUCTS))), np.round(rng.normal(size=(50, PRODUCTS)))
    found = Neighbours(logged).count_within(contexts, 30.0)
    np.testing.assert_array_equal(found, counted(contexts, logged, 30.0))
