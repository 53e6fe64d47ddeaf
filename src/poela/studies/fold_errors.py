"""The error that the folds of a study share: each of them teaches the policies that the others judge.

The estimates of two folds vary together, since each fold's noise is in what the other one judges, and where there is
little to gain that is all there is: the error of pooled folds, taken as independent, is then too small by up to √2 (the
"exceptional law" of Luedtke & van der Laan 2016). What a fold's noise has done to the policy that another one judges is
seen by leaving out both.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

import numpy as np

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.evaluation.evidence import Evidence
from poela.studies.fold_data import FoldData, MadeWhenAsked
from poela.studies.held_out import HeldOut
from poela.studies.records import FoldsError, Task
from poela.studies.splits import Splits
from poela.studies.store import Store

if TYPE_CHECKING:
    from poela.studies.study import Study

Pair = tuple[int, int]
Fit = Callable[[Sequence[Task], Mapping[str, FoldData]], None]  # carries runs out, as far as time allows
LEAST = 3  # folds, so that something is left to learn from without two of them


def shared_variance(added: FloatArray, sizes: Sequence[int], left_out: Mapping[Pair, FloatArray]) -> float:
    """What folds add to the squared error of a pooled estimate by teaching each other: 2 Σ max(D_jk·D_kj, 0).

    D_jk is what fold j's part of the estimate, the sum of what its episodes add ([n], fold by fold), loses if fold k
    does not teach: `left_out` has what the episodes [n_j + n_k] of both folds would add if neither had. E[D_jk·D_kj] is
    the covariance of both parts; what the folds truly teach only adds to it. Products below zero are chance.

    >>> shared_variance(np.array([1.0, 2.0, 0.5, 0.5]), (2, 2), {(0, 1): np.array([1.0, 1.0, 0.0, 0.5])})  # 2·1·0.5
    1.0
    """
    parts = [slice(*ends) for ends in pairwise(np.cumsum([0, *sizes]).tolist())]
    shared = 0.0
    for (first, second), without in left_out.items():
        others = np.split(without, [sizes[first]])
        d_first, d_second = (
            float((added[parts[fold]] - other).sum()) for fold, other in zip((first, second), others, strict=True)
        )
        shared += 2 * max(d_first * d_second, 0.0)
    return shared


def added_by_weights(evidence: Evidence, log_weights: FloatArray, episodes: IntArray) -> FloatArray:
    """What some episodes add to a self-normalised value, around it, if a policy with these weights [m] takes its place.

    >>> from poela.data.trajectories import Trajectories
    >>> from poela.stats.weights import LogWeights
    >>> logs = Trajectories([[0.0]] * 2, [0] * 2, [0.0, 3.0], [0, 1, 2])
    >>> evidence = Evidence(LogWeights(np.log([1.0, 2.0]), logs.offsets), logs)
    >>> added_by_weights(evidence, np.log([1.0, 1.0]), np.array([0, 1])).round(6)  # (0 − 2) / 3 and (3 − 2) / 3
    array([-0.666667,  0.333333])
    """
    weights = np.exp(evidence.used)
    value = weights @ evidence.returns / weights.sum()
    return np.asarray(np.exp(log_weights) * (evidence.returns[episodes] - value) / weights.sum())


def shared_variances(
    evidence: Evidence, sizes: Sequence[int], number: int, runs: Mapping[Pair, HeldOut]
) -> list[float | None]:
    """The shared variance of each way to show the gain of a policy, by its number in runs that leave two folds out.

    None where it is not known. By weights first, then by control variates where there are any. `sizes` are those of the
    folds, whose episodes the evidence has one fold after the other.
    """
    if not runs or any(number >= len(run.log_weights) for run in runs.values()):
        return [None] * (1 if evidence.controlled is None else 2)
    starts = np.cumsum([0, *sizes])
    own = {pair: np.concatenate([np.arange(starts[fold], starts[fold + 1]) for fold in pair]) for pair in runs}
    weights = {pair: np.minimum(run.log_weights[number], np.log(evidence.truncation)) for pair, run in runs.items()}
    everyone = np.arange(starts[-1])
    left_out = {pair: added_by_weights(evidence, weights[pair], own[pair]) for pair in runs}
    shared: list[float | None] = [shared_variance(added_by_weights(evidence, evidence.used, everyone), sizes, left_out)]
    if (controlled := evidence.controlled) is not None:
        others = {pair: run.controls[number] for pair, run in runs.items() if run.controls is not None}
        known = len(others) == len(runs) and all(np.isfinite(rows).all() for rows in others.values())
        left_out = {pair: controlled.added(evidence, weights[pair], others[pair], own[pair]) for pair in others}
        both = np.stack([controlled.first, controlled.second])
        now = controlled.added(evidence, evidence.used, both, everyone)
        shared.append(shared_variance(now, sizes, left_out) if known else None)
    return shared


def shared_within(
    evidence: Evidence, members: BoolArray | None, sizes: Sequence[int], number: int, runs: Mapping[Pair, HeldOut]
) -> list[float | None]:
    """The same within a group of the episodes [n], whose evidence this is; None: all of them."""
    if members is None:
        return shared_variances(evidence, sizes, number, runs)
    starts = np.cumsum([0, *sizes])
    folds = [members[start:end] for start, end in pairwise(starts.tolist())]
    own = {
        (first, second): run.take(np.concatenate([folds[first], folds[second]]))
        for (first, second), run in runs.items()
    }
    return shared_variances(evidence, [int(fold.sum()) for fold in folds], number, own)


def numbered_pairs(folds: int) -> dict[int, Pair]:
    """Pairs of folds by the numbers that stand for them in tasks; none where too little would be left to learn from.

    >>> numbered_pairs(3), numbered_pairs(2)
    ({3: (0, 1), 4: (0, 2), 5: (1, 2)}, {})
    """
    return dict(enumerate(combinations(range(folds), 2), start=folds)) if folds >= LEAST else {}


def stored_pairs(store: Store, path_id: str, folds: int) -> dict[Pair, HeldOut]:
    """The runs of a path that leave two folds out; none where they were not all carried out."""
    known, pairs = store.finished_runs(), numbered_pairs(folds)
    ids = {pair: f"{path_id}-{number}" for number, pair in pairs.items()}
    if not all(run_id in known and known[run_id].checkpoints for run_id in ids.values()):
        return {}
    return {pair: store.held_out(run_id) for pair, run_id in ids.items()}


class LeftTwoOut:
    """The runs of a study that leave two folds out, carried out when they are asked for.

    They are kept beside the others: the number of a fold in their tasks stands for a pair of folds.
    """

    def __init__(self, study: "Study", splits: Splits, fit: Fit) -> None:
        self._study, self._splits, self._fit = study, splits, fit
        self._pairs = numbered_pairs(len(splits.folds))
        self._finished: dict[str, tuple[str, ...]] = {}

    def shared(
        self, path_id: str, points: Sequence[tuple[int, Evidence, BoolArray | None]]
    ) -> list[Sequence[float | None]]:
        """The shared variance of each way to show the gain of points of a path, by their numbers.

        Each has its evidence, and which episodes that is of where it is not of all. None where some policy could not be
        learned. By weights first, then by control variates where there are any.
        """
        ways = [1 if evidence.controlled is None else 2 for _, evidence, _ in points]
        if not self._pairs or not self._carried_out(path_id):
            return [[None] * count for count in ways]
        runs = {pair: self._study.store.held_out(f"{path_id}-{number}") for number, pair in self._pairs.items()}
        sizes = [part.n_episodes for part in self._splits.held_out]
        return [shared_within(evidence, members, sizes, number, runs) for number, evidence, members in points]

    def _carried_out(self, path_id: str) -> bool:
        """Whether all pairs of folds have a path, after carrying out those that no earlier session has."""
        task = self._study.all_runs[f"{path_id}-0"].task
        tasks = {number: replace(task, fold=number) for number in self._pairs}
        known = self._study.store.finished_runs()
        left = [number for number, task in tasks.items() if task.run_id not in known]
        if left:
            made = {str(number): partial(self._pair_data, number) for number in left}
            self._fit([tasks[number] for number in left], MadeWhenAsked(made))
            known = self._study.store.finished_runs()
        ids = tuple(task.run_id for task in tasks.values())
        if all(run_id in known and known[run_id].checkpoints for run_id in ids):
            self._study.store.gather(path_id, ids)
            self._finished[path_id] = ids
        return path_id in self._finished

    def _pair_data(self, number: int) -> FoldData:
        return self._splits.pair_data(*self._pairs[number], self._study.settings)

    @property
    def runs(self) -> tuple[str, ...]:
        """The runs that were made use of."""
        return tuple(run_id for ids in self._finished.values() for run_id in ids)

    def method(self, path_id: str | None) -> FoldsError:
        """How the bound of a path (None: any) allows for what folds share."""
        known = bool(self._pairs) if path_id is None else path_id in self._finished
        return "leave-two-out" if known else "doubled"
