"""Weights on low-return episodes: does a learned policy get its estimate by looking away from what went wrong?

On the same studies as the tumor tables: with `--out` of a finished `tumor`, nothing is fitted again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from poela.core.progress import progress
from poela.data.trajectories import Trajectories
from poela.evaluation.evaluate import smoothed
from poela.evaluation.weights import probabilities_along, safe_shift, weights_of
from poela.experiments.comparison import compared, measured
from poela.experiments.published.records import Number
from poela.experiments.published.tumor import WEIGHT, WEIGHTS
from poela.experiments.results import Cell, Report, ResultTable
from poela.experiments.running import HERE, Running
from poela.experiments.tumor_studies import FULL, NAMES, PROTOCOLS, QUICK, TumorTask, chosen_by, study_of, tasks_of
from poela.policies.storage import load_object

LOW = -2.0  # a return below this is low


@dataclass(frozen=True)
class Share:
    """The share of the weights that low-return training episodes have under a chosen policy."""

    task: TumorTask
    learner: str
    share: float
    logged: float  # the share of such episodes in the log


def tumor_weights(out: Path, quick: bool = True, seed: int = 0, running: Running = HERE) -> Report:
    """Both tables, final policies, known behavior."""
    size = QUICK if quick else FULL
    shares: list[Share] = []
    tasks = [task for markov in (False, True) for task in tasks_of(size, seed, markov=markov)]
    with progress("data sets", len(tasks)) as advance:
        for task in tasks:
            study = study_of(task, size, out, running)
            train, _ = task.logs()
            low = train.returns() < LOW
            for learner in NAMES:
                chosen = chosen_by(study, learner, PROTOCOLS["final"])
                if chosen is not None:
                    policy: Any = load_object(study.store.policy(chosen.run_id, chosen.number))
                    weights = normalised_weights(policy, train, chosen.metrics["smoothing"] or 0.0)
                    shares.append(Share(task, learner, float(weights[low].sum()), float(low.mean())))
            advance()
    command = f"poela reproduce tumor-weights {'--quick' if quick else '--full'} --seed {seed} --out tumor"
    return Report("tumor-weights", _tables(shares, command)).write(out)


def normalised_weights(policy: Any, logs: Trajectories, smoothing: float, truncation: float = 1000.0) -> Any:
    """SNTIS weights of the episodes, which sum to 1; zeros where the policy does nothing that was logged.

    >>> from poela.simulators.tumor import TumorBehavior, TumorGrowth
    >>> from poela.simulators.episodes import run
    >>> normalised_weights(TumorBehavior(), run(TumorGrowth(), TumorBehavior(), 4), smoothing=0.0)
    array([0.25, 0.25, 0.25, 0.25])
    """
    probabilities = smoothed(probabilities_along(policy, logs), logs, smoothing)
    logarithms = weights_of(probabilities, logs).truncated(truncation)
    weights = np.exp(logarithms - safe_shift(logarithms))
    return weights / max(weights.sum(), np.finfo(float).tiny)


def _tables(shares: Sequence[Share], command: str) -> tuple[ResultTable, ...]:
    logged = [share.logged for share in shares]
    notes = (
        f"sum of the SNTIS weights of training episodes with a return below {LOW:g} under the chosen final policy",
        f"such episodes are {min(logged):.0%} to {max(logged):.0%} of the logs (paper: over 95%)",
    )
    non_markov, markov = (list(_measured(shares, contexts)) for contexts in ("non-Markov", "Markov"))
    return (
        ResultTable(WEIGHTS[0].title, compared(WEIGHTS[0], non_markov), command, notes),
        ResultTable(WEIGHTS[1].title, compared(WEIGHTS[1], markov), command, notes),
        ResultTable("Each data set", _details(shares), command),
    )


def _measured(shares: Sequence[Share], contexts: str) -> Iterator[Number]:
    for learner, name in NAMES.items():
        own = [share.share for share in shares if (share.learner, share.task.contexts) == (learner, contexts)]
        if own:
            yield measured(name, contexts, WEIGHT, own)


def _details(shares: Sequence[Share]) -> list[dict[str, Cell]]:
    return [
        {
            "contexts": share.task.contexts,
            "learner": NAMES[share.learner],
            "data set": share.task.data_set,
            "weight on low returns": share.share,
            "share of the log": share.logged,
        }
        for share in shares
    ]
