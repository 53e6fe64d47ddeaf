"""Learned support: limits by hand, its budget, what it is made without, zeros, odd logs, and files."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poela.behavior.multinomial import MultinomialBehavior
from poela.core.arrays import FloatArray, IntArray
from poela.core.errors import InputError
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import Eligibility
from poela.eligibility.support import (
    cross_fitted_support,
    fit_support,
    has_holes,
    limits,
    looks_back,
    support_of_folds,
)
from poela.eligibility.support_model import SupportedBehavior, SupportModel
from poela.learners.fitted_q import FittedQ
from poela.learners.policy_gradient import POELA
from poela.policies.storage import load_object, load_policy
from poela.studies.defaults import DEFAULT_LEARNERS, default_candidates
from poela.studies.runs import ambition_path

INSIDE, BESIDE = np.array([0.5, 0.5, 0.0]), np.array([0.4, 0.4, 0.2])


def logs_with_a_hole(n: int = 600, seed: int = 0, known: str = "none") -> Trajectories:
    """Where the first feature is above 1, the third action is never taken."""
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(n, 2)).astype(np.float32)
    chances = np.where(contexts[:, :1] > 1, INSIDE, BESIDE)
    actions = (rng.random(n)[:, None] > chances.cumsum(axis=1)[:, :2]).sum(axis=1)
    told = {"none": None, "own": chances[np.arange(n), actions], "all": chances}[known]
    rewards = (actions == 2) * np.where(contexts[:, 0] > 1, -5.0, 1.0) + rng.normal(size=n)
    return Trajectories(contexts, actions, rewards, np.arange(n + 1), told, 3)


def with_actions(logs: Trajectories, actions: IntArray) -> Trajectories:
    return replace(logs, actions=actions)


class TestLimits:
    """Three groups of steps, by what is predicted for the second of two actions: 0 of 20, 8 of 40 and 24 of 40."""

    predicted = np.repeat([0.1, 0.3, 0.6], [20, 40, 40])
    taken = np.concatenate([np.arange(20) < 0, np.arange(40) < 8, np.arange(40) < 24])

    def found(self, share: float) -> tuple[list[float], list[float], float]:
        rows = np.stack([1 - self.predicted, self.predicted], axis=1)
        least, doubtful, barred = limits(rows, np.stack([~self.taken, self.taken], axis=1) * 1.0, share)
        return least.tolist(), doubtful.tolist(), barred

    def below(self, value: float) -> float:
        return float(np.nextafter(value, 0))

    @pytest.mark.parametrize(
        ("share", "second", "first", "barred"),
        [
            # Relative rates with two expected decisions added, at the usual rates 0.32 and 0.68: of the second action
            # 2/8.4 = 0.24, 10/14.8 = 0.68 and 26/14.8; of the first one 18/29.2 = 0.62, 34/29.2 and 22/15.6.
            (0.0, 0.3, None, 0.0),
            (0.02, 0.3, None, 0.0),
            (0.159, 0.3, None, 0.0),
            (0.16, 0.3, 1 - 0.3, 0.16),
            (0.239, 0.3, 1 - 0.3, 0.16),
            (0.24, 0.6, 1 - 0.3, 0.24),
            (1.0, 0.6, 1 - 0.3, 0.24),  # what is taken as often as usual, nearly, is never barred
        ],
    )
    def test_groups_by_hand(self, share: float, second: float, first: float | None, barred: float) -> None:
        least, doubtful, found = self.found(share)
        assert least == [0.0 if first is None else self.below(first), self.below(second)]
        assert found == pytest.approx(barred, abs=1e-12)
        assert doubtful == [self.below(1 - 0.3), self.below(0.6)]  # rates up to 1

    def test_predictions_in_the_wrong_order_are_one_group(self) -> None:
        predicted, taken = np.repeat([0.1, 0.2, 0.6], [20, 20, 60]), np.zeros(100)
        taken[:4], taken[40:] = 1.0, 1.0  # 4 of 20, then 0 of 20: together 4 of 40, at a usual rate of 0.64
        least, _, barred = limits(np.stack([1 - predicted, predicted], 1), np.stack([1 - taken, taken], 1), 0.05)
        assert least[1] == self.below(0.6)  # (4 + 2) / (0.64·40 + 2) = 0.22
        assert barred == pytest.approx(0.04)


@given(
    data=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2)), min_size=2, max_size=60),
    share=st.floats(0, 1),
    as_chances=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_no_more_than_the_budget_is_barred(data: list[tuple[int, int]], share: float, as_chances: bool) -> None:
    kinds, actions = np.array(data).T
    predicted = np.random.default_rng(0).dirichlet(np.ones(3), size=7)[kinds]
    done = np.eye(3)[actions]
    if as_chances:
        done = 0.5 * done + 0.5 * np.eye(3)[(actions + 1) % 3]
    least, doubtful, barred = limits(predicted, done, share)
    without = (done * (predicted <= least)).sum() / len(done)
    assert barred == pytest.approx(without, abs=1e-12)
    assert barred <= share + 1e-12
    assert (doubtful >= least).all()


@pytest.mark.parametrize("share", [0.0, 0.005, 0.02, 0.1])
def test_the_budget_holds_for_episodes_that_a_model_has_not_seen(share: float) -> None:
    logs = logs_with_a_hole()
    support = cross_fitted_support(logs, share, remembers=False)
    assert support is not None
    without = ~support.model.supported(support.held_out)[np.arange(logs.n_steps), logs.actions]
    assert support.model.barred == pytest.approx(without.mean())
    assert without.mean() <= share


def test_a_stricter_budget_supports_no_less() -> None:
    logs = logs_with_a_hole()
    models = [fit_support(logs, share) for share in (0.005, 0.02, 0.1)]
    for mild, strict in pairwise(models):
        assert mild is not None
        assert strict is not None
        assert (mild.least <= strict.least).all()


def test_a_hole_is_barred_and_the_rest_is_not() -> None:
    logs, fresh = logs_with_a_hole(1500), logs_with_a_hole(4000, seed=1)
    mask = Eligibility(support=0.02).fit(logs).mask(fresh.contexts)
    hole = fresh.contexts[:, 0] > 1
    assert mask[hole, 2].mean() < 0.1
    assert mask[~hole, 2].mean() > 0.9
    assert mask[:, :2].mean() > 0.97


def test_what_a_model_says_of_an_episode_is_said_without_it() -> None:
    """Other actions there change nothing of it, and something elsewhere."""
    logs = logs_with_a_hole(300)
    before = cross_fitted_support(logs, 0.02, remembers=False)
    assert before is not None
    own = before.parts == 0
    actions = np.where(own, (logs.actions + 1) % 3, logs.actions)
    after = cross_fitted_support(with_actions(logs, actions), 0.02, remembers=False)
    assert after is not None
    np.testing.assert_array_equal(before.parts, after.parts)
    np.testing.assert_array_equal(before.held_out[own], after.held_out[own])
    assert (before.held_out[~own] != after.held_out[~own]).any()


def test_the_support_of_a_fold_is_made_without_its_episodes() -> None:
    logs, fold_of = logs_with_a_hole(250), np.arange(250) % 4
    before, _ = support_of_folds(logs, fold_of, 0.02, remembers=False)
    for fold in (0, 2):
        actions = np.where(fold_of == fold, np.random.default_rng(fold).permutation(logs.actions), logs.actions)
        after, pairs = support_of_folds(with_actions(logs, actions), fold_of, 0.02, remembers=False)
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            assert one is not None
            assert other is not None
            alike = np.array_equal(one.probabilities(logs.contexts), other.probabilities(logs.contexts))
            assert (alike and np.array_equal(one.least, other.least)) == (number == fold)
        assert len(pairs) == 6


class TestKnownZeros:
    """Where all propensities are logged, zero is zero."""

    def points(self, logs: Trajectories) -> Iterator[tuple[str, Any]]:
        for candidate in default_candidates(DEFAULT_LEARNERS):
            learner: Any = candidate.build()
            quick = {"steps": 30, "warm_start_steps": 30, "batch_size": 32}
            learner = replace(learner, **{name: size for name, size in quick.items() if hasattr(learner, name)})
            checkpoints = list(learner.fit_path(logs, seed=0))
            for point in [*checkpoints, *ambition_path(learner, checkpoints, logs, None)]:
                yield f"{candidate} {point.note}", point.policy

    def test_no_default_learner_nor_mixture_goes_there(self) -> None:
        logs = logs_with_a_hole(250, known="all")
        assert logs.propensities is not None
        never = logs.propensities == 0
        assert never.any()
        names = []
        for name, policy in self.points(logs):
            names.append(name)
            assert policy.along(logs)[never].max() == 0, name
        assert len(names) > 30

    def test_a_model_of_the_logging_policy_that_overlooks_them_changes_nothing(self) -> None:
        logs, fresh = logs_with_a_hole(800, known="all"), logs_with_a_hole(400, seed=1)
        smooth = MultinomialBehavior(penalty=1e4).fit(logs)
        assert smooth.probabilities(fresh.contexts)[:, 2].min() > 0.05
        policy = FittedQ(temperature=0.5, temperatures=(), history=0, rule=Eligibility(support=0.02))
        learned = policy.fit(logs, behavior=smooth)
        assert logs.propensities is not None
        assert learned.along(logs)[logs.propensities == 0].max() == 0
        assert learned.along(fresh)[fresh.contexts[:, 0] > 1.2, 2].max() == 0
        assert learned.along(fresh)[fresh.contexts[:, 0] < 0.8, 2].min() > 0

    def test_holes_are_told_from_none(self) -> None:
        assert has_holes(logs_with_a_hole(50, known="all")) is True
        assert has_holes(logs_with_a_hole(50, known="own")) is None
        everywhere = logs_with_a_hole(50).with_propensities(np.tile(BESIDE, (50, 1)))
        assert has_holes(everywhere) is False
        assert fit_support(everywhere, 0.02) is None


def remembering(episodes: int = 400, steps: int = 3, seed: int = 0) -> Trajectories:
    """Contexts are noise; the second action is never taken twice in a row."""
    rng = np.random.default_rng(seed)
    actions = np.zeros((episodes, steps), np.int64)
    for step in range(steps):
        may = np.ones(episodes, bool) if step == 0 else actions[:, step - 1] == 0
        actions[:, step] = may & (rng.random(episodes) < 0.6)
    n = episodes * steps
    return Trajectories(rng.normal(size=(n, 2)), actions.ravel(), np.zeros(n), np.arange(0, n + 1, steps))


def test_a_logging_policy_that_remembers_has_support_by_history() -> None:
    logs, fresh = remembering(), remembering(100, seed=1)
    assert looks_back(logs, None)
    fitted = Eligibility(support=0.02).fit(logs)
    assert fitted.support is not None
    assert fitted.support.needs == "history"
    mask = fitted.along(fresh).mask
    after_second = np.append(False, fresh.actions[:-1] == 1) & (fresh.step_numbers > 0)
    assert mask[after_second, 1].mean() < 0.05
    assert mask[~after_second, 1].mean() > 0.95
    actor = fitted.support.actor(fresh.n_episodes)
    along = fitted.support.along(fresh).reshape(-1, 3, 2)
    for step in range(3):
        rows = actor.probabilities(fresh.contexts[step::3])
        np.testing.assert_allclose(rows, along[:, step], atol=1e-12)
        actor.record(fresh.actions[step::3])


class TestOddLogs:
    """Whatever the size, there is a rule, and it allows something everywhere."""

    @pytest.mark.parametrize(("n", "actions"), [(200, 1), (200, 2), (200, 30), (5, 3), (1, 2), (2, 2)])
    def test_any_size(self, n: int, actions: int) -> None:
        rng = np.random.default_rng(0)
        contexts = rng.normal(size=(n, 2))
        logs = Trajectories(contexts, rng.integers(actions, size=n), np.zeros(n), np.arange(n + 1), None, actions)
        mask = Eligibility(support=0.02).fit(logs).along(logs).mask
        assert mask.shape == (n, actions)
        assert mask.any(axis=1).all()
        if n > 100:
            assert mask[np.arange(n), logs.actions].mean() > 0.9

    def test_one_episode_teaches_no_rule(self) -> None:
        logs = Trajectories(np.zeros((9, 1)), np.arange(9) % 2, np.zeros(9), [0, 9])
        assert fit_support(logs, 0.02) is None
        assert Eligibility(support=0.02).fit(logs).along(logs).mask.all()

    def test_an_action_that_was_never_taken_has_no_support(self) -> None:
        rng = np.random.default_rng(0)
        logs = Trajectories(
            rng.normal(size=(200, 2)), rng.integers(2, size=200), np.zeros(200), np.arange(201), None, 3
        )
        mask = Eligibility(support=0.02).fit(logs).mask(rng.normal(size=(50, 2)))
        assert not mask[:, 2].any()
        assert mask[:, :2].mean() > 0.9

    def test_the_hole_of_one_of_two_actions(self) -> None:
        rng = np.random.default_rng(0)
        contexts = rng.normal(size=(800, 2))
        actions = (contexts[:, 0] < 1) & (rng.random(800) < 0.3)
        logs = Trajectories(contexts, actions.astype(int), np.zeros(800), np.arange(801))
        mask = Eligibility(support=0.02).fit(logs).mask(np.array([[2.0, 0.0], [-1.0, 0.0]]))
        np.testing.assert_array_equal(mask, [[True, False], [True, True]])


class TestFiles:
    """Support in files: equal after loading, refused where changed."""

    contexts = np.random.default_rng(3).normal(size=(40, 2))

    def model(self) -> SupportModel:
        model = fit_support(logs_with_a_hole(200), 0.02)
        assert model is not None
        return model

    @pytest.mark.parametrize("known", ["none", "all"])
    def test_a_model_and_practice_within_it(self, known: str) -> None:
        logs = logs_with_a_hole(200, known=known)
        model = fit_support(logs, 0.02)
        assert model is not None
        behavior = MultinomialBehavior().fit(logs)
        for one in (model, SupportedBehavior(behavior, model)):
            loaded = load_object(one.stored())
            assert isinstance(loaded, type(one))
            np.testing.assert_array_equal(loaded.probabilities(self.contexts), one.probabilities(self.contexts))
        loaded = load_object(model.stored())
        assert (loaded.barred, loaded.rates.tolist()) == (model.barred, model.rates.tolist())
        for name in ("supported", "shortfall"):
            rows = model.probabilities(self.contexts)
            np.testing.assert_array_equal(getattr(loaded, name)(rows), getattr(model, name)(rows))

    def test_a_model_that_remembers(self) -> None:
        logs = remembering(100)
        model = cross_fitted_support(logs, 0.02, remembers=True)
        assert model is not None
        np.testing.assert_array_equal(load_object(model.model.stored()).along(logs), model.model.along(logs))

    @pytest.mark.parametrize("price", [None, 1.0])
    def test_policies_under_the_rule(self, price: float | None, tmp_path: Path) -> None:
        logs = logs_with_a_hole(200, known="own")
        policy = POELA(price=price, steps=5, warm_start_steps=5).fit(logs, seed=0)
        policy.save(tmp_path / "policy")
        loaded = load_policy(tmp_path / "policy")
        np.testing.assert_array_equal(loaded.probabilities(self.contexts), policy.probabilities(self.contexts))
        assert loaded.eligibility.settings == policy.eligibility.settings

    @pytest.mark.parametrize(
        ("name", "value", "sentence"),
        [
            ("least", np.array([0.1, 0.1]), "least"),
            ("least", np.array([0.1, 0.1, 1.5]), "least"),
            ("doubtful", np.array([0.1, 0.1, np.nan]), "doubtful"),
            ("rates", np.array([0.1, -0.1, 0.3]), "rates"),
        ],
    )
    def test_changed_limits_are_refused(self, name: str, value: FloatArray, sentence: str) -> None:
        stored = self.model().stored()
        with pytest.raises(InputError, match=sentence):
            load_object(replace(stored, arrays={**stored.arrays, name: value}))

    def test_missing_or_foreign_parts_are_refused(self) -> None:
        stored = self.model().stored()
        with pytest.raises(InputError, match="model_0"):
            load_object(replace(stored, parts={}))
        with pytest.raises(InputError, match="model_1"):
            load_object(replace(stored, parts={**stored.parts, "model_1": stored}))
        with pytest.raises(InputError, match="barred"):
            load_object(replace(stored, settings={"barred": 2.0}))
        other = cross_fitted_support(remembering(100), 0.02, remembers=True)
        assert other is not None
        mixed = {**stored.parts, "model_1": other.model.stored().parts["model_1"]}
        with pytest.raises(InputError):
            load_object(replace(stored, parts=mixed))
        within = SupportedBehavior(MultinomialBehavior().fit(logs_with_a_hole(200)), self.model()).stored()
        with pytest.raises(InputError, match="a model of support"):
            load_object(replace(within, parts={**within.parts, "support": within.parts["behavior"]}))
