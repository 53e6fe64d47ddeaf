"""The logs with a behavior of the history: its propensities are those of a walk through each episode."""

import numpy as np

from poela_experiments.remembering import FORGETTING, HABIT, LEANING, remembering_logs


def test_propensities_by_hand() -> None:
    logs = remembering_logs(episodes=20, seed=0)
    assert logs.lengths.min() < logs.lengths.max()
    for start, end in zip(logs.offsets[:-1], logs.offsets[1:], strict=True):
        mean, last = 0.0, None
        for row in range(start, end):
            mean = FORGETTING * mean + (1 - FORGETTING) * float(logs.contexts[row, 0])
            scores = np.array([LEANING * mean, 0.0, -LEANING * mean])
            if last is not None:
                scores[last] += HABIT
            assert logs.propensities is not None
            np.testing.assert_allclose(logs.propensities[row], np.exp(scores) / np.exp(scores).sum(), rtol=1e-9)
            last = logs.actions[row]
