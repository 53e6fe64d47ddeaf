"""The next log, designed: which rung acts in what share of cases, and after how many of them a bolder rung is verified.

Everything comes from the weights of the log at hand, the pilot. Where a rung with weights v acts in a share s of cases,
and the others go on as before, a case of the next log has the density m = 1 − s + s·v relative to the pilot, and a
bolder rung with weights w has weights w/m there: of N such cases N / E[w²/m] are effective (all means are of the pilot,
with weights of mean 1). What outcomes add to the error of a gain is carried over as the pilot has it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Annotated, Any

import numpy as np
from scipy.special import ndtri

from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.core.readable import about, readable, share_in_words
from poela.core.typed import Count, Positive, Range, refuse_problems, to_plain
from poela.stats.verdict import TrustThresholds
from poela.studies.final_gain import POWER, widening
from poela.studies.selection import Point
from poela.studies.study import Study

SHARES = (0.1, 0.2, 0.5, 1.0)
NOTHING = 1e-9  # of a weight, whose mean is 1
ACTING = ("policy", "promising")  # folders of a study that hold a policy to act by


@dataclass(frozen=True)
class Wish:
    """What the next log may be: its size, the share of cases in which a rung acts, and which rung that is."""

    cases: Positive | None = None
    share: Annotated[float, Range(above=0, most=1)] | None = None
    by: str | None = None

    def __post_init__(self) -> None:
        refuse_problems(self)


@dataclass(frozen=True)
class Cases:
    """So many cases of the next log until a rung has enough effective ones, and until it is shown to be better."""

    share: float  # of cases in which the rung that logs acts; 0: none
    ess: float  # effective cases in a hundred
    verified: float | None  # None: no number does, since the rung does what nobody does there
    shown: float | None  # than the rung that logs, with power 80%; None: no number does


@dataclass(frozen=True)
class Target:
    """A rung bolder than the one that logs: its gain as estimated, and what it takes."""

    policy: str
    gain: float  # over what is done now
    ess: float  # in the log at hand
    alone: Cases  # by what is done now alone
    shares: tuple[Cases, ...]


@dataclass(frozen=True)
class Logging:
    """A rung that may log: what acting by it is worth for each case, and which folder of the study holds it."""

    policy: str
    folder: str
    gain: float
    least: float | None
    targets: tuple[Target, ...]  # the mildest first


@dataclass(frozen=True)
class NextLog:
    """What the next log should be, and what it will tell."""

    at_hand: Count
    cases: float  # that the next log shall have
    confidence: float  # of the next round
    enough: float  # effective cases that an estimate needs
    logging: tuple[Logging, ...]
    chosen: Logging | None
    target: Target | None
    by_share: Cases | None  # of the target, at the share that is proposed
    estimated: bool  # whether weights rest on estimates
    pooled: bool = False  # whether several logging policies made the log at hand

    def __str__(self) -> str:
        if self.chosen is None:
            return (
                "No policy is ready to act: none is recommended or worth a trial. Log as before (about as many "
                "cases again, with the propensities of all actions), and learn again."
            )
        if self.target is None or self.by_share is None:
            return (
                f"No policy bolder than {self.chosen.policy} can be planned for: those with a larger estimated gain "
                "can be verified already, or this log has too few effective cases to predict their weights. Act by "
                f"{self.chosen.policy} ({self._worth(1.0)}), and learn again from its log."
            )
        share, needed, alone = self.by_share.share, self.by_share.verified or 0.0, self.target.alone.verified
        others = "" if share == 1 else ", the others as before"
        gain = readable(self.target.gain, signed=True)
        before = "never" if alone is None else f"after about {about(alone)}"
        late = "" if needed <= self.cases else f", which is more than {about(self.cases)}"
        shown = self.by_share.shown
        more = (
            f"Showing that it is better than {self.chosen.policy} takes about {about(shown)} by weights alone "
            f"({POWER:.0%} power, {100 * self.confidence:.4g}%), often fewer with values."
            if shown is not None
            else f"As estimated, it is no better than {self.chosen.policy}."
        )
        return (
            f"Log {share_in_words(share)} of cases by {self.chosen.policy}{others}: {self.target.policy} ({gain} as "
            f"estimated) can be verified after about {about(needed)} cases{late}; logged as before alone, {before}. "
            f"{more} Until then the log itself is expected to bring "
            f"{self._worth(share, needed)}.{self._doubts()}"
        )

    def _worth(self, share: float, cases: float | None = None) -> str:
        assert self.chosen is not None
        times = share * (1.0 if cases is None else cases)
        least = "" if self.chosen.least is None else f", at least {readable(times * self.chosen.least, signed=True)}"
        what = "a case" if cases is None else f"in {about(cases)} cases"
        return f"{readable(times * self.chosen.gain, signed=True)} {what}{least}"

    def _doubts(self) -> str:
        mix = " Cases logged as before are assumed to be like those of all logging policies here together."
        doubt = " Weights rest on estimated propensities here, so a gain must survive Γ as well: log propensities."
        return f"{mix if self.pooled else ''}{doubt if self.estimated else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**to_plain(self), "sentence": str(self)}


def plan_next(
    study: Study | str | PathLike[str], *, cases: float | None = None, share: float | None = None, by: str | None = None
) -> NextLog:
    """The next log after a study: which rung acts, in what share of cases, until a bolder one can be verified.

    `cases` is how many the next log shall have (as many as this one), `share` and `by` settle the share of cases in
    which a rung acts (10%, 20%, 50% or all) and which one that is (recommended, or worth a trial). The boldest rung by
    its estimated gain is aimed at that can be verified by then, at the smallest share.

    >>> import poela
    >>> logs = poela.simulate("tumor", episodes=300)
    >>> study = poela.learn(logs, learners=["fittedq"], backend="inline")
    >>> plan = plan_next(study, cases=300)
    >>> plan.target.gain > plan.chosen.gain > 0, plan.by_share.verified < plan.target.alone.verified
    (True, True)
    """
    opened = study if isinstance(study, Study) else Study.open(str(study))
    wish = Wish(cases, share, by)
    pilot = Pilot(opened)
    n = opened.record.data.validation_episodes
    logging = tuple(
        Logging(opened.name_of(point), folder, _gain(point), _least(point), pilot.targets(point, wish.share))
        for folder, point in pilot.acting().items()
    )
    if by is not None:
        logging = tuple(one for one in logging if by in (one.policy, one.folder))
        if not logging:
            raise InputError(f"{by} is not a policy that may act: {pilot.choices()}")
    size = float(n) if wish.cases is None else float(wish.cases)
    chosen, target, found = _best(logging, size)
    doubted, rounds = opened.record.data.doubted, opened.record.rounds
    pooled = rounds is not None and len({log.logged_by for log in rounds.logs if log.judges}) > 1
    return NextLog(n, size, pilot.confidence, pilot.enough, logging, chosen, target, found, doubted, pooled)


def _best(logging: Sequence[Logging], cases: float) -> tuple[Logging | None, Target | None, Cases | None]:
    """The largest gain that can be verified by then, at the smallest share; else what takes fewest cases."""
    every = [(one, target, found) for one in logging for target in one.targets for found in target.shares]
    ways = [(*way, way[2].verified) for way in every if way[2].verified is not None]
    in_time = [way for way in ways if way[3] <= cases]
    if in_time:  # the recommended rung before one that is worth a trial
        return max(in_time, key=lambda way: (way[1].gain, way[0].folder == ACTING[0], -way[2].share))[:3]
    if ways:
        return min(ways, key=lambda way: way[3])[:3]
    return (logging[0] if logging else None), None, None


class Pilot:
    """A study's weights on the episodes that judged it."""

    def __init__(self, study: Study) -> None:
        if study.settings.selection.by != "gain":
            raise InputError(
                f"{study.directory} chose by {study.settings.selection.by}: the next log is planned for gains"
            )
        self._study, self._weights = study, dict[tuple[str, int], FloatArray]()
        rounds, selection = study.record.rounds, study.settings.selection
        self.confidence = selection.confidence if rounds is None else 1 - rounds.error / rounds.declared
        self.enough = max(TrustThresholds().ess[0], selection.min_ess if selection.min_ess >= 1 else 0.0)
        self._wider = widening(study.points, estimated=study.record.data.estimated)

    def acting(self) -> dict[str, Point]:
        """The rungs that may act, by the folder that holds them."""
        if self._study.result is None:
            self._study.choice  # noqa: B018  says that there is no result
        assert self._study.result is not None
        places = zip(ACTING, (self._study.result.chosen, self._study.result.promising), strict=True)
        known = {folder: self._study.points[place] for folder, place in places if place is not None}
        return {folder: point for folder, point in known.items() if _told(point)}

    def choices(self) -> str:
        """What may act, in words."""
        names = [f"{folder} ({self._study.name_of(point)})" for folder, point in self.acting().items()]
        return f"choose from {', '.join(names)}" if names else "none is recommended or worth a trial"

    def targets(self, acting: Point, share: float | None) -> tuple[Target, ...]:
        """The bolder rungs that are not verified yet and that the log at hand tells enough of, the mildest first."""
        least = TrustThresholds().ess[1]
        rungs = [
            point
            for point in self._study.points
            if _told(point)
            and _gain(point) > _gain(acting)
            and (point.metrics["ess"] or 0.0) >= least
            and point.metrics.get("shown") is None  # else it is verified already
        ]
        rungs.sort(key=lambda point: (-(point.metrics["ess"] or 0.0), -_gain(point)))
        best = [point for place, point in enumerate(rungs) if _gain(point) > max(map(_gain, rungs[:place]), default=0)]
        shares = SHARES if share is None else (share,)
        if self._study.policy_of(acting).real_valued:
            shares = (1.0,)  # logs of several logging policies cannot be pooled
        return tuple(self._target(point, acting, shares) for point in best)

    def _target(self, point: Point, acting: Point, shares: Sequence[float]) -> Target:
        now, *others = (self._cases(point, acting, share) for share in (0.0, *shares))
        return Target(self._study.name_of(point), _gain(point), point.metrics["ess"] or 0.0, now, tuple(others))

    def _cases(self, point: Point, acting: Point, share: float) -> Cases:
        n = self._study.record.data.validation_episodes
        aim, old = self._of(point), self._of(acting)
        mixture = 1 - share + share * old
        per_case = effective_in_mixture(aim, mixture) * self._by_clusters(point, n)
        more = _gain(point) - _gain(acting)
        error = error_in_mixture(aim, old, mixture, (point.metrics["own_error"] or 0.0) * np.sqrt(n))
        reach = float(self._wider * ndtri(self.confidence) + ndtri(POWER)) * error
        verified = self.enough / per_case if per_case else None
        shown = max((reach / more) ** 2, verified) if more > 0 and verified is not None else None
        return Cases(share, 100 * per_case, verified, shown)

    def _of(self, point: Point) -> FloatArray:
        """The weights [n] of a point, of mean 1."""
        key = (point.path_id, point.number)
        if key not in self._weights:
            store, folds = self._study.store, range(self._study.n_folds)
            logs = [store.held_out(f"{point.path_id}-{fold}").log_weights[point.number] for fold in folds]
            weights = np.exp(np.minimum(np.concatenate(logs), np.log(self._study.settings.scoring.truncation)))
            self._weights[key] = weights / weights.mean()
        return self._weights[key]

    def _by_clusters(self, point: Point, n: int) -> float:
        """By what factor episodes of a cluster count less than they would apart from each other."""
        return (point.metrics["ess"] or 0.0) / (n * effective_in_mixture(self._of(point), np.ones(n)))


def effective_in_mixture(weights: FloatArray, mixture: FloatArray) -> float:
    """The effective share of cases of a mixture, whose density relative to the pilot is `mixture`.

    Nothing is left where the mixture never does what some of the weight is for.

    >>> effective_in_mixture(np.array([0.0, 2.0]), np.ones(2)), effective_in_mixture(*[np.array([0.5, 1.5])] * 2)
    (0.5, 1.0)
    >>> effective_in_mixture(np.ones(2), np.array([0.0, 2.0]))
    0.0
    """
    there = weights > NOTHING
    if (mixture[there] <= NOTHING).any():
        return 0.0
    squares = float((np.square(weights[there]) / mixture[there]).sum()) / len(weights)
    return float(weights.mean() ** 2 / (squares * mixture.mean()))


def error_in_mixture(aim: FloatArray, old: FloatArray, mixture: FloatArray, error: float) -> float:
    """The error of a gain over the old rung for one case of a mixture; `error` is that over the pilot's own practice.

    Outcomes are taken to be as spread where the weights of both rungs differ as where the new one's differ from 1.

    >>> aim, now = np.array([0.5, 1.5]), np.ones(2)
    >>> error_in_mixture(aim, now, now, 3.0)
    3.0
    """
    from_now = float(np.square(aim - 1).mean())
    if not from_now:
        return 0.0
    apart, there = np.square(aim - old), mixture > NOTHING
    return float(error * np.sqrt((apart[there] / mixture[there]).sum() / len(aim) * mixture.mean() / from_now))


def _told(point: Point) -> bool:
    """Whether the study says of a point what planning needs."""
    return all(point.metrics.get(name) is not None for name in ("gain", "ess", "own_error"))


def _gain(point: Point) -> float:
    return point.metrics["gain"] or 0.0


def _least(point: Point) -> float | None:
    """What acting by a point is at least worth: shown for all together, or else by its own bound."""
    shown = point.metrics.get("shown")
    return shown if shown is not None and shown > 0 else point.metrics.get("own")
