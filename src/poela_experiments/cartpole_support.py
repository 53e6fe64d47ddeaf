"""How large an effective sample size can be on CartPole logs, and what it is made of: episodes at the truncation."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from poela.core.arrays import FloatArray
from poela.data.trajectories import Trajectories
from poela.evaluation.evidence import DEFAULT_TRUNCATION
from poela.evaluation.weights import effective_sample_size, weights_of
from poela.simulators.cartpole import STEPS
from poela.studies.selection import Scored
from poela_experiments.frame.results import Cell


def supports(
    validation: Trajectories, checkpoints: FloatArray, learners: Mapping[str, Sequence[Scored]], contexts: str
) -> Iterator[dict[str, Cell]]:
    """A row for each logging checkpoint [N, checkpoints, 2], and for each learner's best supported policy."""
    for number in range(checkpoints.shape[1]):
        name = f"logging checkpoint {number + 1} of {checkpoints.shape[1]}"
        yield {"contexts": contexts, "policy": name, **support(checkpoints[:, number], validation)}
    for learner, own in learners.items():
        best = max(own, key=lambda item: item.metrics.get("ess") or 0.0)
        value = best.metrics.get("sntis")
        yield {
            "contexts": contexts,
            "policy": learner,
            "ESS": best.metrics.get("ess"),
            "SNTIS": None if value is None else 100 / STEPS * value,
            "episodes at the truncation": None,
        }


def support(probabilities: FloatArray, logs: Trajectories) -> dict[str, Cell]:
    """Of a policy with these probabilities [N, A] along the logs; 200 steps are 100.

    >>> logs = Trajectories(np.zeros((8, 1)), [0, 1] * 4, np.ones(8), [0, 4, 8], propensities=np.full((8, 2), 0.5))
    >>> support(np.full((8, 2), 0.5), logs)
    {'ESS': 2.0, 'SNTIS': 2.0, 'episodes at the truncation': 0}
    """
    weights = weights_of(probabilities, logs)
    used = np.exp(weights.truncated(DEFAULT_TRUNCATION))
    return {
        "ESS": effective_sample_size(weights.truncated(DEFAULT_TRUNCATION)),
        "SNTIS": float(100 / STEPS * (used @ logs.returns()) / used.sum()),
        "episodes at the truncation": int((weights.episodes > np.log(DEFAULT_TRUNCATION)).sum()),
    }
