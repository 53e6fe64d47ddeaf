"""The pooled evidence on every point of a study, of which large logs keep only some in memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from poela.core.arrays import Float32Array
from poela.evaluation.evidence import Evidence
from poela.stats.diagnostics import OutsideSupport
from poela.studies.held_out import Episodes, HeldOut
from poela.studies.settings import StudySettings
from poela.studies.store import Store

PooledEvidence = tuple[Evidence, Float32Array]  # pooled weights, and those of recombined episodes [copies, n]
MOST_KEPT = 10_000_000  # weights of points that are kept, with what belongs to them: 0.6 GB


def pooled_evidence(
    held_out: Sequence[HeldOut],
    number: int,
    stranded: float | None,
    outside: OutsideSupport | None,
    episodes: Episodes,
    settings: StudySettings,
) -> PooledEvidence:
    """The evidence of one point, by its number in the runs of all folds."""
    weights = np.concatenate([fold.log_weights[number] for fold in held_out])
    recombined = np.concatenate([fold.recombined[number] for fold in held_out], axis=1)
    steps = None if stranded is None else round(stranded * len(weights))  # an episode counts as one step here
    evidence = episodes.evidence(weights, settings.scoring, steps, outside)
    folds = [None if fold.controls is None else fold.controls[number] for fold in held_out]
    return episodes.controlled(evidence, folds), recombined


@dataclass(frozen=True)
class _Place:
    """Where the evidence of a point is to be found."""

    run_ids: tuple[str, ...]  # of all folds
    number: int
    stranded: float | None
    outside: OutsideSupport | None


class PooledPoints(Sequence[PooledEvidence]):
    """Evidence by the number of the point, in memory as far as `MOST_KEPT` allows, else made again from files.

    Whoever asks for one point after the other has the files of each path read once.
    """

    def __init__(self, store: Store, episodes: Episodes, settings: StudySettings) -> None:
        self._store, self._episodes, self._settings = store, episodes, settings
        self._places: list[_Place] = []
        self._kept: dict[int, PooledEvidence] = {}
        self._latest: tuple[int, PooledEvidence] | None = None
        self._path: tuple[tuple[str, ...], list[HeldOut]] | None = None

    def add(
        self,
        run_ids: Sequence[str],
        held_out: list[HeldOut],
        number: int,
        stranded: float | None,
        outside: OutsideSupport | None,
    ) -> None:
        """One more point, by its number in these runs, whose held-out weights are at hand."""
        self._places.append(_Place(tuple(run_ids), number, stranded, outside))
        if len(self._places) * self._episodes.logs.n_episodes <= MOST_KEPT:
            own = pooled_evidence(held_out, number, stranded, outside, self._episodes, self._settings)
            self._kept[len(self._places) - 1] = own

    @overload
    def __getitem__(self, number: int) -> PooledEvidence: ...
    @overload
    def __getitem__(self, number: slice) -> list[PooledEvidence]: ...
    def __getitem__(self, number: int | slice) -> PooledEvidence | list[PooledEvidence]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        if number in self._kept:
            return self._kept[number]
        if self._latest is None or self._latest[0] != number:
            self._latest = None
            self._latest = (number, self._made(self._places[number]))
        return self._latest[1]

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[PooledEvidence]:
        return (self[number] for number in range(len(self)))

    def _made(self, place: _Place) -> PooledEvidence:
        if self._path is None or self._path[0] != place.run_ids:
            self._path = None
            self._path = (place.run_ids, [self._store.held_out(run_id) for run_id in place.run_ids])
        rest = place.number, place.stranded, place.outside
        return pooled_evidence(self._path[1], *rest, self._episodes, self._settings)
