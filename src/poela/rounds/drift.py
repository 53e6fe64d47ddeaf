"""Whether what a policy was judged on still holds: who comes, what is drawn, what is followed, what comes of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from poela.core.arrays import FloatArray, IntArray
from poela.core.readable import readable, share_in_words
from poela.data.trajectories import Trajectories
from poela.rounds.compared import STRETCH, by_last, seen_at, share_of_stretch, unit_means
from poela.rounds.drawn import Stakes, stakes
from poela.rounds.looks import sequence_boundary

REFERENCE = 100  # the first units, which later ones are compared with where no others are given
FEWEST = 50  # units after them, before anything is said
ERROR = 0.01  # of each check, over all looks
RIDGE = 1.0
SAME = 1e-3  # of a probability
ROUNDING = 1e-9  # of a mean
MOST_STARTS = 50  # units since which means are taken


@dataclass(frozen=True)
class Drift:
    """One check: what was compared, whether it has moved beyond its error level, and the words for it."""

    name: str  # contexts, drawn, adherence, outcome or policy
    drifted: bool
    words: str
    error: float = ERROR
    cases: int = 0
    since: int = 0  # after how many cases what has drifted began; 0: from the first one on
    path: tuple[tuple[int, float], ...] = ()  # after so many cases: how much of the way to an alarm


@dataclass(frozen=True, eq=False)
class _Known:
    """The mean of something in earlier units, and its standard error [C]."""

    mean: FloatArray
    error: FloatArray
    units: int


Against = Callable[[int], tuple[FloatArray, _Known]]  # units from this one on, and what is known of those before it


@dataclass(frozen=True)
class _Moved:
    """The mean that is furthest off, from which unit on, and how much of the way to an alarm it is at times."""

    place: int
    since: int  # 0: the first one that is looked at
    old: float
    new: float
    path: tuple[tuple[int, float], ...]

    @property
    def drifted(self) -> bool:
        return self.path[-1][1] > 1

    @property
    def when(self) -> str:
        """Since when, in words."""
        return f" since about case {self.since + 1:,}" if self.since else ""


def drifts(
    logs: Trajectories,
    doing: FloatArray | None,
    before: Trajectories | None,
    discount: float,
    horizon: int,
    weights: FloatArray | None = None,
) -> tuple[Drift, ...]:
    """All checks on logs in the order in which episodes end; `doing` [N, A] is what the policy does along them.

    Where actions are real numbers (None), whether they were drawn by the policy is not looked at.

    `weights` are those of the policy in the episodes before: what it would have got there is what its outcomes are
    compared with. Without them outcomes are compared with those of the first cases, which it decided, too.

    Means are over independent units (clusters, where the logs have them). Each check looks at all units, and at those
    since each hundredth one, so that what changes late is not hidden by what came before.
    """
    checks = [] if doing is None else [_policy(logs, doing), _drawn(logs, doing)]
    checks.append(_contexts(logs, before, horizon))
    if logs.recommended is not None:
        checks.append(_adherence(logs, horizon))
    checks.append(_outcome(logs, None if weights is None else before, discount, horizon, weights))
    return tuple(check for check in checks if check is not None)


def _policy(logs: Trajectories, doing: FloatArray) -> Drift | None:
    """Whether the propensities in the logs are those of the policy; nothing is left to chance here."""
    if logs.propensities is None or logs.estimated:
        return None
    known = logs.all_propensities
    if known is None:
        known, doing = logs.logged_propensities[:, None], np.take_along_axis(doing, logs.actions[:, None], axis=1)
    other = float((np.abs(known - doing) > SAME).any(axis=1).mean())
    words = (
        f"{share_in_words(other)} of decisions were drawn by other probabilities than this policy's: another policy, "
        "or other contexts, made these logs"
        if other
        else "all decisions were drawn by this policy's own probabilities"
    )
    return Drift("policy", other > 0, words, 0.0, logs.n_episodes)


def _drawn(logs: Trajectories, doing: FloatArray) -> Drift:
    """Whether the actions that were said can have been drawn by the policy."""
    said = logs.actions if logs.recommended is None else logs.recommended
    never = int((doing[np.arange(len(said)), said] == 0).sum())
    if never:
        decisions = "1 decision" if never == 1 else f"{never:,} decisions"
        words = f"{decisions} of {len(said):,} took actions that this policy never gives there: another one decided"
        return Drift("drawn", True, words, 0.0, logs.n_units)
    found = stakes(logs, said, doing)
    needed = -float(np.log(ERROR))
    path = tuple((units, max(won, 0.0) / needed) for units, won in found.path)
    if found.won <= needed and logs.n_units < FEWEST:
        return _too_few("drawn", logs)
    words = "actions were drawn as their probabilities say"
    if found.won > needed:
        words = f"{_drawn_words(logs, said, doing, found)}: actions are not drawn as they should be"
    return Drift("drawn", found.won > needed, words, cases=logs.n_units, since=found.since, path=path)


def _drawn_words(logs: Trajectories, said: IntArray, doing: FloatArray, found: Stakes) -> str:
    """What is drawn too often or too rarely, in the cases since it began."""
    bet, place = found.best, by_last(logs.units)[logs.episode_of_step]
    there = place >= found.since
    when = f" since about case {found.since + 1:,}" if found.since else ""
    if bet.action is None:
        often = "more often" if bet.tilt > 0 else "less often"
        return f"actions that this policy rarely gives were taken {often} than their probabilities say{when}"
    name = logs.action_names[bet.action]
    if bet.feature is not None:
        often = "more often" if bet.tilt > 0 else "less often"
        where = f"where {logs.feature_names[bet.feature]} is high (or the other way where it is low)"
        return f"{name} was given {often} than its probabilities say {where}{when}"
    taken, meant = float((said == bet.action)[there].mean()), float(doing[there, bet.action].mean())
    return (
        f"{name} was given in {share_in_words(taken)} of decisions where its probabilities add up to "
        f"{share_in_words(meant)}{when}"
    )


def _contexts(logs: Trajectories, before: Trajectories | None, horizon: int) -> Drift:
    values, given = _first_contexts(logs), None if before is None else _first_contexts(before)
    first = REFERENCE if given is None else 0
    moved = _furthest(_means(values, given), first, len(values), horizon)
    if moved is None:
        return _too_few("contexts", logs)
    than = "the first cases" if before is None else "the log that taught it"
    words = f"cases are like {than}"
    if moved.drifted:
        than = "those before" if moved.since else than
        old, new = readable(moved.old), readable(moved.new)
        name = logs.feature_names[moved.place]
        words = f"cases are unlike {than}{moved.when}: the mean of {name} went from {old} to {new}"
    return _checked("contexts", moved, words, len(values) - first)


def _first_contexts(logs: Trajectories) -> FloatArray:
    return unit_means(np.asarray(logs.initial_contexts, np.float64), logs.units)


def _adherence(logs: Trajectories, horizon: int) -> Drift:
    assert logs.recommended is not None
    followed = np.bincount(logs.episode_of_step, logs.actions == logs.recommended) / logs.lengths
    values = unit_means(followed[:, None], logs.units)
    moved = _furthest(_means(values, None), REFERENCE, len(values), horizon)
    overall = f"{share_in_words(float(logs.adherence or 0.0))} of recommendations are followed"
    if moved is None:
        return _too_few("adherence", logs, overall)
    old, new = share_in_words(moved.old), share_in_words(moved.new)
    first, since = ("before", moved.when) if moved.since else ("at first", " since")
    words = f"{overall}: {old} {first}, {new}{since}" if moved.drifted else f"{overall}, as at first"
    return _checked("adherence", moved, words, len(values) - REFERENCE)


def _outcome(
    logs: Trajectories, before: Trajectories | None, discount: float, horizon: int, weights: FloatArray | None
) -> Drift:
    returns, features = _by_unit(logs, discount)
    first = REFERENCE if before is None else 0

    def against(start: int) -> tuple[FloatArray, _Known]:
        if before is not None and weights is not None and start == 0:
            predicted, known = _weighted(before, discount, weights)
            return (returns - predicted(features))[:, None], known
        predicted, left = _ridge(features[:start], returns[:start])
        return (returns[start:] - predicted(features[start:]))[:, None], _Known(np.zeros(1), np.array([left]), start)

    moved = _furthest(against, first, len(returns), horizon)
    if moved is None:
        return _too_few("outcome", logs)
    than = "of the first cases" if before is None else "of the log that taught it"
    words = f"outcomes in like cases with like actions are those {than}"
    if moved.drifted:
        shift, than = readable(moved.new - moved.old, signed=True), "before" if moved.since else than
        words = (
            f"outcomes differ by {shift} from those {than} in like cases with like actions{moved.when}: what an action "
            "does has changed"
        )
    return _checked("outcome", moved, words, len(returns) - first)


def _weighted(
    before: Trajectories, discount: float, weights: FloatArray
) -> tuple[Callable[[FloatArray], FloatArray], _Known]:
    """A prediction from what was before, and by how much the policy's own outcomes would have missed it there.

    A policy that gives actions to whom they help has other outcomes than a prediction without that knows.
    """
    predicted, left = _ridge(*reversed(_by_unit(before, discount)))
    missed = before.returns(discount) - predicted(_features(before))
    sums = unit_means(np.stack([weights * missed, weights], axis=1), before.units)
    middle, weight = sums.mean(axis=0)
    mean = middle / weight
    influence = (sums[:, 0] - mean * sums[:, 1]) / weight
    error = float(np.hypot(left, influence.std(ddof=1) / np.sqrt(len(sums))))
    return predicted, _Known(np.array([mean]), np.array([error]), len(sums))


def _by_unit(logs: Trajectories, discount: float) -> tuple[FloatArray, FloatArray]:
    """Returns [U], and what they are predicted from [U, C]."""
    return unit_means(logs.returns(discount)[:, None], logs.units)[:, 0], unit_means(_features(logs), logs.units)


def _features(logs: Trajectories) -> FloatArray:
    """The first context of each episode, and how often each action was taken, or the mean of each dose."""
    return np.hstack([np.asarray(logs.initial_contexts, np.float64), logs.action_space.by_episode(logs)])


def _ridge(features: FloatArray, returns: FloatArray) -> tuple[Callable[[FloatArray], FloatArray], float]:
    """A prediction of returns, and the standard error of its mean residual in as many new cases like these."""
    centre, spread = features.mean(axis=0), features.std(axis=0)
    spread[spread == 0] = 1.0
    scaled, mean = (features - centre) / spread, float(returns.mean())
    n, width = scaled.shape
    inverse = np.linalg.inv(scaled.T @ scaled + RIDGE * np.eye(width))
    slopes = inverse @ scaled.T @ (returns - mean)
    residual = returns - mean - scaled @ slopes
    used = 1 + float(np.trace(scaled @ inverse @ scaled.T))
    spare = max(n - used, 1.0)
    error = float(np.sqrt(np.square(residual).sum() / spare / n))
    return (lambda rows: mean + (rows - centre) / spread @ slopes), error


def _means(values: FloatArray, given: FloatArray | None) -> Against:
    """Later values [n, C] against the mean of those before them and of those given."""

    def against(start: int) -> tuple[FloatArray, _Known]:
        block = values[:start] if given is None else np.vstack([given, values[:start]])
        error = block.std(axis=0, ddof=1) / np.sqrt(len(block)) if len(block) > 1 else block[0]
        return values[start:], _Known(block.mean(axis=0), error, len(block))

    return against


def _furthest(against: Against, first: int, n: int, horizon: int) -> _Moved | None:
    """Which mean is furthest off its boundary, now and after fewer units; None while there are too few.

    `against` gives units since one of them, and what is known of those before. The error is split over columns and over
    the units since which means are taken: the first one, or one of the last so many hundreds.
    """
    if n < first + FEWEST:
        return None
    ends = seen_at(n, first + FEWEST)
    ways = np.zeros(len(ends))
    now: _Moved | None = None
    last = (n - first - FEWEST) // STRETCH
    for number in range(last + 1) if last < MOST_STARTS else (0, *range(last - MOST_STARTS + 2, last + 1)):
        start = first + number * STRETCH
        values, known = against(start)
        if not values.shape[1]:
            return None
        sums, squares = (np.cumsum((values - known.mean) ** power, axis=0) for power in (1, 2))
        for place, end in enumerate(ends):
            if (size := int(end) - start) < FEWEST:
                continue
            mean, square = sums[size - 1] / size, squares[size - 1] / size
            variance = (square - mean**2).clip(0) * size / (size - 1)
            earlier = np.maximum(known.error**2, variance / known.units)  # what is rare may have been missing before
            rounding = np.abs(mean) <= ROUNDING * (np.abs(known.mean) + np.sqrt(square))
            with np.errstate(divide="ignore", invalid="ignore"):
                off = np.where(rounding, 0.0, np.abs(mean) / np.sqrt(variance / size + earlier))
            way = off / sequence_boundary(size, ERROR * share_of_stretch(number) / values.shape[1], horizon)
            furthest = int(way.argmax())
            if end == n and (now is None or way[furthest] > ways[place]):
                old = float(known.mean[furthest])
                now = _Moved(furthest, start if number else 0, old, old + float(mean[furthest]), ())
            ways[place] = max(ways[place], way[furthest])
    path = tuple((int(end), float(way)) for end, way in zip(ends, ways, strict=True))
    return None if now is None else replace(now, path=path)


def _checked(name: str, moved: _Moved, words: str, cases: int) -> Drift:
    return Drift(name, moved.drifted, words, cases=cases, since=moved.since, path=moved.path)


def _too_few(name: str, logs: Trajectories, said: str = "") -> Drift:
    units = logs.n_units
    words = f"{units} {'cases' if logs.clusters is None else 'clusters'} are too few to tell yet"
    return Drift(name, False, f"{said}; {words}" if said else words, cases=units)
