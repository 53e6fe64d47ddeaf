"""When training breaks down between two looks at the loss, the last good policy is still a good one."""

from typing import Any

import numpy as np
import pytest
from torch import Tensor

from poela.core.errors import TrainingError
from poela.data.trajectories import Trajectories
from poela.learners import policy_gradient
from poela.learners.active import crm_objective
from poela.learners.policy_gradient import POELA

GOOD_STEPS = 12  # no multiple of the steps between looks


@pytest.mark.parametrize("network", ["mlp", "gru"])
def test_the_last_good_policy_has_no_nan(network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    logs = Trajectories(
        rng.normal(size=(40, 2)),
        rng.integers(2, size=40),
        rng.normal(size=40),
        np.arange(0, 41, 2),
        np.full((40, 2), 0.5),
    )
    calls = iter(range(1000))

    def breaks(*given: Any) -> Tensor:
        return crm_objective(*given) * (1.0 if next(calls) < GOOD_STEPS else float("inf"))

    monkeypatch.setattr(policy_gradient, "crm_objective", breaks)
    learner = POELA(
        radius=9.0, network=network, steps=40, checkpoints=40, warm_start_steps=2, hidden=(4,), device="cpu"
    )
    with pytest.raises(TrainingError, match=f"NaN by step {GOOD_STEPS + 1}") as caught:
        learner.fit(logs)
    rows = caught.value.last_good.along(logs)
    np.testing.assert_allclose(rows.sum(axis=1), 1)
    monkeypatch.undo()
    at_last_good = next(point for point in learner.fit_path(logs) if point.step == GOOD_STEPS)
    np.testing.assert_array_equal(rows, at_last_good.policy.along(logs))
