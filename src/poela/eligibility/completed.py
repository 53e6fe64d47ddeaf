"""The propensities of actions that were not taken, as those of taken actions tell them.

Where only the propensity of the action that was taken is logged, others follow from cases alike: what probability each
action had where it was taken, and that all of them add up to one. Where an action is never taken the propensities of
the others leave no room for it, which a few cases show, since propensities have no noise as actions do.
"""

import numpy as np

from poela.core.arrays import BoolArray, FloatArray
from poela.data.trajectories import Trajectories

ROUNDS, LEARNING_RATE = 40, 0.4
STEPS_PER_LEAF = 3  # what is learned has no noise
NEAR = 10  # cases whose actions tell which one is missing
NOTABLE = 0.02  # that propensities of cases alike add up to beyond one
MOST_STEPS = 20_000  # that are learned from
NEARLY_NONE = 0.15  # of an action's usual rate: fewer are missing, even if a trend explains it
BETWEEN = 0.5  # of an action's usual rate: a hole has an edge, so that few cases are between that and nearly none
TAKEN = 1e-3  # the least probability that cases alike can have
CONTRADICTED = 2.5  # standard errors


def completed_propensities(logs: Trajectories) -> FloatArray:
    """The probability [N, A] of every action, of which those that were taken [N] are logged; rows add up to 1.

    Where cases like this say more than is left, that is taken from the actions that the nearest such cases took least.

    >>> contexts = np.repeat([[0.0], [1.0]], [40, 20], axis=0)  # the third action is never taken where x is 1
    >>> actions = np.array([0, 0, 1, 1, 2] * 8 + [0, 1] * 10)
    >>> logged = np.where(contexts[:, 0] == 1, 0.5, np.where(actions == 2, 0.2, 0.4))
    >>> logs = Trajectories(contexts, actions, np.zeros(60), np.arange(61), logged, n_actions=3)
    >>> completed_propensities(logs)[[0, -1]].round(3).tolist()
    [[0.4, 0.4, 0.2], [0.5, 0.5, 0.0]]
    """
    n, taken = logs.n_steps, np.eye(logs.n_actions)[logs.actions]
    left = (1 - logs.logged_propensities)[:, None]
    if logs.n_actions == 2:
        return np.asarray(np.where(taken == 1, 1 - left, left))
    others = np.where(taken == 1, 0.0, _said(logs))
    excess = np.maximum(others.sum(axis=1, keepdims=True) - left, 0.0)
    near = _taken_near(logs, excess[:, 0] > NOTABLE)
    rarest = np.argsort(np.where(taken == 1, np.inf, near / np.maximum(others, TAKEN)), axis=1)
    for place in range(logs.n_actions):
        column = rarest[:, [place]]
        own = np.take_along_axis(others, column, axis=1)
        gone = np.minimum(own, excess)
        np.put_along_axis(others, column, own - gone, axis=1)
        excess = excess - gone
    total = others.sum(axis=1, keepdims=True)
    others = np.where(total > 0, others, 1 - taken)
    rows = others * (left / others.sum(axis=1, keepdims=True))
    rows[np.arange(n), logs.actions] = logs.logged_propensities
    return np.asarray(rows)


def _said(logs: Trajectories) -> FloatArray:
    """The propensity [N, A] that each action had where cases like this took it."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(
        max_iter=ROUNDS,
        learning_rate=LEARNING_RATE,
        min_samples_leaf=STEPS_PER_LEAF,
        early_stopping=False,
        random_state=0,
    )
    kinds = np.eye(logs.n_actions, dtype=np.float32)
    steps = np.arange(0, logs.n_steps, max(logs.n_steps // MOST_STEPS, 1))
    model.fit(np.hstack([logs.contexts[steps], kinds[logs.actions[steps]]]), logs.logged_propensities[steps])
    columns = [model.predict(np.hstack([logs.contexts, np.tile(kind, (logs.n_steps, 1))])) for kind in kinds]
    return np.asarray(np.clip(np.stack(columns, axis=1), 0.0, 1.0))


def _taken_near(logs: Trajectories, some: BoolArray) -> FloatArray:
    """The share [N, A] of the nearest of some steps [N] that took each action; told for these steps alone."""
    from sklearn.neighbors import NearestNeighbors

    shares = np.ones((logs.n_steps, logs.n_actions))
    steps = np.flatnonzero(some)
    if not len(steps):
        return shares
    spread = logs.contexts.std(axis=0)
    places = logs.contexts[steps] / np.where(spread > 0, spread, 1.0)
    asked = steps[:: max(len(steps) // MOST_STEPS, 1)]
    found = NearestNeighbors(n_neighbors=min(NEAR, len(asked))).fit(places[:: max(len(steps) // MOST_STEPS, 1)])
    near = found.kneighbors(places, return_distance=False)
    shares[steps] = np.eye(logs.n_actions)[logs.actions[asked][near]].mean(axis=1)
    return shares


def are_contradicted(logs: Trajectories, done: FloatArray, foretold: FloatArray) -> bool:
    """Whether some action was taken less often than `done` [N, A] says, where it was `foretold` [N, A] to be rare.

    Where propensities are right, steps that did not teach what was foretold take it as often as they say.

    >>> rng = np.random.default_rng(0)
    >>> never = np.arange(400) < 100
    >>> actions = ((rng.random(400) < 0.3) & ~never) * 1
    >>> logs = Trajectories(np.zeros((400, 1)), actions, np.zeros(400), np.arange(401))
    >>> foretold, wrong = (np.stack([1 - one, one], axis=1) for one in (np.where(never, 0.1, 0.3), np.full(400, 0.3)))
    >>> right = np.where(never[:, None], [1.0, 0.0], wrong)
    >>> are_contradicted(logs, right, foretold), are_contradicted(logs, wrong, foretold)
    (False, True)
    """
    taken = np.eye(logs.n_actions)[logs.actions]
    rare = foretold < BETWEEN * done
    lacking = np.where(rare, done - taken, 0.0).sum(axis=0)
    errors = np.sqrt(np.where(rare, done * (1 - done), 0.0).sum(axis=0))
    return bool((lacking > CONTRADICTED * errors + 1e-9).any())


def has_edge(done: FloatArray) -> BoolArray:
    """Which actions [A] are missing for some, by how probable they were [N, A], rather than ever rarer for some.

    >>> falling = np.linspace(0.01, 0.5, 100)
    >>> has_edge(np.stack([falling, np.where(falling < 0.1, 0.0, 0.3)], axis=1))
    array([False,  True])
    """
    rates = done / np.maximum(done.mean(axis=0), 1e-12)
    nearly_none, between = rates <= NEARLY_NONE, (rates > NEARLY_NONE) & (rates <= BETWEEN)
    return np.asarray(nearly_none.sum(axis=0) > between.sum(axis=0))
