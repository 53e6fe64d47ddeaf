"""The chance of being seen: cross-fitted, given the context, the action and the step, where episodes break off.

An episode is lost at its last step where its outcome was not seen. With C_t the chance of staying at step t, given all
that was recorded until then, an episode that was seen weighs ∏ 1/C_t and a lost one 0: those seen stand for others like
them who were not. It is right if, given what was recorded, who is lost has nothing to do with the outcome.
"""

from dataclasses import replace

import numpy as np

from poela.behavior.annotation import Fits, annotation
from poela.behavior.boosted import BoostedBehavior
from poela.behavior.multinomial import MultinomialBehavior
from poela.core.arrays import Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.data.trajectories import Trajectories

FOLDS = 5
FLOOR = 0.05  # a chance below it would let one episode stand for more than twenty
MOST_PRODUCTS = 200  # columns of contexts for each action
MOST_CURVED = 12  # contexts with squares and products: 90 columns
FARTHEST = 4.0  # standard deviations that squares tell apart
FEWEST_LOST = 5


def with_staying(logs: Trajectories, seed: int = 0) -> Trajectories:
    """The logs with what each step weighs for having been seen; as they are where nobody was lost, or it is known.

    Each episode's chances come from models that saw neither it nor its cluster: of logistic regressions with a slope
    for each action, without and with squares and products of the contexts, and of boosted trees, those under which
    who stayed is likeliest.

    >>> rng = np.random.default_rng(0)
    >>> actions = rng.integers(0, 2, 1000)
    >>> lost = rng.random(1000) < np.where(actions == 1, 0.5, 0.2)
    >>> logs = Trajectories(rng.normal(size=(1000, 1)), actions, np.ones(1000), np.arange(1001), lost=lost)
    >>> weights = np.exp(with_staying(logs).staying)
    >>> weights[lost].max(), [round(float(weights[~lost & (actions == a)].mean()), 1) for a in (0, 1)]
    (np.float64(0.0), [1.2, 2.1])
    """
    if logs.lost is None or logs.staying is not None:
        return logs
    if not logs.lost.any():
        return replace(logs, lost=None)
    seen = int((~logs.lost).sum())
    if seen < FEWEST_LOST:
        raise InputError(f"only {seen} of {logs.n_episodes} episodes were seen to their end: nothing tells of outcomes")
    chances = _chances(logs, seed)
    staying = -np.log(np.maximum(chances, FLOOR))
    staying[last_rows(logs)[logs.lost]] = -np.inf
    return replace(logs, staying=staying)


def lost_share(logs: Trajectories) -> float:
    """The share of episodes whose outcome was not seen.

    >>> lost_share(Trajectories([[0.0]] * 4, [0] * 4, [0.0] * 4, np.arange(5), lost=[True, False, False, False]))
    0.25
    """
    return 0.0 if logs.lost is None else float(logs.lost.mean())


def last_rows(logs: Trajectories) -> IntArray:
    """The last row of each episode."""
    return np.asarray(logs.offsets[1:] - 1)


def as_if_all_seen(logs: Trajectories, seed: int = 0) -> Trajectories:
    """Episodes to learn from: those seen, each as often as its weight says (rounded at random), as if nobody was lost.

    Copies of an episode are one cluster, so that no fold holds some of them out.

    >>> logs = Trajectories([[0.0]] * 3, [0, 1, 0], [1.0, 0.0, 3.0], [0, 1, 2, 3], lost=[False, True, False],
    ...                     staying=[0.0, -np.inf, np.log(2.0)])
    >>> as_if_all_seen(logs).returns()
    array([1., 3., 3.])
    """
    known = logs.seen_weights
    if known is None:
        return logs
    times = repeats(np.exp(known), seed)
    chosen = np.repeat(np.arange(logs.n_episodes), times)
    if not len(chosen):
        raise InputError("no episode to learn from was seen to its end: gather more")
    return replace(logs.take(chosen), clusters=logs.units[chosen], lost=None, staying=None)


def repeats(weights: FloatArray, seed: int) -> IntArray:
    """Whole numbers that add up to these weights [n], but for less than one: the next below or above each.

    >>> repeats(np.array([0.0, 1.0, 2.5, 2.5]), seed=0).tolist()
    [0, 1, 2, 3]
    """
    ends = np.cumsum(weights) + np.random.default_rng((seed, 31)).random()
    return np.asarray(np.diff(np.floor(np.append(ends[0] - weights[0], ends) + 1e-9)), np.int64)


def _at_risk(logs: Trajectories, curved: bool = False) -> Trajectories:
    """Each step as a decision between going (0) and staying (1), with what it may depend on as its context."""
    assert logs.lost is not None
    stayed = np.ones(logs.n_steps, np.int64)
    stayed[last_rows(logs)[logs.lost]] = 0
    contexts = _with_curves(logs.contexts) if curved else logs.contexts
    columns: list[Float32Array] = [contexts]
    columns.append(logs.action_space.free_columns(logs.actions).astype(np.float32))
    if contexts.shape[1] * (logs.n_actions - 1) <= MOST_PRODUCTS:
        taken = logs.action_space.kinds(logs.actions)
        columns += [contexts * (taken == action)[:, None] for action in range(1, logs.n_actions)]
    if logs.lengths.max() > 1:
        steps = logs.step_numbers
        columns.append(np.stack([steps, steps == 0], axis=1).astype(np.float32))
    return Trajectories(
        np.hstack(columns), stayed, np.zeros(logs.n_steps), logs.offsets, n_actions=2, clusters=logs.clusters
    )


def _with_curves(contexts: Float32Array) -> Float32Array:
    """Contexts [N, d] beside their squares and products, of standardised values: those who leave may be the extremes.

    >>> _with_curves(np.array([[1.0], [3.0]], np.float32)).tolist()
    [[1.0, 1.0], [3.0, 1.0]]
    """
    spread = contexts.std(axis=0, dtype=np.float64)
    standard = (contexts - contexts.mean(axis=0, dtype=np.float64)) / np.where(spread > 0, spread, 1.0)
    # One outlier must not be the only thing that squares can see.
    standard = np.clip(standard, -FARTHEST, FARTHEST)
    one, other = np.triu_indices(contexts.shape[1])
    return np.hstack([contexts, (standard[:, one] * standard[:, other]).astype(np.float32)])


def _chances(logs: Trajectories, seed: int) -> FloatArray:
    """The chance of staying [N] by the model under which who stayed is likeliest."""
    straight = _at_risk(logs)
    tried: list[tuple[Fits, Trajectories]] = [(MultinomialBehavior(), straight), (BoostedBehavior(), straight)]
    if logs.n_features <= MOST_CURVED:
        tried.append((MultinomialBehavior(), _at_risk(logs, curved=True)))
    folds = min(FOLDS, straight.n_units)
    reports = [annotation(model, steps, folds, seed) for model, steps in tried]
    best = max(reports, key=lambda report: report.calibration.log_likelihood)
    rows = best.trajectories.propensities
    assert rows is not None
    return np.asarray(rows[:, 1])
