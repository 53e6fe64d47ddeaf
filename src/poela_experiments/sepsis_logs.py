"""The logs behind the sepsis tables, which candidates learn from them, and whose probabilities stand in the weights."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from poela.behavior.propensities import KNNBehavior
from poela.data.trajectories import Trajectories
from poela.simulators.episodes import run as simulated
from poela.simulators.sepsis import Sepsis, SepsisBehavior
from poela.simulators.sepsis_truth import sepsis_value
from poela_experiments.frame.candidates import candidates_of
from poela_experiments.frame.policies import Source, Truth
from poela_experiments.frame.run import Run
from poela_experiments.frame.trials import Choosing

# "own": of our own care, the model that predicts held-out actions best (log likelihood per step, 9,000 episodes:
# clone -1.90, multinomial -1.94, kNN -2.04).
BEHAVIORS = {"kNN": "knn", "BC": "clone", "BCRNN": "recurrent"}
OWN = "own"
LOGGING = "clinicians"  # the logging policy, as the paper names its column
# A share, so that smaller versions can choose too: 200 of 3,000 validation episodes, as in the paper.
CHOOSING = Choosing(200 / 3000)
K = 100  # of kNN, as the paper has it


def sepsis_source(run: Run, variant: str = "harmless", behavior: str = "kNN", number: int = 0) -> Source:
    """One data set with one model of the logging policy: the paper's grids or, with "own" care, more learners."""
    size, seed = run.size, run.seed + number
    return Source(
        seed,
        weighted_logs(variant, behavior, seed, size.episodes),
        size.own_behavior if behavior == OWN else BEHAVIORS[behavior],
        candidates_of("sepsis", size, behavior),
        size.restarts,
        partial(sepsis_truth, variant=variant, roll_outs=size.roll_outs, seed=seed),
        CHOOSING,
        logging_policy=SepsisBehavior(),  # the luck of patients cancels out, so its truth is nearly exact
    )


def sepsis_truth(policy: Any, variant: str, roll_outs: int, seed: int) -> Truth:
    """By roll-outs."""
    return Truth(*sepsis_value(policy, Sepsis(variant), roll_outs, seed))


def hidden_logs(variant: str, seed: int, episodes: Sequence[int]) -> list[Trajectories]:
    """Logs to learn from, to choose by and to test with; the clinicians' probabilities stay hidden."""
    return [
        simulated(Sepsis(variant), SepsisBehavior(), n, seed=(seed, role)).with_propensities(None)
        for role, n in enumerate(episodes)
    ]


def weighted_logs(variant: str, behavior: str, seed: int, episodes: Sequence[int]) -> list[Trajectories]:
    """The same logs as a study takes them: without propensities, which it then estimates, but for kNN.

    As in the authors' code, the kNN behind the weights of a part of the logs is fitted on that very part; that
    behind the rules of policies is fitted on training episodes.
    """
    parts = hidden_logs(variant, seed, episodes)
    return [_weighted_by_itself(part) for part in parts] if behavior == "kNN" else parts


def _weighted_by_itself(logs: Trajectories) -> Trajectories:
    """The logs with propensities by a kNN that has seen them."""
    return logs.with_propensities(KNNBehavior(k=min(K, logs.n_steps)).fit_quietly(logs, seed=0).along(logs))


def standard_errors_above(truth: Truth, other: Truth) -> float:
    """How far one true value is above another, in standard errors of their difference.

    >>> standard_errors_above(Truth(79.0, 0.3), Truth(78.0, 0.4))
    2.0
    """
    return (truth.value - other.value) / math.hypot(truth.standard_error, other.standard_error)
