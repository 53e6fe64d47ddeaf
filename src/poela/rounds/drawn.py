"""Whether actions were drawn by a policy's probabilities: bets against it, whose stakes are fair if they were.

The probabilities are known, so that no normal theory is needed: each bet tilts them (one action more or less often,
unlikely actions more or less often, an action more often where a feature is high), and multiplies its stake by the
ratio of tilted to own probability of each drawn action. If the policy drew, the mean stake of all bets exceeds 100 with
a chance of at most 1%, however often one looks (Ville's inequality), and clusters do no harm, since draws are
independent given the contexts.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from poela.core.arrays import FloatArray, IntArray
from poela.data.trajectories import Trajectories
from poela.rounds.compared import STRETCH, by_last, seen_at, share_of_stretch

TILTS = (-1.6, -0.8, -0.4, -0.2, -0.1, 0.1, 0.2, 0.4, 0.8, 1.6)  # of the log odds of an action
SURPRISES = (-1.0, -0.5, -0.25, 0.25, 0.5, 1.0)  # of the power of all probabilities: at 1 they become equal
SLOPES = (-0.6, -0.2, 0.2, 0.6)  # of the log odds of an action, by standard deviation of a feature
FARTHEST = 3.0  # standard deviations of a feature that count


@dataclass(frozen=True)
class Bet:
    """What is bet on: an action (or, None, unlikely actions), by a feature or everywhere, more often or less."""

    action: int | None
    feature: int | None
    tilt: float
    share: float  # of the stakes at the beginning


@dataclass(frozen=True)
class Stakes:
    """The log of all stakes now, the bet that has won most, and after how many units it began."""

    won: float
    best: Bet
    since: int
    path: tuple[tuple[int, float], ...]  # the log of all stakes after so many units


def stakes(logs: Trajectories, said: IntArray, doing: FloatArray) -> Stakes:
    """What bets against the policy have won, where `said` was drawn and `doing` [N, A] were its probabilities, all > 0.

    >>> rng = np.random.default_rng(0)
    >>> drawn = (rng.random(400) < 0.8).astype(int)
    >>> logs = Trajectories(np.zeros((400, 1)), drawn, np.zeros(400), np.arange(401))
    >>> found = stakes(logs, logs.actions, np.full((400, 2), 0.5))
    >>> found.won > 4.6, found.since
    (True, 0)
    """
    unit = by_last(logs.units)
    n = int(unit.max()) + 1
    ends = seen_at(n, min(n, STRETCH))
    edges = np.unique(np.concatenate([np.arange(0, n, STRETCH), ends]))
    block = (np.searchsorted(edges, unit, side="right") - 1)[logs.episode_of_step]
    bets, sums = [], []
    for bet, ratios in _bets(logs, said, doing):
        bets.append(bet)
        sums.append(np.bincount(block, ratios, minlength=len(edges) - 1))
    won = np.cumsum(np.hstack([np.zeros((len(bets), 1)), np.array(sums)]), axis=1)  # [bets, edges]
    shares = np.log([bet.share for bet in bets])
    path = []
    for end in np.searchsorted(edges, ends):
        starts = np.array([place for place in range(end) if edges[place] % STRETCH == 0])
        begun = np.log([share_of_stretch(int(edges[place]) // STRETCH) for place in starts])
        each = shares[:, None] + begun + won[:, [end]] - won[:, starts]
        path.append((int(edges[end]), float(logsumexp(each))))
    best, since = np.unravel_index(int(each.argmax()), each.shape)
    return Stakes(path[-1][1], bets[int(best)], int(edges[starts[since]]), tuple(path))


def _bets(logs: Trajectories, said: IntArray, doing: FloatArray) -> Iterator[tuple[Bet, FloatArray]]:
    """Each bet, and the log [N] of what it is multiplied by at each decision."""
    width = logs.n_actions
    logs_of, given = np.log(np.where(doing > 0, doing, 1.0)), np.arange(len(said))
    own = logs_of[given, said]
    for tilt in SURPRISES:
        every = np.where(doing > 0, (1 - tilt) * logs_of, -np.inf)
        yield Bet(None, None, tilt, 1 / (3 * len(SURPRISES))), -tilt * own - logsumexp(every, axis=1)
    features = _standardised(logs)
    for action in range(width):
        chance, taken = doing[:, action], said == action
        for tilt in TILTS:
            yield (
                Bet(action, None, tilt, 1 / (3 * width * len(TILTS))),
                tilt * taken - np.log1p(chance * np.expm1(tilt)),
            )
        for place, column in features:
            share = 1 / (3 * width * len(features) * len(SLOPES))
            for tilt in SLOPES:
                ratios = tilt * column * taken - np.log1p(chance * np.expm1(tilt * column))
                yield Bet(action, place, tilt, share), ratios


def _standardised(logs: Trajectories) -> list[tuple[int, FloatArray]]:
    """Features by mean and standard deviation of those with which the first cases began: bets look ahead at none."""
    first = np.asarray(logs.initial_contexts[:STRETCH], np.float64)
    mean, spread = first.mean(axis=0), first.std(axis=0)
    return [
        (place, np.clip((logs.contexts[:, place] - mean[place]) / spread[place], -FARTHEST, FARTHEST))
        for place in range(logs.n_features)
        if spread[place] > 0
    ]
