"""Backward induction over a finite horizon: one regression of Q for each step, from the last to the first.

With `target="policy"` this is fitted-Q evaluation of a policy, with `target="max"` fitted-Q iteration. No Markov
assumption hides in a shared time index: each step has its own regression.
"""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np

from poela.behavior.forest import Forest
from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray, readonly
from poela.core.errors import InputError, PoelaError
from poela.core.interruption import safe_point
from poela.core.policy import as_policy
from poela.data.trajectories import Trajectories
from poela.policies.step_values import BoostedStep, RidgeStep, StepModel, StepQ, rows_by_step, with_actions
from poela.policies.step_values import quadratic_features as quadratic_features

Regressor = Literal["ridge", "boosted"]
# A step that fewer episodes reach borrows the rows of the steps after it: two rows are no regression.
FEWEST_ROWS = 50
TIE = 1e-6
ROWS_PER_FEATURE = 1.5
PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)


def fit_backward(
    train: Trajectories,
    *,
    target: Literal["policy", "max", "soft"] = "policy",
    policy: Any = None,
    mask: BoolArray | None = None,
    temperature: float = 1.0,
    regressor: Regressor = "ridge",
    discount: float = 1.0,
    penalties: Sequence[float] = PENALTIES,
    seed: int = 0,
) -> StepQ:
    """Q of a policy (`target="policy"`), or of acting best from each next step on (`target="max"`).

    With `target="soft"` acting best means to gain the most after a price of τ = `temperature` for each nat by which it
    departs from `policy`: a context is worth τ·log Σ_a policy(a)·exp(Q(a)/τ).
    `mask` [N, A] says which actions may be considered at each training step. Of the ridge `penalties` each
    regression takes the one that predicts best when each row is left out in turn.

    >>> contexts, actions = np.zeros((400, 1)), np.arange(400) // 2 % 2
    >>> logs = Trajectories(contexts, actions, np.where(actions == 1, 3.0, 1.0), np.arange(0, 401, 2))
    >>> fit_backward(logs, target="max").q_at(np.zeros((1, 1), np.float32), np.array([1])).round(1)
    array([[1., 3.]])
    """
    following = _following(train, target, policy, mask, temperature)
    if regressor not in ("ridge", "boosted"):
        raise InputError(f"regressor {regressor!r} is unknown: choose 'ridge' or 'boosted'")
    needed = min(FEWEST_ROWS, train.n_episodes)
    targets, values = np.array(train.rewards), np.zeros(train.n_steps)
    last = np.zeros(train.n_steps, np.bool_)
    last[train.offsets[1:] - 1] = True
    models: list[StepModel] = []
    by_step: list[IntArray] = []
    for _, rows in reversed(list(rows_by_step(train.step_numbers))):
        safe_point()
        going_on = rows[~last[rows]]
        targets[going_on] += discount * values[going_on + 1]
        by_step.insert(0, rows)
        pool = _enough(by_step, needed)
        model: StepModel
        if regressor == "ridge":
            model = fit_ridge(train.contexts[pool], train.actions[pool], targets[pool], train.n_actions, penalties)
        else:
            model = fit_boosted(train.contexts[pool], train.actions[pool], targets[pool], train.n_actions, seed)
        models.append(model)
        values[rows] = following(rows, model.predict(train.contexts[rows]))
    return StepQ(tuple(reversed(models)), train.n_actions, train.feature_names, train.action_names)


def _enough(by_step: list[IntArray], needed: int) -> IntArray:
    """The rows of the first step, with those of whole later steps where they are too few."""
    counts = np.cumsum([len(rows) for rows in by_step])
    return np.concatenate(by_step[: int(np.searchsorted(counts, needed)) + 1])


class _Following(Protocol):
    def __call__(self, rows: IntArray, q: FloatArray) -> FloatArray: ...


def _following(train: Trajectories, target: str, policy: Any, mask: BoolArray | None, temperature: float) -> _Following:
    """How the value [m] of being at training rows follows from their Q [m, A]."""
    if target == "max":
        return lambda rows, q: (q if mask is None else np.where(mask[rows], q, -np.inf)).max(axis=1)
    if target not in ("policy", "soft") or policy is None:
        raise InputError("target must be 'max', or 'soft' or 'policy' with the policy to stay near or to evaluate")
    probabilities = np.asarray(as_policy(policy).along(train), np.float64)
    if target == "soft":
        with np.errstate(divide="ignore"):
            chances = np.log(probabilities if mask is None else np.where(mask, probabilities, 0.0))
        return lambda rows, q: temperature * np.logaddexp.reduce(chances[rows] + q / temperature, axis=1)
    return lambda rows, q: np.asarray((probabilities[rows] * q).sum(axis=1))


def fit_ridge(
    contexts: Float32Array,
    actions: IntArray,
    targets: FloatArray,
    n_actions: int,
    penalties: Sequence[float] = PENALTIES,
) -> RidgeStep:
    """One ridge for all actions together, then one for each action on what it leaves over.

    So an action seen often gets its own regression, one seen rarely stays near the average, one never seen is average.
    An action with few rows for each quadratic feature gets a linear one: else the best of several actions is too often
    the one whose regression errs highest, and backward induction adds up such errors step by step.
    """
    columns = np.asarray(contexts, np.float64)
    center, spread = columns.mean(axis=0), columns.std(axis=0)
    scale = np.where(spread > 1e-6 * (1 + np.abs(center)), spread, np.inf)
    features = quadratic_features(contexts, center, scale)
    base = targets.mean()
    shared = ridge(features, targets - base, penalties)
    shared[0] += base
    left = targets - features @ shared
    coefficients = np.tile(shared, (n_actions, 1))
    informative = int((features.std(axis=0) > 0).sum())
    for action in np.unique(actions):
        taken = actions == action
        width = features.shape[1] if taken.sum() >= ROWS_PER_FEATURE * informative else 1 + columns.shape[1]
        coefficients[action, :width] += ridge(features[taken, :width], left[taken], penalties)
    return RidgeStep(readonly(center, np.float64), readonly(scale, np.float64), readonly(coefficients, np.float64))


def ridge(features: FloatArray, targets: FloatArray, penalties: Sequence[float] = PENALTIES) -> FloatArray:
    """Ridge coefficients [p], with the penalty that predicts best when each row is left out in turn.

    >>> x = np.linspace(-1, 1, 50)
    >>> ridge(np.column_stack([np.ones(50), x]), 2 + 3 * x).round(2)
    array([2., 3.])
    """
    rows, width = features.shape
    # The smaller of the two Gram matrices has all the singular values.
    if rows >= width:
        squares, right = np.linalg.eigh(features.T @ features)
        scores = features @ right
    else:
        squares, left = np.linalg.eigh(features @ features.T)
        scores = left * np.sqrt(np.maximum(squares, 0.0))
    squares = np.maximum(squares, 0.0)
    projected = scores.T @ targets
    inverse = 1 / (squares + np.array(penalties)[:, None])  # [penalties, components]
    left_over = targets - (inverse * projected) @ scores.T
    leverage = inverse @ np.square(scores).T
    errors = np.square(left_over / np.maximum(1 - leverage, 1e-6)).sum(axis=1)
    # Of penalties that do equally well, the largest: so rounding, and with it the order of rows, decides nothing.
    best = np.flatnonzero(errors <= errors.min() * (1 + TIE))[-1]
    if rows >= width:
        return np.asarray(right @ (inverse[best] * projected))
    dual = left @ ((left.T @ targets) * inverse[best])
    return np.asarray(features.T @ dual)


def fit_boosted(
    contexts: Float32Array, actions: IntArray, targets: FloatArray, n_actions: int, seed: int
) -> BoostedStep:
    """Histogram gradient boosting on contexts and one column for each action."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    rows = with_actions(contexts, actions, n_actions)
    model = HistGradientBoostingRegressor(early_stopping=False, random_state=seed).fit(rows, targets)
    forest = Forest.of([tree.nodes for (tree,) in model._predictors], np.ravel(model._baseline_prediction))
    # scikit-learn keeps its trees in private fields: make sure that they still mean what is read from them.
    if not np.allclose(forest.scores(rows[:100])[:, 0], model.predict(rows[:100])):
        raise PoelaError("this scikit-learn keeps boosted trees in an unknown form: use regressor='ridge'")
    return BoostedStep(forest, n_actions)
