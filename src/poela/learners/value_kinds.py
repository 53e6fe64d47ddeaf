"""Which kind of regression values actions best on a log: by what held-out episodes show of the actions' effects."""

from collections.abc import Callable, Sequence

import numpy as np

from poela.core.arrays import FloatArray, IntArray
from poela.core.ragged import episode_sums, returns_to_go
from poela.data.folds import fold_numbers
from poela.data.trajectories import Trajectories
from poela.regression.backward_induction import BackwardInduction, Kind, expected
from poela.regression.step_features import MOST_FEATURES_IN_PAIRS, Coding

FOLDS = 2
FEWEST_UNITS = 40  # that tell kinds apart
MOST_WORK = 3e9  # multiplications of coded ridges, for one column of targets: a few seconds
MOST_TREE_ROWS = 1e6  # rows times actions of logs on which shallow trees are tried
# Makes the regressions of such a kind on the episodes of these numbers.
Inductions = Callable[[Kind, IntArray], BackwardInduction]


def kinds_for(train: Trajectories) -> list[Kind]:
    """The kinds that are worth a try, the simplest first.

    Linear ones where episodes have a single step (later values are seldom linear), pooled ones where they have several;
    coded ones where columns hold codes, or are too many for the products of plain ones, and not too many for theirs
    (`MOST_WORK`); shallow trees where episodes have a single step and are not too many (`MOST_TREE_ROWS`): longer ones
    would need a forest for each step and each temperature.

    >>> contexts = np.random.default_rng(0).normal(size=(300, 2))
    >>> kinds_for(Trajectories(contexts, np.arange(300) % 2, np.zeros(300), np.arange(301)))
    ['linear', 'ridge', 'shallow']
    >>> kinds_for(Trajectories(contexts.round(), np.arange(300) % 2, np.zeros(300), np.arange(0, 301, 3)))
    ['ridge', 'pooled', 'coded']
    """
    horizon = int(train.lengths.max())
    kinds: list[Kind] = ["ridge"] if horizon > 1 else ["linear", "ridge"]
    if horizon > 1:
        kinds.append("pooled")
    coding = Coding.of(train.contexts)
    new = len(coding.columns) > 0 or (coding.width > MOST_FEATURES_IN_PAIRS and len(coding.pairs[0]) > coding.width)
    p = coding.n_products
    if new and (horizon * (1 + train.n_actions) * p + 8 * train.n_steps) * p**2 <= MOST_WORK:
        kinds.append("coded")
    if horizon == 1 and train.n_steps * train.n_actions <= MOST_TREE_ROWS:
        kinds.append("shallow")
    return kinds


def chosen_kind(
    train: Trajectories, chances: FloatArray, inductions: Inductions, kinds: Sequence[Kind], discount: float = 1.0
) -> Kind:
    """The kind whose effects of actions foretell best what half of the episodes show, when fitted on the other half.

    The effect of an action is how much more it is worth than what `chances` [N, A] take on average, Q − Σ chances·Q;
    it is compared with the return to go less one common guess of what was to be expected there (the loss of Nie & Wager
    2021). How well a kind foretells returns themselves says little: policies are tilted by effects. The simplest kind
    stays unless another is better by more than one standard error of their difference.
    """
    if len(kinds) == 1 or train.n_units < FEWEST_UNITS:
        return kinds[0]
    fold_of = fold_numbers(train, FOLDS, seed=0)
    returns = returns_to_go(train.rewards, train.offsets, discount)
    pairs = [_held_out(train, chances, fold_of, inductions, kind) for kind in kinds]
    level = min((mean for _, mean in pairs), key=lambda mean: float(np.square(returns - mean).sum()))
    losses = [np.square(returns - level - (taken - mean)) for taken, mean in pairs]
    return kinds[_clearly_least(train, losses)]


def _held_out(
    train: Trajectories, chances: FloatArray, fold_of: IntArray, inductions: Inductions, kind: Kind
) -> tuple[FloatArray, FloatArray]:
    """Q of the logged actions and of `chances` [N], by regressions that did not see the episode."""
    following = expected(chances.T[:, :, None])
    taken, mean = np.empty((2, train.n_steps))
    for fold in range(FOLDS):
        induction = inductions(kind, np.flatnonzero(fold_of != fold))
        left_out = induction.elsewhere(np.flatnonzero((fold_of == fold)[train.episode_of_step]))
        for rows, q in induction.valued(left_out, following):
            taken[rows] = q[train.actions[rows], np.arange(len(rows)), 0]
            mean[rows] = following(rows, q)[:, 0]
    return taken, mean


def _clearly_least(train: Trajectories, losses: Sequence[FloatArray]) -> int:
    """The place of the least of losses [N]; 0 unless it is less than the first by more than a standard error."""
    totals = [np.bincount(train.units, episode_sums(loss, train.offsets)) for loss in losses]
    least = int(np.argmin([total.sum() for total in totals]))
    saved = totals[0] - totals[least]
    return least if saved.sum() > np.sqrt(len(saved)) * saved.std() else 0
