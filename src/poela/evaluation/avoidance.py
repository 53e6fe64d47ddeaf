"""All diagnostics of propensity overfitting of one policy on the logs that it was trained on."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from poela.core.readable import readable
from poela.data.trajectories import Trajectories
from poela.evaluation.evidence import DEFAULT_TRUNCATION
from poela.evaluation.overfitting import (
    AvoidedContext,
    BallWeights,
    Decomposition,
    LowReturnWeight,
    avoided_contexts,
    ball_weights,
    decompose,
    low_return_weight,
)
from poela.evaluation.value_model import ValueModel
from poela.evaluation.weights import probabilities_along, weights_of


@dataclass(frozen=True)
class PropensityOverfitting:
    """What `propensity_overfitting` found."""

    decomposition: Decomposition
    low_returns: LowReturnWeight
    balls: BallWeights
    avoided: tuple[AvoidedContext, ...]

    def __str__(self) -> str:
        terms, low, balls = self.decomposition, self.low_returns, self.balls
        return (
            f"estimate {readable(terms.estimate)} = {readable(terms.empirical)} on the logged contexts "
            f"{readable(terms.context_shift, signed=True)} by shifting weight between contexts "
            f"{readable(terms.within_contexts, signed=True)} within them; "
            f"{low.weight:.1%} of the weight on the {low.share_of_episodes:.1%} of episodes with low returns; "
            f"{balls.empty} of {len(balls.rows)} contexts without any weight near them"
        )


def propensity_overfitting(
    policy: Any,
    logs: Trajectories,
    radius: float,
    metric: str = "mean_squared",
    *,
    low_return: float | None = None,
    discount: float = 1.0,
    truncation: float = DEFAULT_TRUNCATION,
    seed: int = 0,
) -> PropensityOverfitting:
    """The paper's diagnostics together; v(x) comes from cross-fitted step regressions.

    `low_return` is below which returns count as low; by default, below the median.

    >>> from poela.simulators.episodes import run
    >>> from poela.simulators.tumor import TumorBehavior, TumorGrowth
    >>> logs = run(TumorGrowth(), TumorBehavior(), episodes=100, seed=0)
    >>> found = propensity_overfitting(TumorBehavior(), logs, radius=0.5)
    >>> abs(found.decomposition.context_shift) < 1e-9, found.balls.empty, found.avoided
    (True, 0, ())
    """
    probabilities = probabilities_along(policy, logs)
    weights = weights_of(probabilities, logs)
    used, returns = weights.truncated(truncation), logs.returns(discount)
    (model,) = ValueModel(logs, discount=discount, seed=seed).values(probabilities[None])
    values = model.expected[logs.offsets[:-1]]
    threshold = float(np.median(returns)) if low_return is None else low_return
    return PropensityOverfitting(
        decompose(used, returns, values, logs.initial_contexts, radius, metric),
        low_return_weight(used, returns, threshold),
        ball_weights(weights, logs, probabilities, radius, metric),
        avoided_contexts(used, logs, radius, metric, discount=discount),
    )
