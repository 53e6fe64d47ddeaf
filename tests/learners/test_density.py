"""PQL's filter: it must single out contexts where the log is thin."""

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from poela.core.errors import InputError
from poela.learners.density import NEIGHBOURS, Density, low_density
from poela.learners.q_learning import PQL


def crowd_and_strays() -> np.ndarray:
    rng = np.random.default_rng(0)
    crowd = rng.normal(size=(490, 3)) * [1.0, 20.0, 0.1]
    strays = np.array([8.0, 160.0, 0.8]) * rng.choice([-1, 1], size=(10, 3))
    return np.concatenate([crowd, strays]).astype(np.float32)


@pytest.mark.parametrize("density", ["vae", "nearest"])
def test_strays_far_from_the_crowd_are_found(density: Density) -> None:
    (found,) = low_density(crowd_and_strays(), density, percentile=2.0, steps=1500, seeds=[0])
    assert found.sum() == 10
    assert found[490:].mean() >= (0.9 if density == "vae" else 0.8)  # strays have strays for neighbours


def test_neighbour_scores_equal_those_of_scikit_learn() -> None:
    contexts = crowd_and_strays()
    scaled = (contexts - contexts.mean(axis=0)) / contexts.std(axis=0)
    distances = NearestNeighbors(n_neighbors=NEIGHBOURS + 1).fit(scaled).kneighbors(scaled)[0][:, -1]
    expected = distances > np.percentile(distances, 98.0)
    (found,) = low_density(contexts, "nearest", percentile=2.0, steps=0, seeds=[0])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("density", ["vae", "nearest"])
def test_the_same_seed_gives_the_same_answer_and_a_constant_feature_changes_nothing(density: Density) -> None:
    contexts = crowd_and_strays()
    once, again = (low_density(contexts, density, 2.0, steps=50, seeds=[4]) for _ in range(2))
    np.testing.assert_array_equal(once, again)
    constant = np.column_stack([contexts, np.full(500, 7.0, np.float32)])
    assert np.isfinite(low_density(constant, density, 2.0, steps=50, seeds=[4])).all()


def test_autoencoders_side_by_side_are_those_of_each_seed_alone() -> None:
    contexts = crowd_and_strays()
    together = low_density(contexts, "vae", 10.0, steps=30, seeds=[4, 5, 6])
    alone = [low_density(contexts, "vae", 10.0, steps=30, seeds=[seed])[0] for seed in (4, 5, 6)]
    np.testing.assert_array_equal(together, alone)
    assert (together[0] != together[1]).any()


def test_equal_contexts_are_all_believed() -> None:
    assert not np.any(low_density(np.zeros((50, 2), np.float32), "nearest", 2.0, steps=0, seeds=[0]))


def test_an_unknown_density_is_refused() -> None:
    with pytest.raises(InputError, match="density is 'kernel': choose 'vae' or 'nearest'"):
        PQL(density="kernel")  # type: ignore[arg-type]
