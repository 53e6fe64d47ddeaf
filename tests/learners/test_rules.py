"""Rules: the exact search against every tree, a published process, the simulated trial, and what the path promises."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from benchmarks.plain_processes import trial, true_value, zhou_athey_wager

from poela import Rules, Trajectories
from poela.eligibility.rules import Eligibility
from poela.learners.plainness import BY_LOT
from poela.learners.rule_search import Bins, Search, Split, Terms, Tree, round_between
from poela.learners.rules import margins
from poela.policies.valued import BarringPolicy, barred_by


def worth_by_hand(search: Search, tree: Tree, terms: Terms) -> float:
    """Of a tree, leaf by leaf; −inf where a leaf has too few rows."""
    splits = sum(split is not None for split in (tree.root, tree.low, tree.high))
    total = -search.charge * splits
    for _, rows in tree.leaves(search.bins):
        if rows.sum() < search.least:
            return -np.inf
        options = [0.0]
        for gains, costs in zip(search.gains[:, rows].sum(axis=1), search.costs[:, rows].sum(axis=1), strict=True):
            options += [gains - terms.price * costs] if costs <= terms.most else []
        total += max(options)
    return float(total)


def every_tree(bins: Bins) -> list[Tree]:
    splits = [Split(column, place) for column in range(bins.codes.shape[1]) for place in range(bins.size(column) - 1)]
    below = [None, *splits]
    return [Tree(), *(Tree(root, low, high) for root in splits for low, high in product(below, below))]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("terms", [Terms(), Terms(0.1), Terms(0.05, most=4.0)])
def test_the_search_finds_the_best_of_all_trees(seed: int, terms: Terms) -> None:
    rng = np.random.default_rng(seed)
    contexts = np.stack([rng.integers(0, 3, 40), rng.integers(0, 2, 40), rng.normal(size=40)], axis=1)
    bins = Bins.of(contexts.astype(np.float32), most=4)
    search = Search(bins, rng.normal(size=(3, 40)), rng.random((3, 40)), charge=0.3 * (seed % 2), least=1 + 2 * seed)
    trees = every_tree(bins)
    best = max(worth_by_hand(search, tree, terms) for tree in trees)
    (found,) = search.trees(range(3), [terms])
    assert worth_by_hand(search, found, terms) == pytest.approx(best, abs=1e-9)
    single = max(worth_by_hand(search, tree, terms) for tree in trees if tree.low is None and tree.high is None)
    assert worth_by_hand(search, search.stumps([terms])[0][0], terms) == pytest.approx(single, abs=1e-9)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0.0, 1.0, 0.0), (64.0, 65.0, 64.0), (-3.0, 4.0, 0.0), (2.07, 2.13, 2.1), (999.0, 1201.0, 1000.0)],
)
def test_thresholds_are_round(low: float, high: float, expected: float) -> None:
    assert round_between(low, high) == np.float32(expected)


def test_bins_are_at_most_so_many_and_apart() -> None:
    values = np.random.default_rng(0).normal(size=(3000, 1)).astype(np.float32)
    bins = Bins.of(values, most=50)
    counts = np.bincount(bins.codes[:, 0])
    assert 45 <= len(counts) <= 50
    assert counts.max() < 3000 / 50 * 2
    for code, cut in enumerate(bins.thresholds[0]):
        assert ((values[:, 0] > np.float32(cut)) == (bins.codes[:, 0] > code)).all()


def test_two_conditions_reach_the_best_tree_of_a_published_process() -> None:
    """The best of depth 2 is worth 2.216, of depth 1 1.756; the logging policy 1.383."""
    fresh, means = zhou_athey_wager(20_000, seed=99)
    assert true_value(Rules().fit(zhou_athey_wager(50, 0)[0]), fresh, means) > 0  # few rows are no error
    paths = [list(Rules().fit_path(zhou_athey_wager(2000, seed)[0])) for seed in range(10)]
    deep = np.mean([true_value(path[-1].policy, fresh, means) for path in paths])
    single = np.mean([true_value(path[-5].policy, fresh, means) for path in paths])
    assert 2.15 <= deep <= 2.217
    assert 1.55 < single < 1.757


def path_of(logs: Trajectories, **settings: Any) -> dict[str, Any]:
    return {point.note: point.policy for point in Rules(**settings).fit_path(logs)}


def test_plain_policies_of_a_trial_are_what_they_say() -> None:
    logs = trial(0)
    path = path_of(logs)
    assert [path[name].rule for name in ("always large", "never none")] == ["Always large.", "Never none."]
    np.testing.assert_array_equal(path["always large"].along(logs), np.tile([0.0, 0.0, 1.0], (logs.n_steps, 1)))
    np.testing.assert_allclose(path["never none"].along(logs), np.tile([0.0, 0.5, 0.5], (logs.n_steps, 1)))
    assert path["never none"].barred(logs.contexts[:2]).tolist() == [[True, False, False]] * 2
    assert not path["always large"].barred(logs.contexts[:2]).any()
    assert len(path) <= 25


def steps_logs(seed: int = 0, n: int = 300) -> Trajectories:
    """Three steps; the second action is bad above 0 and good below, and never taken above 1.5."""
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(3 * n, 2)).astype(np.float32)
    chances = np.tile([0.3, 0.4, 0.3], (3 * n, 1))
    chances[contexts[:, 0] > 1.5] = [0.5, 0.0, 0.5]
    actions = np.minimum((chances.cumsum(axis=1) < rng.random((3 * n, 1))).sum(axis=1), 2)
    rewards = -np.sign(contexts[:, 0]) * (actions == 1) + rng.normal(size=3 * n)
    return Trajectories(contexts, actions, rewards, np.arange(0, 3 * n + 1, 3), chances)


def test_no_policy_goes_where_practice_does_not() -> None:
    logs = steps_logs()
    assert logs.propensities is not None
    for rule in (None, Eligibility(minimum_probability=0.35)):
        allowed = logs.propensities >= (1e-12 if rule is None else 0.35)
        for name, policy in path_of(logs, rule=rule).items():
            rows = policy.along(logs)
            np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-12, err_msg=name)
            assert (rows[~allowed] == 0).all(), name


def test_rules_over_several_steps_are_learned_and_leave_the_shares_that_were_asked_for() -> None:
    logs = steps_logs(n=1500)
    path = path_of(logs, left_by_rules=(0.5, 0.3))
    assert logs.propensities is not None
    for name, share in (("rule 3", 0.5), ("rule 4", 0.3)):
        policy = path[name]
        assert "x0" in policy.rule
        weights = policy.along(logs) / np.where(logs.propensities > 0, logs.propensities, 1.0)
        taken = weights[np.arange(logs.n_steps), logs.actions].reshape(-1, 3).prod(axis=1)
        assert taken.sum() ** 2 / np.square(taken).sum() > 0.9 * share * logs.n_episodes
    barring = path["never by values 4"]
    assert isinstance(barring, BarringPolicy)
    barred = barring.barred_along(logs)
    assert (barring.along(logs)[barred] == 0).all()
    assert barred[logs.contexts[:, 0] > 0.5, 1].mean() > barred[logs.contexts[:, 0] < -0.5, 1].mean()


def test_margins_leave_the_share_that_was_asked_for() -> None:
    rng = np.random.default_rng(0)
    q, practice = rng.normal(size=(500, 3)), rng.dirichlet(np.ones(3) * 5, size=500)
    for share, margin in zip((0.9, 0.7), margins(q, practice, np.arange(501), (0.9, 0.7)), strict=True):
        kept = np.where(barred_by(q, practice, margin), 0.0, practice).sum(axis=1)
        assert share <= 1 / (1 / kept).mean() < share + 0.05  # a ban of probability p has weights of 1 / (1 − p)


def test_nothing_to_say_is_as_before() -> None:
    logs = trial(0, n=60, effects=(0.0, 0.0, 0.0))
    same = Trajectories(logs.contexts * 0, logs.actions, logs.rewards * 0, logs.offsets, logs.propensities)
    assert Rules().fit(same).rule == "As before."


def test_rules_that_multiply_odds_are_lots_and_the_others_are_not() -> None:
    plain = {point.note: point.plainness for point in Rules().fit_path(steps_logs(n=200))}
    several = {note: number for note, number in plain.items() if note.startswith("rule")}
    assert several["rule 1"] == several["rule 2"] == BY_LOT
    assert set(list(several.values())[2:]) == {1.0, 2.0}
    assert plain["never by values 1"] == 3.0


def many_actions(n: int = 4000) -> Trajectories:
    """Six actions: the fifth is best, the third worst; both alike in all cases."""
    rng = np.random.default_rng(5)
    actions = rng.integers(6, size=n)
    rewards = np.array([0.0, 0.1, -2.0, 0.2, 3.0, 0.0])[actions] + 0.5 * rng.normal(size=n)
    return Trajectories(rng.random((n, 2)), actions, rewards, np.arange(n + 1), np.full((n, 6), 1 / 6))


def test_of_many_actions_the_best_and_the_worst_few_stand_alone() -> None:
    path = path_of(many_actions())
    assert path["always the best (1)"].rule == "Always action 4."
    assert path["never the worst (1)"].rule == "Never action 2."
    assert sum(name.startswith(("always", "never the")) for name in path) == 6


def test_bans_alone_and_switches_alone_are_extra_rungs() -> None:
    logs = zhou_athey_wager(1500, seed=3)[0]
    path = path_of(logs)
    for name, do in (("ban 2", "never"), ("switch 2", "instead")):
        assert {case.do for case in path[name].cases} == {do}
        assert any(case.where for case in path[name].cases)
