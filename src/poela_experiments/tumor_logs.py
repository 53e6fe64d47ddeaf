"""Tumor logs to learn from and to choose by, whose probabilities weigh them, and what policies are worth."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from poela.behavior.clone import CloneBehavior, RecurrentCloneBehavior
from poela.behavior.model import Behavior
from poela.core.arrays import FloatArray
from poela.core.policy import Policy
from poela.data.trajectories import Trajectories
from poela.evaluation.rollouts import TrueValue, true_value
from poela.evaluation.weights import probabilities_along, smoothed, weights_of
from poela.simulators.episodes import run as simulated
from poela.simulators.tumor import TumorBehavior, TumorGrowth, normalised
from poela.stats.weights import safe_shift
from poela_experiments.frame.policies import Truth

# As published: so many steps, and then the model itself is the estimate, of the episodes that it has seen too.
MODELS: dict[str, Behavior] = {
    "BC": CloneBehavior(steps=500, hidden=(32, 32, 32)),
    "BCRNN": RecurrentCloneBehavior(steps=500),
}
SCALE = "normalised: uniform random 0, best schedule found 100"


@dataclass(frozen=True)
class TumorTask:
    """One data set."""

    markov: bool = False
    data_set: int = 0
    episodes: int = 1000  # to learn from, and as many to choose by
    behavior: str = "known"  # or a model's name: whose probabilities are used

    @property
    def simulator(self) -> TumorGrowth:
        """The environment."""
        return TumorGrowth(markov=self.markov)

    @property
    def contexts(self) -> str:
        """What the contexts are, in a word."""
        return "Markov" if self.markov else "non-Markov"

    def __str__(self) -> str:
        return f"{self.contexts}, behavior {self.behavior}, data set {self.data_set}"

    def logs(self) -> tuple[Trajectories, Trajectories]:
        """Training and validation logs with the probabilities of the logging policy."""
        train, validation = (
            simulated(self.simulator, TumorBehavior(), self.episodes, seed=(self.data_set, role)) for role in (0, 1)
        )
        return train, validation

    def weighted_logs(self) -> tuple[tuple[Trajectories, Trajectories], Policy]:
        """The same, with those of the model where one is asked for; and whom rules ask at other contexts."""
        train, validation = self.logs()
        if self.behavior == "known":
            return (train, validation), TumorBehavior()
        model = MODELS[self.behavior].fit_quietly(train.with_propensities(None), self.data_set)
        hidden = (logs.with_propensities(None) for logs in (train, validation))
        train, validation = (model.annotation(logs).trajectories for logs in hidden)
        return (train, validation), model

    def truth(self, policy: Any, roll_outs: int) -> Truth:
        """By roll-outs on patients that no log has, normalised."""
        return on_scale(true_value(policy, self.simulator, roll_outs, seed=self.data_set))


def on_scale(found: TrueValue) -> Truth:
    """Normalised, as in the paper."""
    return Truth(normalised(found.value), normalised(found.standard_error) - normalised(0.0))


def normalised_weights(policy: Any, logs: Trajectories, smoothing: float, truncation: float = 1000.0) -> FloatArray:
    """SNTIS weights of the episodes, which sum to 1; zeros where the policy does nothing that was logged.

    >>> from poela.simulators.tumor import TumorBehavior, TumorGrowth
    >>> from poela.simulators.episodes import run
    >>> normalised_weights(TumorBehavior(), run(TumorGrowth(), TumorBehavior(), 4), smoothing=0.0)
    array([0.25, 0.25, 0.25, 0.25])
    """
    probabilities = smoothed(probabilities_along(policy, logs), logs, smoothing)
    logarithms = weights_of(probabilities, logs).truncated(truncation)
    weights = np.exp(logarithms - safe_shift(logarithms))
    return np.asarray(weights / max(weights.sum(), np.finfo(float).tiny))
