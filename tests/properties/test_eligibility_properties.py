"""Invariants of eligible actions (section 5 of the paper), and Theorem 1 (section 6)."""

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist

from poela.core.arrays import BoolArray, FloatArray, IntArray
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import Eligibility, Radius
from poela.neighbours.search import TREE_FEATURES, Neighbours

patient = settings(deadline=None)  # the machine may be busy

METRICS = ("mean_squared", "euclidean")

# Small whole numbers make ties and repeated contexts common; floats make rounding matter.
numbers = st.one_of(st.integers(-3, 3).map(float), st.floats(-100, 100, width=32))


@st.composite
def logs(draw: st.DrawFn, max_actions: int = 4) -> Trajectories:
    n = draw(st.integers(1, 25))
    n_features = draw(st.sampled_from([1, 2, TREE_FEATURES, TREE_FEATURES + 1, 12]))
    n_actions = draw(st.integers(1, max_actions))
    cuts = draw(st.sets(st.integers(1, n - 1))) if n > 1 else set()
    return Trajectories(
        contexts=draw(arrays(np.float32, (n, n_features), elements=numbers)),
        actions=draw(arrays(np.int64, n, elements=st.integers(0, n_actions - 1))),
        rewards=np.zeros(n),
        offsets=[0, *sorted(cuts), n],
        propensities=np.random.default_rng(draw(st.integers(0, 99))).dirichlet(np.ones(n_actions), size=n),
        n_actions=n_actions,
    )


@st.composite
def rules(draw: st.DrawFn) -> Eligibility:
    return Eligibility(
        radius=draw(st.one_of(st.none(), st.floats(0, 50), st.sampled_from([0.0, 1.0, np.inf]))),
        minimum_probability=draw(st.one_of(st.none(), st.floats(0, 1))),
        relative_probability=draw(st.one_of(st.none(), st.floats(0, 1))),
        metric=draw(st.sampled_from(METRICS)),
        scale=draw(st.sampled_from([None, "standard", "robust"])),
        reach=draw(st.one_of(st.none(), st.floats(0, 50))),
        neighbours=draw(st.sampled_from(["pooled", "same_step"])),
        fallback=draw(st.sampled_from(["nearest", "behavior", "all"])),
    )


def questions(train: Trajectories, seed: int) -> tuple[FloatArray, IntArray]:
    """Logged contexts, contexts nearby, and contexts far away, with step numbers some of which were never logged."""
    rng = np.random.default_rng(seed)
    shift = rng.choice([0.0, 0.0, 1.0, 1000.0], size=(train.n_steps, 1))
    return train.contexts + shift * rng.normal(size=train.contexts.shape), rng.integers(0, 4, size=train.n_steps)


def all_distances(contexts: ArrayLike, train: Trajectories, metric: str) -> FloatArray:
    """Every context against every logged one, by SciPy."""
    left, right = np.asarray(contexts, np.float32).astype(np.float64), train.contexts.astype(np.float64)
    if metric == "euclidean":
        return np.asarray(cdist(left, right))
    return np.asarray(cdist(left, right, "sqeuclidean") / train.n_features)


def nearest_by_action(distances: FloatArray, actions: IntArray, n_actions: int, among: Any = True) -> FloatArray:
    return np.stack(
        [np.where((actions == action) & among, distances, np.inf).min(axis=1) for action in range(n_actions)], axis=1
    )


@patient
@given(train=logs(), seed=st.integers(0, 99), metric=st.sampled_from(METRICS))
def test_distances_are_those_of_brute_force(train: Trajectories, seed: int, metric: str) -> None:
    contexts, steps = questions(train, seed)
    every = all_distances(contexts, train, metric)
    pooled = Radius(1.0, metric=metric).fit(train).distances(contexts)
    np.testing.assert_allclose(pooled, nearest_by_action(every, train.actions, train.n_actions), rtol=1e-12)
    same_step = Radius(1.0, metric=metric, neighbours="same_step").fit(train).distances(contexts, steps)
    expected = nearest_by_action(every, train.actions, train.n_actions, train.step_numbers == steps[:, None])
    np.testing.assert_allclose(same_step, expected, rtol=1e-12)


@patient
@given(train=logs(), rule=rules())
def test_a_logged_action_is_eligible_at_its_own_context(train: Trajectories, rule: Eligibility) -> None:
    # Rules on probabilities may bar what was logged once; the distance rule may not.
    fitted = replace(rule, minimum_probability=None, relative_probability=None).fit(train)
    eligible = fitted.resolve(train.contexts, train.step_numbers)
    own = train.actions[:, None]
    assert np.take_along_axis(eligible.mask, own, axis=1).all()
    assert eligible.n_stranded == 0
    distances = fitted.distances(train.contexts, train.step_numbers)
    np.testing.assert_array_equal(np.take_along_axis(distances, own, axis=1), 0.0)


@patient
@given(train=logs(), rule=rules(), seed=st.integers(0, 99))
def test_something_is_always_eligible_and_the_fallback_is_counted(
    train: Trajectories, rule: Eligibility, seed: int
) -> None:
    contexts, steps = questions(train, seed)
    eligible = rule.fit(train).resolve(contexts, steps)
    assert eligible.mask.any(axis=1).all()
    if not rule.measures and rule.minimum_probability is None and rule.relative_probability is None:
        assert eligible.mask.all()
        assert eligible.n_stranded == 0
    if eligible.behavior is not None:
        np.testing.assert_allclose(eligible.behavior[eligible.stranded].sum(axis=1), 1)
        assert not eligible.behavior[~eligible.mask].any()
        assert not eligible.behavior[~eligible.stranded].any()
    np.testing.assert_array_equal(eligible.mask, rule.fit(train).mask(contexts, steps))


@patient
@given(train=logs(), rule=rules(), reach=st.floats(0, 50), seed=st.integers(0, 99))
def test_beyond_the_reach_of_all_logged_contexts_nothing_passes(
    train: Trajectories, rule: Eligibility, reach: float, seed: int
) -> None:
    contexts, steps = questions(train, seed)
    fitted = replace(rule, reach=reach).fit(train)
    beyond = fitted.distances(contexts, steps).min(axis=1) > reach
    without = replace(rule, reach=None).fit(train).resolve(contexts, steps)
    eligible = fitted.resolve(contexts, steps)
    np.testing.assert_array_equal(eligible.stranded, without.stranded | beyond)
    passed = ~eligible.stranded  # elsewhere the fallback acts: by distances, where they are measured
    np.testing.assert_array_equal(eligible.mask[passed], without.mask[passed])


def before_fallback(rule: Eligibility, train: Trajectories, contexts: ArrayLike, steps: IntArray) -> BoolArray:
    eligible = rule.fit(train).resolve(contexts, steps)
    return np.asarray(eligible.mask & ~eligible.stranded[:, None])


@patient
@given(
    train=logs(),
    rule=rules(),
    radii=st.tuples(st.floats(0, 50), st.floats(0, 50)).map(sorted),
    seed=st.integers(0, 99),
)
def test_the_eligible_set_grows_with_the_radius(
    train: Trajectories, rule: Eligibility, radii: list[float], seed: int
) -> None:
    contexts, steps = questions(train, seed)
    small, large = (before_fallback(replace(rule, radius=radius), train, contexts, steps) for radius in radii)
    assert not (small & ~large).any()
    assert not (large & ~before_fallback(replace(rule, radius=None), train, contexts, steps)).any()


@patient
@given(train=logs(), rule=rules(), seed=st.integers(0, 99))
def test_the_eligible_set_shrinks_with_the_minimum_probability(
    train: Trajectories, rule: Eligibility, seed: int
) -> None:
    contexts, steps = questions(train, seed)
    loose, tight = (
        before_fallback(replace(rule, minimum_probability=share), train, contexts, steps) for share in (0.1, 0.4)
    )
    assert not (tight & ~loose).any()


@patient
@given(train=logs(), rule=rules(), seed=st.integers(0, 99))
def test_the_order_of_episodes_and_of_questions_is_irrelevant(
    train: Trajectories, rule: Eligibility, seed: int
) -> None:
    # A behavior model that does not know the training logs: equal contexts may carry different propensities.
    behavior = _ByFirstFeature(train.n_actions)
    contexts, steps = questions(train, seed)
    rng = np.random.default_rng(seed)
    order, episodes = rng.permutation(len(contexts)), rng.permutation(train.n_episodes)
    fitted, shuffled = rule.fit(train, behavior), rule.fit(train.take(episodes), behavior)
    np.testing.assert_array_equal(shuffled.mask(contexts[order], steps[order]), fitted.mask(contexts, steps)[order])
    if rule.scale is None:  # standard deviations are sums, whose rounding depends on the order
        ordered = fitted.distances(contexts, steps)[order]
        np.testing.assert_array_equal(shuffled.distances(contexts[order], steps[order]), ordered)
        one_by_one = [fitted.distances(contexts[[row]], steps[[row]])[0] for row in order]
        np.testing.assert_array_equal(one_by_one, ordered)


class _ByFirstFeature:
    def __init__(self, n_actions: int) -> None:
        self.n_actions = n_actions

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        first = np.asarray(contexts, np.float64)[:, :1]
        raw = 1.5 + np.sin(first + np.arange(self.n_actions))
        return np.asarray(raw / raw.sum(axis=1, keepdims=True))


@patient
@given(train=logs(), rule=rules(), gap=st.one_of(st.none(), st.floats(0, 20)), seed=st.integers(0, 99))
def test_thinning_only_shrinks_the_rule(train: Trajectories, rule: Eligibility, gap: float | None, seed: int) -> None:
    contexts, steps = questions(train, seed)
    whole = rule.fit(train)
    thin = whole.thinned(gap)
    before, after = whole.resolve(contexts, steps), thin.resolve(contexts, steps)
    assert not (after.mask & ~after.stranded[:, None] & ~before.mask).any()
    assert not (before.stranded & ~after.stranded).any()
    assert (thin.distances(contexts, steps) >= whole.distances(contexts, steps)).all()
    if rule.scale is None:
        shuffled = train.take(np.random.default_rng(seed).permutation(train.n_episodes))
        thin_too = replace(rule, minimum_probability=None, relative_probability=None).fit(shuffled).thinned(gap)
        np.testing.assert_array_equal(thin_too.distances(contexts, steps), thin.distances(contexts, steps))


@patient
@given(
    train=logs(),
    metric=st.sampled_from(METRICS),
    seed=st.integers(0, 99),
    scale_too=st.booleans(),
)
def test_scale_and_weights_are_a_change_of_features(
    train: Trajectories, metric: str, seed: int, scale_too: bool
) -> None:
    rng = np.random.default_rng(seed)
    contexts, _ = questions(train, seed)
    contexts = contexts.astype(np.float32)
    scale = tuple(rng.uniform(0.1, 10, train.n_features)) if scale_too else None
    weights = tuple(rng.choice([0.0, 0.5, 4.0], train.n_features))
    fitted = Radius(1.0, metric=metric, scale=scale, weights=weights).fit(train)
    by_hand = np.sqrt(weights) / (scale if scale else 1.0)
    squared = cdist(contexts * by_hand, train.contexts * by_hand, "sqeuclidean")
    every = np.sqrt(squared) if metric == "euclidean" else squared / train.n_features
    expected = nearest_by_action(every, train.actions, train.n_actions)
    np.testing.assert_allclose(fitted.distances(contexts), expected, rtol=1e-9, atol=1e-12)


@patient
@given(
    points=arrays(np.float64, st.tuples(st.integers(1, 30), st.sampled_from([1, 3, 9, 20])), elements=numbers),
    k=st.integers(1, 30),
    seed=st.integers(0, 99),
)
def test_k_nearest_are_the_k_smallest_distances(points: FloatArray, k: int, seed: int) -> None:
    k = min(k, len(points))
    contexts = points + np.random.default_rng(seed).choice([0.0, 0.5], size=(len(points), 1))
    rows, squared = Neighbours(points).k_nearest(contexts, k)
    every = cdist(contexts, points, "sqeuclidean")
    np.testing.assert_allclose(squared, np.sort(every, axis=1)[:, :k], rtol=1e-12)
    np.testing.assert_allclose(squared, np.take_along_axis(every, rows, axis=1), rtol=1e-12)
    assert (np.diff(np.sort(rows, axis=1), axis=1) > 0).all()


# Theorem 1: let π take only eligible actions at the logged contexts, and let |π(a|x) − π(a|x′)| ≤ L·dist(x, x′).
# Then the weights W_j = π(a_j|x_j)/μ(a_j|x_j) of the logged steps in the δ-ball of any logged context x_i satisfy
# Σ_j W_j ≥ 1 − δ·L·|A|. Two things are needed, and made here by construction: π is Lipschitz *after* it has been
# restricted to eligible actions, and μ ≤ 1. What the proof shows in between is sharper, and never empty:
# Σ_j W_j ≥ Σ_{a eligible at x_i} max(0, π(a|x_i) − δ·L).


def weights_in_balls(train: Trajectories, target: FloatArray, radius: float, metric: str) -> FloatArray:
    """For each logged context, the sum of the weights of logged steps within the radius."""
    logged = np.take_along_axis(target, train.actions[:, None], axis=1)[:, 0]
    near = all_distances(train.contexts, train, metric) <= radius
    return np.asarray(near @ (logged / train.logged_propensities))


@st.composite
def tents(draw: st.DrawFn) -> tuple[Trajectories, FloatArray, float, float]:
    """Logs, a policy on them, its Lipschitz constant and a radius for which the theorem says something.

    Action a has a tent-shaped probability around its own place on the first feature: max(0, 1 − |x₁ − a·w|/w). Between
    the first and the last place these sum to 1, and each has slope 1/w, so L = 1/w for the Euclidean distance whatever
    the other features are. Every action with a positive probability at a logged context is logged there or nearby.
    """
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    n, n_actions = draw(st.integers(2, 40)), draw(st.integers(2, 5))
    n_features = draw(st.sampled_from([1, 3, 9]))
    width = draw(st.floats(0.5, 8))
    radius = draw(st.floats(0.05, 0.95)) * width / n_actions
    contexts = rng.normal(scale=draw(st.sampled_from([0.0, radius / 4, width])), size=(n, n_features))
    contexts[:, 0] = rng.uniform(0, (n_actions - 1) * width, size=n)
    contexts = contexts.astype(np.float32)
    actions = rng.integers(n_actions, size=n)

    def target(at: ArrayLike) -> FloatArray:
        places = np.arange(n_actions) * width
        return np.maximum(0.0, 1 - np.abs(np.asarray(at, np.float64)[:, :1] - places) / width)

    distances = cdist(contexts.astype(np.float64), contexts.astype(np.float64))
    missing = (target(contexts) > 0) & ~(nearest_by_action(distances, actions, n_actions) <= radius)
    rows, added = np.nonzero(missing)
    contexts, actions = np.concatenate([contexts, contexts[rows]]), np.concatenate([actions, added])
    train = Trajectories(
        contexts, actions, np.zeros(len(actions)), np.arange(len(actions) + 1), rng.uniform(0.05, 1, len(actions)),
        n_actions=n_actions,
    )  # fmt: skip
    return train, target(train.contexts), 1 / width, radius


@patient
@given(case=tents())
def test_theorem_1(case: tuple[Trajectories, FloatArray, float, float]) -> None:
    train, target, lipschitz, radius = case
    mask = Radius(radius, metric="euclidean").fit(train).mask(train.contexts)
    np.testing.assert_allclose(target.sum(axis=1), 1, atol=1e-6)
    assert not target[~mask].any(), "the policy takes only eligible actions"
    assert 0 < radius * lipschitz * train.n_actions < 1, "the bound is not empty"
    sums = weights_in_balls(train, target, radius, "euclidean")
    sharper = np.maximum(0.0, target - radius * lipschitz).sum(axis=1)
    assert (sums >= sharper - 1e-9).all()
    assert (sharper >= 1 - radius * lipschitz * train.n_actions - 1e-6).all()


@patient
@given(train=logs(), seed=st.integers(0, 99), radius=st.floats(0.001, 30), metric=st.sampled_from(METRICS))
def test_theorem_1_for_restricted_policies_with_their_measured_constant(
    train: Trajectories, seed: int, radius: float, metric: str
) -> None:
    """Any policy of the context, restricted and renormalised; L is the least constant that holds within the balls."""
    mask = Radius(radius, metric=metric).fit(train).mask(train.contexts)
    slopes = np.random.default_rng(seed).normal(scale=0.01, size=(train.n_features, train.n_actions))
    raw = np.exp(train.contexts @ slopes) * mask
    target = raw / raw.sum(axis=1, keepdims=True)
    distances = all_distances(train.contexts, train, metric)
    near = (distances <= radius) & (distances > 0)
    change = np.abs(target[:, None] - target[None]).max(axis=2)
    lipschitz = float((change[near] / distances[near]).max(initial=0.0))
    sums = weights_in_balls(train, target, radius, metric)
    assert (sums >= np.maximum(0.0, target - radius * lipschitz).sum(axis=1) - 1e-9).all()
    assert (sums >= 1 - radius * lipschitz * train.n_actions - 1e-9).all()


@patient
@given(case=tents())
def test_without_eligible_actions_the_weights_of_a_ball_can_vanish(
    case: tuple[Trajectories, FloatArray, float, float],
) -> None:
    """Why the rule is there: a constant policy (L = 0) that takes an action never logged gives every ball weight 0."""
    train, _, _, radius = case
    wider = Trajectories(
        train.contexts, train.actions, train.rewards, train.offsets, train.propensities, n_actions=train.n_actions + 1
    )
    target = np.zeros((wider.n_steps, wider.n_actions))
    target[:, -1] = 1.0
    np.testing.assert_array_equal(weights_in_balls(wider, target, radius, "euclidean"), 0.0)
    mask = Radius(radius, metric="euclidean").fit(wider).mask(wider.contexts)
    assert not mask[:, -1].any()
