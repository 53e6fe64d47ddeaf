"""Who is within reach, settled by few logged cases: as all distances say."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from poela.data.trajectories import Trajectories
from poela.eligibility import logged
from poela.eligibility.rules import Eligibility, Metric


def logs_of(count: int, width: int, seed: int) -> Trajectories:
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(count, width)).astype(np.float32)
    return Trajectories(contexts, rng.integers(3, size=count), np.zeros(count), np.arange(count + 1))


@pytest.mark.parametrize("metric", ["mean_squared", "euclidean"])
@pytest.mark.parametrize("width", [2, 12])
@pytest.mark.parametrize("share", [0.1, 0.9])
def test_the_mask_is_that_of_all_distances(
    width: int, metric: Metric, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logged, "FIRST_ASKED", 8)
    train, asked = logs_of(200, width, 0), logs_of(400, width, 1)
    nearest = Eligibility(reach=1.0, metric=metric).fit(train).distances(asked.contexts).min(axis=1)
    reach = float(np.quantile(nearest, share, method="inverted_cdf"))
    fitted = Eligibility(reach=reach, metric=metric).fit(train)
    reached = nearest <= reach
    assert 0 < reached.sum() < 400
    for eligible in (fitted.along(asked), fitted.resolve(asked.contexts)):
        assert_array_equal(eligible.stranded, ~reached)
        assert eligible.mask[reached].all()
        # Elsewhere the nearest case decides.
        others = fitted.distances(asked.contexts[~reached])
        assert_array_equal(eligible.mask[~reached], others == others.min(axis=1, keepdims=True))
