"""Weights on episodes that went wrong: does a learned policy get its estimate by looking away from them?

On tumor logs with the same studies as the tumor tables: with `--out` of a finished `tumor`, nothing is fitted again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from poela.core.arrays import FloatArray
from poela.data.trajectories import Trajectories
from poela.evaluation.weights import probabilities_along, safe_shift, smoothed, weights_of
from poela_experiments.frame.judging import measured
from poela_experiments.frame.policies import ANY, Source
from poela_experiments.frame.published import LEARNERS, NO_PENALTY, Number, published
from poela_experiments.frame.results import Cell, Report, ResultTable
from poela_experiments.frame.run import Run
from poela_experiments.tumor_studies import TumorTask, studies_of

LOW = -2.0  # a tumor return below this is low
WEIGHT = "weight on low returns"
WEIGHTS = published("tumor-weights")


@dataclass(frozen=True)
class Share:
    """The share of the weights that low-return training episodes have under a chosen policy."""

    task: TumorTask
    learner: str
    share: float
    logged: float  # the share of such episodes in the log


def tumor_weights(run: Run) -> Report:
    """Both tables, final policies, known behavior."""
    studies = (pair for markov in (False, True) for pair in studies_of(run, markov=markov))
    shares = [share for task, source in studies for share in shares_of(task, source)]
    return run.report(replace(table, command=f"{run.command} --out tumor") for table in _tables(run, shares))


def shares_of(task: TumorTask, source: Source) -> Iterator[Share]:
    """Of each learner's final policy on one data set."""
    train = source.logs[0]
    low = train.returns() < LOW
    for learner, chosen, _ in source.choices("final"):
        if learner != NO_PENALTY:
            weights = normalised_weights(source.policy(chosen), train, chosen.metrics["smoothing"] or 0.0)
            yield Share(task, learner, float(weights[low].sum()), float(low.mean()))


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


def _tables(run: Run, shares: Sequence[Share]) -> Iterator[ResultTable]:
    logged = [share.logged for share in shares]
    notes = (
        f"sum of the SNTIS weights of training episodes with a return below {LOW:g} under the chosen final policy",
        f"such episodes are {min(logged):.0%} to {max(logged):.0%} of the logs (paper: over 95%)",
    )
    for paper, contexts in zip(WEIGHTS.values(), ("non-Markov", "Markov"), strict=True):
        yield run.beside(paper, _measured(shares, contexts), notes)
    rows: list[dict[str, Cell]] = [
        {
            "contexts": share.task.contexts,
            "learner": share.learner,
            "data set": share.task.data_set,
            "weight on low returns": share.share,
            "share of the log": share.logged,
        }
        for share in shares
    ]
    yield run.table("data-sets", "Each data set", rows)


def _measured(shares: Sequence[Share], contexts: str) -> Iterator[Number]:
    for learner in LEARNERS:
        own = [share.share for share in shares if (share.learner, share.task.contexts) == (learner, contexts)]
        if own:
            yield measured(learner, contexts, WEIGHT, own)


def sepsis_weights(source: Source) -> ResultTable:
    """The share of the weights of training episodes that end in death, under each chosen final sepsis policy."""
    train = source.logs[0]
    died = train.returns() == 0
    own = [chosen for chosen in source.choices("final") if chosen[0] != NO_PENALTY]

    def numbers() -> Iterator[Number]:
        for name, item, _ in own:
            weights = normalised_weights(source.policy(item), train, item.metrics["smoothing"] or 0.0)
            yield Number(name, "sepsis", WEIGHT, float(weights[died].sum()))

    any_size = [name for name, _, least in own if least == ANY]
    notes = (
        "sum of the SNTIS weights of training episodes that end in death under the chosen final policy",
        "behavior by kNN, fitted on the training episodes",
        f"such episodes (of those cut off after 20 steps, a drawn share) are {died.mean():.0%} of the logs (the paper "
        "says over 60%, and that clinicians score 81.1, which cannot both hold)",
        *([f"chosen with any effective sample size: {', '.join(any_size)}"] if any_size else []),
    )
    title = "Sepsis: weight on training episodes that end in death"
    return replace(source.run.beside(WEIGHTS["non-markov"], numbers(), notes), key="weights", title=title)
