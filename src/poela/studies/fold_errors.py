"""The error that the folds of a study share: each of them teaches the policies that the others judge.

The estimates of two folds vary together, since each fold's noise is in what the other one judges, and where there is
little to gain that is all there is: the error of pooled folds, taken as independent, is then too small by up to √2 (the
"exceptional law" of Luedtke & van der Laan 2016). What a fold's noise has done to the policy that another one judges is
seen by leaving out both.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np

from poela.core.arrays import FloatArray
from poela.evaluation.evidence import Evidence
from poela.studies.fold_data import FoldData
from poela.studies.records import FoldsError, Task
from poela.studies.splits import Splits
from poela.studies.study import Study

Pair = tuple[int, int]
Fit = Callable[[Sequence[Task], Mapping[str, FoldData]], None]  # carries runs out, as far as time allows
LEAST = 3  # folds, so that something is left to learn from without two of them


def shared_variance(
    log_weights: FloatArray, returns: FloatArray, sizes: Sequence[int], left_out: Mapping[Pair, FloatArray]
) -> float:
    """What folds add to the squared error of a self-normalised value by teaching each other: 2 Σ max(D_jk·D_kj, 0).

    D_jk is what fold j's part of the pooled estimate (log weights [n], fold by fold) loses if fold k does not teach:
    `left_out` has the log weights [n_j + n_k] of the policy learned without either. E[D_jk·D_kj] is the covariance of
    both parts; what the folds truly teach only adds to it. Products below zero are chance.

    >>> returns, weights = np.array([0.0, 2.0, 0.0, 2.0]), np.array([1.0, 2.0, 1.0, 2.0])
    >>> round(shared_variance(np.log(weights), returns, (2, 2), {(0, 1): np.zeros(4)}), 9)  # D = (2/3) / 6 in both
    0.024691358
    """
    weights = np.exp(log_weights)
    total = weights.sum()
    scores = (returns - weights @ returns / total) / total
    parts = [slice(*ends) for ends in pairwise(np.cumsum([0, *sizes]).tolist())]
    shared = 0.0
    for (first, second), without in left_out.items():
        others = np.split(np.exp(without), [sizes[first]])
        d_first, d_second = (
            float((weights[parts[fold]] - other) @ scores[parts[fold]])
            for fold, other in zip((first, second), others, strict=True)
        )
        shared += 2 * max(d_first * d_second, 0.0)
    return shared


class LeftTwoOut:
    """The runs of a study that leave two folds out, carried out when they are asked for.

    They are kept beside the others: the number of a fold in their tasks stands for a pair of folds.
    """

    def __init__(self, study: Study, splits: Splits, fit: Fit) -> None:
        self._study, self._splits, self._fit = study, splits, fit
        folds = len(splits.folds)
        self._pairs = dict(enumerate(combinations(range(folds), 2), start=folds)) if folds >= LEAST else {}
        self._finished: dict[str, tuple[str, ...]] = {}

    def shared(self, path_id: str, points: Sequence[tuple[int, Evidence]]) -> list[float | None]:
        """The shared variance of points of a path, by their numbers; None where some policy could not be learned."""
        if not self._pairs or not self._carried_out(path_id):
            return [None] * len(points)
        store, truncation = self._study.store, np.log(self._study.settings.scoring.truncation)
        weights = {pair: store.held_out(f"{path_id}-{number}").log_weights for number, pair in self._pairs.items()}
        sizes = [part.n_episodes for part in self._splits.held_out]
        return [
            shared_variance(
                evidence.used,
                evidence.returns,
                sizes,
                {pair: np.minimum(own[number], truncation) for pair, own in weights.items()},
            )
            if all(number < len(own) for own in weights.values())
            else None
            for number, evidence in points
        ]

    def _carried_out(self, path_id: str) -> bool:
        """Whether all pairs of folds have a path, after carrying out those that no earlier session has."""
        task = self._study.all_runs[f"{path_id}-0"].task
        tasks = {number: replace(task, fold=number) for number in self._pairs}
        known = self._study.store.finished_runs()
        left = [number for number, task in tasks.items() if task.run_id not in known]
        if left:
            data = {str(number): self._splits.pair_data(*self._pairs[number], self._study.settings) for number in left}
            self._fit([tasks[number] for number in left], data)
            known = self._study.store.finished_runs()
        ids = tuple(task.run_id for task in tasks.values())
        if all(run_id in known and known[run_id].checkpoints for run_id in ids):
            self._finished[path_id] = ids
        return path_id in self._finished

    @property
    def runs(self) -> tuple[str, ...]:
        """The runs that were made use of."""
        return tuple(run_id for ids in self._finished.values() for run_id in ids)

    def method(self, path_id: str | None) -> FoldsError:
        """How the bound of a path (None: any) allows for what folds share."""
        known = bool(self._pairs) if path_id is None else path_id in self._finished
        return "leave-two-out" if known else "doubled"
