"""From the runs of a study to every point of every path, judged on the held-out episodes of all folds together."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from poela.core.arrays import BoolArray, FloatArray
from poela.core.interruption import safe_point
from poela.evaluation.estimate import Estimate
from poela.evaluation.evidence import Evidence
from poela.evaluation.tails import gains_of
from poela.stats.contributions import standard_error
from poela.stats.diagnostics import OutsideSupport
from poela.stats.weights import effective_share
from poela.studies.guarded import Guarded
from poela.studies.held_out import OUTSIDE, Episodes, HeldOut, finite
from poela.studies.pooled_points import PooledEvidence, PooledPoints, pooled_evidence
from poela.studies.records import RunRecord
from poela.studies.selection import Point
from poela.studies.settings import StudySettings
from poela.studies.shown_gain import Guarding, Judged, Proof, corrected, first_of, judged, lost_to
from poela.studies.store import Store

METRICS = (
    *("sntis", "sntis_error", "ess", "expected_ess", "gain", "gain_low", "controlled", "shown", "folds_factor"),
    *("own", "own_error", "own_lost", "sensitivity", "unconfounded"),
    *("wdr", "wdr_error", "guarded", "guarded_error", "model", "departure", "change", "change_sd", "smoothing"),
    *OUTSIDE,
    "plainness",
)


MOST_ALIKE = 50_000  # episodes by which paths are first compared
Part = tuple[int, Evidence, BoolArray | None]
Shared = Callable[[str, Sequence[Part]], Sequence[Sequence[float | None]]]  # see `LeftTwoOut.shared`


def judged_points(
    store: Store,
    runs: Sequence[RunRecord],
    episodes: Episodes,
    settings: StudySettings,
    folds: int,
    shared: Shared | None = None,
    guards: Sequence[Guarded] = (),
) -> tuple[list[Point], list[Estimate]]:
    """Every point of every path that all folds have finished, and where policies are chosen by gain its estimate.

    `shared` tells the variance that folds share in points of a path; None: there is one split. `guards` are what a
    policy must not do too much of, to be recommended.
    """
    paths: dict[str, list[RunRecord]] = {}
    for run in runs:
        if run.checkpoints and run.task.fold is not None:
            paths.setdefault(run.task.path_id, []).append(run)
    points: list[Point] = []
    shown = PooledPoints(store, episodes, settings)
    for path_id, members in paths.items():
        if len(members) < folds:
            continue
        members.sort(key=lambda run: run.task.fold or 0)
        length = min(len(run.checkpoints) for run in members)
        held_out = [store.held_out(run.task.run_id) for run in members]
        by_gain = settings.selection.by == "gain"
        numbers = told_apart(members, held_out, length) if by_gain else range(length)
        for number in numbers:
            metrics = _averaged([run.checkpoints[number].metrics for run in members], held_out)
            stranded = metrics.pop("stranded", None)
            shown.add([run.task.run_id for run in members], held_out, number, stranded, _outside(metrics))
            points.append(Point(path_id, number, number == numbers[-1], metrics))
    if settings.selection.by == "gain":
        return _by_gain(points, shown, episodes, settings, shared, guards)
    return _by_estimate(points, shown, episodes, settings), []


def told_apart(members: Sequence[RunRecord], held_out: Sequence[HeldOut], length: int) -> list[int]:
    """The numbers of a path's policies; of plain ones neither those that change nothing nor those that equal another.

    Rules and bans of several strengths often come to the same where episodes are single decisions: the plainest stays.
    """
    kept: list[int] = []
    for number in range(length):
        own = [run.checkpoints[number].metrics for run in members]
        if any(one.get("plainness") is None for one in own):
            kept.append(number)
            continue
        if all(one.get("departure") == 0 for one in own):
            continue
        before = next((other for other in kept if _alike(members, held_out, other, number)), None)
        if before is None:
            kept.append(number)
        elif _said(own) < _said([run.checkpoints[before].metrics for run in members]):
            kept[kept.index(before)] = number
    return sorted(kept) or [0]


def _said(metrics: Sequence[Mapping[str, float | None]]) -> float:
    known = [one.get("plainness") for one in metrics]
    return max((np.inf if one is None else one for one in known), default=np.inf)


def _alike(members: Sequence[RunRecord], held_out: Sequence[HeldOut], first: int, second: int) -> bool:
    """Whether two policies have the same weights and metrics in every fold, but for how plain they are."""
    for run in members:
        one, other = (dict(run.checkpoints[number].metrics) | {"plainness": None} for number in (first, second))
        if one.keys() != other.keys() or not all(_equal(one[name], other[name]) for name in one):
            return False
    return all(np.array_equal(fold.log_weights[first], fold.log_weights[second]) for fold in held_out)


def _equal(one: float | None, other: float | None) -> bool:
    return one == other if one is None or other is None else bool(np.isclose(one, other, rtol=1e-9, atol=1e-12))


def evidence_of(store: Store, point: Point, episodes: Episodes, settings: StudySettings, folds: int) -> PooledEvidence:
    """The pooled evidence on one point."""
    ((_, shown),) = evidence_on(store, [point], episodes, settings, folds)
    return shown


def evidence_on(
    store: Store, points: Sequence[Point], episodes: Episodes, settings: StudySettings, folds: int
) -> Iterator[tuple[Point, PooledEvidence]]:
    """The pooled evidence on each of some points, path by path, whose files are read once."""
    for path_id in dict.fromkeys(point.path_id for point in points):
        held_out = [store.held_out(f"{path_id}-{fold}") for fold in range(folds)]
        for point in points:
            if point.path_id == path_id:
                outside = _outside(point.metrics)
                yield point, pooled_evidence(held_out, point.number, None, outside, episodes, settings)


def _outside(metrics: Mapping[str, float | None]) -> OutsideSupport | None:
    """How much of a point lies outside support; None where that was not looked at."""
    shares = [value for name in OUTSIDE if (value := metrics.get(name)) is not None]
    return OutsideSupport(*shares) if len(shares) == len(OUTSIDE) else None


def _averaged(metrics: Sequence[Mapping[str, float | None]], held_out: Sequence[HeldOut]) -> dict[str, float | None]:
    """The metrics of all folds together: means by the number of episodes, errors as those of independent parts."""
    sizes = np.array([fold.log_weights.shape[1] for fold in held_out])
    shares = sizes / sizes.sum()
    averages: dict[str, float | None] = {}
    for name in metrics[0]:
        values = [each.get(name) for each in metrics]
        if any(value is None for value in values):
            averages[name] = None
            continue
        numbers = np.array(values, np.float64)
        if name.endswith("_error"):
            averages[name] = float(np.sqrt(np.square(shares * numbers).sum()))
        else:  # what is the same in all folds is not rounded
            averages[name] = float(numbers[0] if (numbers == numbers[0]).all() else shares @ numbers)
    return averages


def _by_estimate(
    points: Sequence[Point], shown: Sequence[PooledEvidence], episodes: Episodes, settings: StudySettings
) -> list[Point]:
    evaluator = episodes.evaluator(settings.scoring)
    judged_points = []
    for point, (evidence, _) in zip(points, shown, strict=True):
        safe_point()
        value, error = evaluator.value(evidence, "sntis")
        ess = effective_share(evidence.used, episodes.logs.clusters) * episodes.logs.n_units
        metrics = {"sntis": finite(value), "sntis_error": finite(error), "ess": ess}
        judged_points.append(_with(point, metrics))
    return judged_points


def _by_gain(
    points: Sequence[Point],
    shown: Sequence[PooledEvidence],
    episodes: Episodes,
    settings: StudySettings,
    shared: Shared | None,
    guards: Sequence[Guarded],
) -> tuple[list[Point], list[Estimate]]:
    gamma = allowed_factor(episodes, settings)
    ahead = ahead_of(points, settings, episodes)
    judged_ones = _judged(shown, episodes, settings, settings.selection.confidence, guards, ahead)
    if shared is not None:
        own = [one.episodes(episodes) for one in guards]

        def shared_by(path_id: str, places: Sequence[int]) -> list[list[float | None]]:
            """Of each place, in each proof of its gain and then in each guarded outcome."""
            parts: list[Part] = []
            for place in places:
                number, evidence = points[place].number, shown[place][0]
                parts.append((number, evidence, None))
                pairs = zip(guards, own, strict=True)
                parts += [(number, one.evidence(evidence, logs), one.members) for one, logs in pairs]
            found, each = list(shared(path_id, parts)), 1 + len(guards)
            return [[one for part in found[at : at + each] for one in part] for at in range(0, len(found), each)]

        judged_ones = corrected(judged_ones, _paths_by_likeness(points, shown), shared_by)
    rows = []
    for point, one, (evidence, _) in zip(points, judged_ones, shown, strict=True):
        estimate, gain, best = one.estimate, one.estimate.gain, one.best
        metrics = {
            "sntis": finite(estimate.value),
            "sntis_error": finite(estimate.standard_error),
            "ess": estimate.ess,
            "expected_ess": finite(estimate.diagnostics.expected_ess),
            "gain": None if gain is None else finite(gain.value),
            "gain_low": None if gain is None else gain.low,
            "shown": one.shown,
            **_by_control(best),
            "folds_factor": None if best is None else best.factor,
            "unconfounded": None if best is None or gamma <= 1 else finite(best.at_face(folds=shared is not None)),
            "own_error": finite(standard_error(gains_of(evidence)[0])),
            "own_lost": finite(lost_to(gamma, evidence)),
            "sensitivity": None if gain is None else gain.sensitivity,
            **guard_metrics_of(one.guards),
        }
        rows.append(_with(point, metrics, _verdict(estimate, episodes)))
    return rows, [one.estimate for one in judged_ones]


def _by_control(best: Proof | None) -> dict[str, float | None]:
    """The gain as control variates have it, where they show most of it."""
    if best is None or not best.controlled:
        return {}
    return {"gain": finite(best.value), "gain_low": best.low, "controlled": finite(best.value)}


def guard_metrics_of(guards: Sequence[Guarding]) -> dict[str, float | None]:
    """What a point does to each guarded outcome, in its own unit and direction: estimate, bound, state."""
    metrics: dict[str, float | None] = {}
    for number, one in enumerate(guards, start=1):
        guard = one.guarded.record.guard
        metrics |= {
            f"guard_{number}": finite(guard.own(one.value) or 0.0),
            f"guard_{number}_bound": guard.own(one.bound),
        }
        metrics[f"guard_{number}_state"] = one.state
    return metrics


def _judged(
    shown: Sequence[PooledEvidence],
    episodes: Episodes,
    settings: StudySettings,
    confidence: float,
    guards: Sequence[Guarded] = (),
    ahead: Sequence[int] = (),
) -> list[Judged]:
    least = settings.selection.least_ess(episodes.logs.n_units)
    gamma = allowed_factor(episodes, settings)
    return judged(episodes, shown, settings.scoring, confidence, gamma, least, guards, ahead)


def ahead_of(points: Sequence[Point], settings: StudySettings, episodes: Episodes) -> list[int]:
    """The points, by their numbers, of which one is judged ahead of all others: those of the first of the candidates.

    Where episodes are single decisions; over several steps no share of effective episodes was found to suit.
    """
    if not episodes.single:
        return []
    for candidate in settings.candidates:
        prefix = f"{candidate.learner}-{candidate.key}-"
        if found := [number for number, point in enumerate(points) if point.path_id.startswith(prefix)]:
            return found
    return []


def first_judged(
    points: Sequence[Point], able: Sequence[Point], settings: StudySettings, episodes: Episodes
) -> int | None:
    """The number, among those that are able to show a gain, of the point that was judged ahead of all; None: none was.

    A candidate of which nothing is able gives way to none: as where all `points` were judged.
    """
    paths = {points[number].path_id for number in ahead_of(points, settings, episodes)}
    ahead = [number for number, point in enumerate(able) if point.path_id in paths]
    return first_of(ahead, [point.metrics.get("ess") or 0.0 for point in able], episodes)


def allowed_factor(episodes: Episodes, settings: StudySettings) -> float:
    """Γ: by what factor weights may be wrong without undoing a gain."""
    return settings.selection.sensitivity if episodes.doubted else 1.0


def _verdict(estimate: Estimate, episodes: Episodes) -> str:
    """Judged as if propensities were known, since what is shown survives Γ; the word alone may not say so."""
    return "caution" if episodes.doubted and estimate.verdict == "trust" else estimate.verdict


def judged_alone(
    metrics: Sequence[Mapping[str, float | None]],
    held_out: Sequence[HeldOut],
    episodes: Episodes,
    settings: StudySettings,
    confidence: float,
    guards: Sequence[Guarded] = (),
) -> tuple[Judged, str]:
    """One policy of each fold, judged beside no others, and the verdict; folds add to its error as much as they can."""
    known = _averaged(metrics, held_out)
    evidence = pooled_evidence(held_out, 0, known.get("stranded"), _outside(known), episodes, settings)
    (one,) = _judged([evidence], episodes, settings, confidence, guards)
    one = one if len(held_out) == 1 else one.knowing(one.unknown)
    return one, _verdict(one.estimate, episodes)


def _paths_by_likeness(points: Sequence[Point], shown: Sequence[PooledEvidence]) -> list[str]:
    """The path of each point, or an earlier one of the same policies: in one step, memory and backups do not differ."""
    places: dict[str, list[int]] = {}
    weights: dict[str, list[FloatArray]] = {}  # of the first episodes, which tell most paths apart
    for place, (point, (evidence, _)) in enumerate(zip(points, shown, strict=True)):
        places.setdefault(point.path_id, []).append(place)
        weights.setdefault(point.path_id, []).append(np.array(evidence.used[:MOST_ALIKE]))

    def alike(one: str, other: str) -> bool:
        if len(places[one]) != len(places[other]) or not _same(weights[one], weights[other]):
            return False
        pairs = zip(places[one], places[other], strict=True)
        whole = weights[one] and len(weights[one][0]) < MOST_ALIKE
        return bool(whole) or all(_same(shown[first][0].used, shown[second][0].used) for first, second in pairs)

    first: dict[str, str] = {}
    for path_id in places:
        first[path_id] = next((other for other in dict.fromkeys(first.values()) if alike(path_id, other)), path_id)
    return [first[point.path_id] for point in points]


def _same(first: Sequence[FloatArray] | FloatArray, second: Sequence[FloatArray] | FloatArray) -> bool:
    return np.allclose(first, second, rtol=0, atol=1e-9)


def _with(point: Point, metrics: Mapping[str, float | None], verdict: str = "") -> Point:
    every = dict.fromkeys(METRICS) | dict(point.metrics) | dict(metrics)
    return Point(point.path_id, point.number, point.final, every, verdict)
