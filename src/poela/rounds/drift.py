"""Whether what a policy was judged on still holds: who comes, what is drawn, what is followed, what comes of it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from poela.core.arrays import FloatArray
from poela.core.readable import readable, share_in_words
from poela.data.trajectories import Trajectories
from poela.rounds.sequences import sequence_boundary

REFERENCE = 100  # the first cases, which later ones are compared with where no others are given
FEWEST = 50  # cases after them, before anything is said
ERROR = 0.01  # of each check, over all looks
RIDGE = 1.0
SAME = 1e-3  # of a probability


@dataclass(frozen=True)
class Drift:
    """One check: what was compared, whether it has moved beyond its error level, and the words for it."""

    name: str  # contexts, drawn, adherence, outcome or policy
    drifted: bool
    words: str
    error: float = ERROR
    cases: int = 0


@dataclass(frozen=True, eq=False)
class _Known:
    """The mean of something in reference cases, and its standard error [C]."""

    mean: FloatArray
    error: FloatArray


def drifts(
    logs: Trajectories, doing: FloatArray, before: Trajectories | None, discount: float, horizon: int
) -> tuple[Drift, ...]:
    """All checks on logs in the order in which episodes end; `doing` [N, A] is what the policy does along them."""
    checks = [_policy(logs, doing), _drawn(logs, doing, horizon), _contexts(logs, before, horizon)]
    if logs.recommended is not None:
        checks.append(_adherence(logs, horizon))
    checks.append(_outcome(logs, before, discount, horizon))
    return tuple(check for check in checks if check is not None)


def _policy(logs: Trajectories, doing: FloatArray) -> Drift | None:
    """Whether the propensities in the logs are those of the policy; nothing is left to chance here."""
    known = logs.all_propensities
    if known is None or logs.estimated:
        return None
    other = float((np.abs(known - doing) > SAME).any(axis=1).mean())
    words = (
        f"{share_in_words(other)} of decisions were drawn by other probabilities than this policy's: another policy, "
        "or other contexts, made these logs"
        if other
        else "all decisions were drawn by this policy's own probabilities"
    )
    return Drift("policy", other > 0, words, 0.0, logs.n_episodes)


def _drawn(logs: Trajectories, doing: FloatArray, horizon: int) -> Drift | None:
    said = logs.actions if logs.recommended is None else logs.recommended
    drawn = np.eye(logs.n_actions)[said] - doing
    sums = [np.bincount(logs.episode_of_step, column) for column in drawn.T]
    values = np.asarray(np.stack(sums, axis=1), np.float64)
    nothing = np.zeros(logs.n_actions)
    place, moved = _moved(values, _Known(nothing, nothing), horizon)
    if place is None:
        return _too_few("drawn", logs.n_episodes)
    name = logs.action_names[place]
    often, meant = float((said == place).mean()), float(doing[:, place].mean())
    words = (
        f"{name} was given in {share_in_words(often)} of decisions where its probabilities add up to "
        f"{share_in_words(meant)}: actions are not drawn as they should be"
        if moved
        else "actions were drawn as often as their probabilities say"
    )
    return Drift("drawn", moved, words, cases=logs.n_episodes)


def _contexts(logs: Trajectories, before: Trajectories | None, horizon: int) -> Drift:
    values = np.asarray(logs.initial_contexts, np.float64)
    reference = None if before is None else np.asarray(before.initial_contexts, np.float64)
    known, later = _reference(values, reference)
    place, moved = _moved(later, known, horizon)
    if place is None:
        return _too_few("contexts", logs.n_episodes)
    than = "the first cases" if before is None else "the log that taught it"
    words = f"cases are like {than}"
    if moved:
        old, new = readable(float(known.mean[place])), readable(float(later[:, place].mean()))
        words = f"cases are unlike {than}: the mean of {logs.feature_names[place]} went from {old} to {new}"
    return Drift("contexts", moved, words, cases=len(later))


def _adherence(logs: Trajectories, horizon: int) -> Drift:
    assert logs.recommended is not None
    followed = np.bincount(logs.episode_of_step, logs.actions == logs.recommended) / logs.lengths
    known, later = _reference(followed[:, None], None)
    place, moved = _moved(later, known, horizon)
    overall = f"{share_in_words(float(logs.adherence or 0.0))} of recommendations are followed"
    if place is None:
        return _too_few("adherence", logs.n_episodes, overall)
    old, new = share_in_words(float(known.mean[0])), share_in_words(float(later.mean()))
    words = f"{overall}: {old} at first, {new} since" if moved else f"{overall}, as at first"
    return Drift("adherence", moved, words, cases=len(later))


def _outcome(logs: Trajectories, before: Trajectories | None, discount: float, horizon: int) -> Drift:
    returns, features = logs.returns(discount), _features(logs)
    reference = slice(0, REFERENCE) if before is None else slice(0, 0)
    taught = (features[reference], returns[reference])
    if before is not None:
        taught = (_features(before), before.returns(discount))
    later = slice(reference.stop, None)
    if len(returns[later]) < FEWEST:
        return _too_few("outcome", logs.n_episodes)
    predicted, left = _ridge(*taught)
    values = (returns[later] - predicted(features[later]))[:, None]
    place, moved = _moved(values, _Known(np.zeros(1), np.array([left])), horizon)
    than = "of the first cases" if before is None else "of the log that taught it"
    shift = readable(float(values.mean()), signed=True)
    words = (
        f"outcomes differ by {shift} from those {than} in like cases with like actions: what an action does has changed"
        if moved
        else f"outcomes in like cases with like actions are those {than}"
    )
    return Drift("outcome", bool(moved and place is not None), words, cases=len(values))


def _features(logs: Trajectories) -> FloatArray:
    """The first context of each episode, and how often each action was taken."""
    shares = np.stack(
        [np.bincount(logs.episode_of_step, logs.actions == action) for action in range(1, logs.n_actions)], axis=1
    )
    return np.hstack([np.asarray(logs.initial_contexts, np.float64), shares])


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


def _reference(values: FloatArray, given: FloatArray | None) -> tuple[_Known, FloatArray]:
    """What later values [n, C] are compared with, and these."""
    block = values[:REFERENCE] if given is None else given
    known = _Known(block.mean(axis=0), block.std(axis=0, ddof=1) / np.sqrt(len(block)) if len(block) > 1 else block[0])
    return known, values[REFERENCE:] if given is None else values


def _moved(values: FloatArray, known: _Known, horizon: int) -> tuple[int | None, bool]:
    """Which mean is furthest off, and whether beyond its error level; None while there are too few cases."""
    n, width = values.shape
    if n < FEWEST or not width:
        return None, False
    errors = np.sqrt(values.var(axis=0, ddof=1) / n + known.error**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        off = np.abs(values.mean(axis=0) - known.mean) / errors
    off = np.where(np.isnan(off), 0.0, off)
    place = int(off.argmax())
    return place, bool(off[place] > sequence_boundary(n, ERROR / width, horizon))


def _too_few(name: str, cases: int, said: str = "") -> Drift:
    words = f"{cases} cases are too few to tell yet"
    return Drift(name, False, f"{said}; {words}" if said else words, cases=cases)
