"""Simultaneous lower bounds of the gain, against quantiles that are known, and where nothing is to be gained."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from poela.core.arrays import FloatArray
from poela.data.trajectories import Trajectories
from poela.evaluation.recombination import Recombined
from poela.evaluation.scoring import Evaluator, Scoring
from poela.stats.gain import least_value
from poela.studies import critical_values
from poela.studies.critical_values import critical_value
from poela.studies.fold_errors import shared_variance
from poela.studies.held_out import Episodes
from poela.studies.shown_gain import Judged, Proof, corrected, judged

SCORING = Scoring()


class Fixed:
    """A policy that does the second of two actions with this chance, whatever the context."""

    def __init__(self, chance: float) -> None:
        self.chance = chance

    def probabilities(self, contexts: FloatArray) -> FloatArray:
        return np.tile([1 - self.chance, self.chance], (len(contexts), 1))


def coins(episodes: int, effect: float, seed: int, clusters: int | None = None) -> Trajectories:
    """One step, two actions by a fair coin, and what the second one adds."""
    rng = np.random.default_rng(seed)
    actions = rng.integers(0, 2, episodes)
    rewards = effect * actions + rng.normal(size=episodes)
    return Trajectories(
        np.zeros((episodes, 1)), actions, rewards, np.arange(episodes + 1), np.full((episodes, 2), 0.5),
        clusters=None if clusters is None else np.arange(episodes) % clusters,
    )  # fmt: skip


def shown(
    logs: Trajectories,
    chances: tuple[float, ...],
    gamma: float = 1.0,
    least_ess: float = 0.0,
    ahead: tuple[int, ...] = (),
) -> list[Judged]:
    """What is shown of policies with these chances of the second action."""
    recombine = Recombined(logs, 0, 4)
    episodes = Episodes.of([logs], 1.0)
    points = [
        (episodes.evidence(found.weights.episodes, SCORING, None), found)
        for found in Evaluator(logs, SCORING).evidence([Fixed(chance) for chance in chances])
    ]
    given = [(evidence, np.float32(recombine.log_weights(found))) for evidence, found in points]
    return judged(episodes, given, SCORING, 0.95, gamma, least_ess, ahead=ahead)  # type: ignore[arg-type]


@pytest.mark.parametrize("points", [1, 3, 20])
@pytest.mark.parametrize("share", [0.95, 0.975])
def test_independent_points_need_the_quantile_of_their_largest_error(points: int, share: float) -> None:
    influences = np.asarray(np.kron(np.eye(points), np.random.default_rng(0).normal(size=200)), np.float64)
    expected = norm.ppf(share ** (1 / points))
    assert critical_value(influences, share, seed=0) == pytest.approx(expected, abs=0.12)


def test_identical_points_need_no_more_than_one() -> None:
    one = np.random.default_rng(0).normal(size=(1, 300))
    for scale in (1.0, -1.0):  # of either sign: an error has no preferred one
        assert critical_value(scale * np.tile(one, (50, 1)), 0.95, seed=0) == pytest.approx(norm.ppf(0.95), abs=0.1)
    assert critical_value(np.tile(one, (50, 1)), 0.95, seed=0) >= norm.ppf(0.95)
    assert critical_value(np.zeros((2, 10)), 0.95, seed=0) == pytest.approx(norm.ppf(0.95))


def test_of_many_units_groups_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(critical_values, "MOST_GROUPS", 2000)
    rng = np.random.default_rng(0)
    apart = rng.normal(size=(20, 9000))
    expected = norm.ppf(0.95 ** (1 / 20))
    assert critical_value(apart, 0.95, seed=0) == pytest.approx(expected, abs=0.12)
    # Of some units, and of all: the same units are in the same groups.
    own = np.flatnonzero(rng.random(9000) < 0.5)
    same = np.zeros(9000)
    same[own] = apart[0, own]
    twice = critical_values.critical_values([(slice(None), same[None]), (own, same[None, own])], 9000, 0.95, 0)[0]
    assert twice == pytest.approx(norm.ppf(0.95), abs=0.1)


def test_one_point_is_shown_as_its_own_interval_says_and_more_points_cost() -> None:
    logs = coins(400, effect=1.0, seed=0)
    (alone,) = shown(logs, (0.9,))
    gain = alone.estimate.gain
    assert gain is not None
    assert gain.low is not None
    assert alone.shown is not None
    assert alone.shown == pytest.approx(gain.low, abs=0.03)  # the critical value is drawn, and never below its own
    assert alone.shown <= gain.low
    among = shown(logs, (0.9, 0.1, 0.6, 0.3))
    assert among[0].shown is not None
    assert among[0].shown < alone.shown
    assert among[0].estimate.value == alone.estimate.value


def test_at_least_is_one_sided() -> None:
    """A coin and normal rewards: the bound of one policy is 1.645 paired errors below its gain, and a little more."""
    logs = coins(2000, effect=1.0, seed=4)
    (alone,) = shown(logs, (0.8,))
    weights, returns = np.where(logs.actions == 1, 1.6, 0.4), logs.rewards
    value = weights @ returns / weights.sum()
    influence = weights * (returns - value) / weights.mean() - (returns - returns.mean())
    error = np.sqrt(influence @ influence) / 2000
    (proof,) = alone.proofs
    assert proof.error == pytest.approx(error)
    assert alone.shown == proof.shown == pytest.approx(value - returns.mean() - proof.reach)
    assert norm.ppf(0.95) * error < proof.reach < 1.78 * error


def test_paths_are_corrected_until_the_best_bound_is_a_corrected_one() -> None:
    one = shown(coins(200, 0.0, 0), (0.6,))[0].estimate

    def point(bound: float | None) -> Judged:
        return Judged(one, () if bound is None else (Proof(9.0, bound, reach=1.0, error=1.0),))

    asked: list[tuple[str, list[int]]] = []

    def shared(path: str, places: Sequence[int]) -> list[list[float | None]]:
        asked.append((path, list(places)))
        return [[{"a": 0.96, "b": 0.44, "c": None}[path]] for _ in places]

    bounds = [1.9, 1.5, 1.8, None, 1.59, -0.5, 1.0]
    found = corrected([point(bound) for bound in bounds], ["a", "a", "b", "b", "c", "d", "e"], shared)
    assert asked == [
        ("a", [0, 1]),
        ("b", [2]),
    ]  # 1.9 and 1.5 lose 0.4, 1.8 loses 0.2, and 1.6 is above all that is left
    expected = [1.5, 1.1, 1.6, None, 1.59 - (np.sqrt(2) - 1), -0.5, 1.0 - (np.sqrt(2) - 1)]
    for one_found, bound in zip(found, expected, strict=True):
        assert one_found.shown == (None if bound is None else pytest.approx(bound))
    factors = [None if one_found.best is None else one_found.best.factor for one_found in found]
    assert [factor is None for factor in factors] == [False, False, False, True, False, True, False]
    assert corrected([point(-0.1), point(None)], ["a", "b"], shared)[0].proofs[0].factor is None
    assert len(asked) == 2


def test_a_gain_that_twice_the_variance_leaves_nothing_of_is_none_and_nothing_is_learned_for_it() -> None:
    one = shown(coins(200, 0.0, 0), (0.6,))[0].estimate
    points = [Judged(one, (Proof(1.0, bound, reach=1.0, error=1.0),)) for bound in (0.4, 0.3, 0.5)]
    asked: list[str] = []

    def shared(path: str, places: Sequence[int]) -> list[list[float | None]]:
        asked.append(path)
        return [[0.0] for _ in places]

    few = corrected(points[:2], ["a", "a"], shared)
    assert asked == []
    assert [found.shown for found in few] == pytest.approx([0.4 - np.sqrt(2) + 1, 0.3 - np.sqrt(2) + 1])
    both = corrected([points[1], points[2]], ["a", "a"], shared)
    assert asked == ["a"]
    assert [found.shown for found in both] == pytest.approx([0.3 - np.sqrt(2) + 1, 0.5])


def test_folds_that_agree_by_luck_claim_no_more_than_one_in_twenty() -> None:
    """Two actions alike; each fold is judged by the action that did better in the others, all or nothing.

    Where folds agree, leaving one out changes nothing, and the gain is that of the better action as everybody saw it:
    above 1.645 errors in a tenth of logs.
    """
    one, rng, folds = shown(coins(200, 0.0, 0), (0.6,))[0].estimate, np.random.default_rng(0), 5
    claims = np.zeros(2)
    for _ in range(2000):
        better = rng.normal(size=folds) / np.sqrt(folds)
        added = better * np.sign(better.sum() - better)
        left_out = {
            (j, k): better[[j, k]] * np.sign(better.sum() - better[j] - better[k])
            for j, k in itertools.combinations(range(folds), 2)
        }
        variance = shared_variance(added, [1] * folds, left_out)
        proof = Proof(added.sum(), added.sum() - norm.ppf(0.95), reach=norm.ppf(0.95), error=1.0)
        claims += proof.knowing(variance).shown > 0, (Judged(one, (proof,)).knowing([variance]).shown or 0.0) > 0
    assert claims[0] / 2000 > 0.065
    assert claims[1] / 2000 < 0.04  # 2% is what an error √2 as large leaves of both tails


def test_only_estimates_that_can_be_trusted_take_part() -> None:
    steps = 12
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, 200 * steps)
    logs = Trajectories(
        np.zeros((200 * steps, 1)), actions, actions * 1.0, np.arange(0, 200 * steps + 1, steps),
        np.full((200 * steps, 2), 0.5),
    )  # fmt: skip
    mild, bold = shown(logs, (0.55, 0.99))
    assert mild.estimate.verdict == "trust"
    assert mild.shown is not None
    assert mild.shown > 0
    assert bold.estimate.verdict != "trust"
    assert bold.shown is None
    assert bold.estimate.low is None
    assert [one.shown for one in shown(logs, (0.55,), least_ess=199.0)] == [None]


def test_wrong_weights_only_lower_what_is_shown() -> None:
    logs = coins(400, effect=1.0, seed=1)
    chances = (0.9, 0.7)
    bounds = [[one.shown for one in shown(logs, chances, gamma)] for gamma in (1.0, 1.2, 2.0)]
    for plain, doubted, more in zip(*bounds, strict=True):
        assert plain is not None
        assert doubted is not None
        assert more is not None
        assert plain > doubted > more
    (evidence,) = Evaluator(logs, SCORING).evidence([Fixed(0.9)])
    value = Evaluator(logs, SCORING).value(evidence, "sntis")[0]
    lost = value - least_value(evidence.used, logs.returns(), 1.2)
    (plain,), (doubted,) = (shown(logs, (0.9,), gamma) for gamma in (1.0, 1.2))
    assert plain.shown is not None
    assert doubted.shown == pytest.approx(plain.shown - lost)


def test_where_nothing_can_be_gained_hardly_anything_is_claimed() -> None:
    chances, claims = (0.05, 0.2, 0.35, 0.65, 0.8, 0.95), 0
    for seed in range(100):
        found = [one.shown for one in shown(coins(200, effect=0.0, seed=seed), chances)]
        assert sum(bound is not None for bound in found) >= 3  # at least half of them take part
        claims += any(bound is not None and bound > 0 for bound in found)
    assert claims <= 10  # of 100 at 5%: more have a chance of 1 in 90


def test_clusters_count_once() -> None:
    logs = coins(100, effect=1.0, seed=2)
    order = np.tile(np.arange(100), 4)
    copies = replace(logs.take(order), clusters=order)  # every episode four times tells no more than once
    (plain,), (copied,) = shown(logs, (0.8,)), shown(copies, (0.8,))
    (believed,) = shown(logs.take(order), (0.8,))
    assert copied.estimate.value == pytest.approx(plain.estimate.value)
    assert copied.shown is not None
    assert believed.shown is not None
    assert plain.shown is not None
    assert copied.shown == pytest.approx(plain.shown, abs=0.05)
    assert believed.shown > copied.shown + 0.05
