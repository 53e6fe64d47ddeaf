"""Kinds of value regressions against cell means, closed forms and known effects, and how one is chosen."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poela.core.arrays import FloatArray
from poela.data.trajectories import Trajectories
from poela.learners import value_learner as value_kinds
from poela.learners.fitted_q import FittedQ
from poela.learners.value_learner import FEWEST_UNITS, kinds_for
from poela.policies.storage import load_policy
from poela.regression.backward_induction import BackwardInduction, Kind, best, expected
from poela.regression.step_features import MOST_CODED_IN_PAIRS, Coding
from poela.regression.step_regression import StepRidge
from poela.regression.step_values import CodedStep, RidgeStep
from poela.simulators.episodes import run
from poela.simulators.registry import simulate
from poela.simulators.tabular import TablePolicy, TabularMDP


def parity(seed: int, episodes: int = 2000) -> tuple[Trajectories, FloatArray]:
    """Codes 0 … 3 in three columns; what action 1 adds is 1 where the first two have an even sum, else −1."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(4, size=(episodes, 3))
    effect = np.where(codes[:, :2].sum(axis=1) % 2 == 0, 1.0, -1.0)
    actions = rng.integers(2, size=episodes)
    rewards = codes[:, 2] + effect * (actions - 0.5) + rng.normal(size=episodes)
    return Trajectories(codes, actions, rewards, np.arange(episodes + 1), np.full((episodes, 2), 0.5)), effect


def kind_of(logs: Trajectories, **settings: Any) -> Kind:
    assert logs.propensities is not None
    kind = FittedQ(**({"history": 0} | settings)).kind(logs, logs.propensities)
    assert isinstance(kind, str)
    return kind


def fitted(logs: Trajectories, kind: Kind, **settings: Any) -> Any:
    ((values, _),) = BackwardInduction(logs, regressor=kind, **settings).values(best())
    return values


def test_one_column_of_codes_gives_the_means_of_its_cells() -> None:
    rng = np.random.default_rng(0)
    codes, actions = rng.integers(6, size=3000), rng.integers(3, size=3000)
    means = rng.normal(size=(6, 3))
    rewards = means[codes, actions] + 0.1 * rng.normal(size=3000)
    logs = Trajectories(codes[:, None], actions, rewards, np.arange(3001))
    cells = np.array([[rewards[(codes == c) & (actions == a)].mean() for a in range(3)] for c in range(6)])
    asked, steps = np.arange(6.0, dtype=np.float32)[:, None], np.zeros(6, np.int64)
    found = fitted(logs, "coded", penalties=[1e-6]).q_at(asked, steps)
    np.testing.assert_allclose(found, cells, atol=1e-6)
    # A quadratic has three numbers for six cells.
    assert np.abs(fitted(logs, "ridge", penalties=[1e-6]).q_at(asked, steps) - cells).max() > 0.3


def test_two_columns_of_codes_give_the_means_of_their_cells() -> None:
    rng = np.random.default_rng(1)
    codes = rng.integers(3, size=(2000, 2))
    rewards = rng.normal(size=(3, 3))[codes[:, 0], codes[:, 1]] + 0.1 * rng.normal(size=2000)
    logs = Trajectories(codes, np.zeros(2000, np.int64), rewards, np.arange(2001), n_actions=1)
    cells = np.array([[rewards[(codes == [i, j]).all(axis=1)].mean() for j in range(3)] for i in range(3)])
    asked = np.array([[i, j] for i in range(3) for j in range(3)], np.float32)
    found = fitted(logs, "coded", penalties=[1e-6]).q_at(asked, np.zeros(9, np.int64))
    np.testing.assert_allclose(found.reshape(3, 3), cells, atol=1e-6)


def test_codes_are_columns_of_three_to_twelve_numbers() -> None:
    rng = np.random.default_rng(0)
    columns = [rng.integers(levels, size=400) for levels in (2, 3, 12, 13)]
    coding = Coding.of(np.column_stack([*columns, rng.normal(size=400)]).astype(np.float32))
    assert coding.plain.tolist() == [0, 3, 4]
    assert coding.columns.tolist() == [1] * 2 + [2] * 11
    assert coding.levels.tolist() == [1, 2, *range(1, 12)]
    # Squares of columns that stay, and products of different columns: 3 + 3 + 3·13 + 2·11.
    assert len(coding.pairs[0]) == 67
    unseen = coding.expand(np.array([[1, 9, -1, 5, 0.5]], np.float32))
    np.testing.assert_array_equal(unseen, [[1, 5, 0.5, *[0] * 13]])


def test_many_indicators_are_not_multiplied() -> None:
    codes = np.tile(np.arange(12), (4, 1)).T.astype(np.float32)
    coding = Coding.of(np.tile(codes, (20, 1)))
    assert coding.width == 44 > MOST_CODED_IN_PAIRS
    assert coding.n_products == 1 + 44


PROBLEM = TabularMDP(
    transitions=[[[0.7, 0.3], [0.2, 0.8]], [[0.5, 0.5], [0.1, 0.4]]],
    rewards=[[1.0, -0.5], [0.3, 2.0]],
    initial=[0.6, 0.4],
    horizon=1,
)


@pytest.mark.parametrize("kind", ["linear", "pooled", "coded", "shallow"])
def test_every_kind_finds_the_exact_q_of_a_single_decision(kind: Kind) -> None:
    logs = run(PROBLEM, TablePolicy(PROBLEM, [[0.4, 0.6], [0.6, 0.4]]), episodes=1000, seed=0)
    found = fitted(logs, kind).q_at(PROBLEM.observations, np.zeros(2, np.int64))
    np.testing.assert_allclose(found, PROBLEM.rewards, atol=0.02)


def stationary(seed: int, episodes: int = 200) -> Trajectories:
    """Six steps that do not touch each other: action a adds the feature of its number, whatever the step."""
    rng = np.random.default_rng(seed)
    contexts, actions = rng.normal(size=(6 * episodes, 4)), rng.integers(4, size=6 * episodes)
    rewards = contexts[np.arange(len(actions)), actions] + rng.normal(size=6 * episodes)
    chances = np.full((6 * episodes, 4), 0.25)
    return Trajectories(contexts, actions, rewards, np.arange(0, 6 * episodes + 1, 6), chances)


@pytest.mark.parametrize("kind", ["pooled", "coded"])
def test_values_that_are_kept_are_those_with_the_number_of_the_step(kind: Kind) -> None:
    logs = stationary(0)
    contexts = np.column_stack([logs.contexts, np.arange(logs.n_steps) % 5])
    logs = replace(logs, contexts=contexts, feature_names=tuple("abcde"))
    assert logs.propensities is not None
    induction = BackwardInduction(logs, regressor=kind)
    ((values, training),) = induction.values(expected(logs.propensities.T[:, :, None]))
    # In training Q is computed with the step as a feature; what is kept has it folded into the coefficients.
    np.testing.assert_allclose(values.q(logs), training, atol=1e-9)


def test_pooled_regressions_know_more_of_effects_that_do_not_change() -> None:
    logs, fresh = stationary(3), stationary(4)
    errors = {}
    for kind in ("ridge", "pooled"):
        q = fitted(logs, kind).q(fresh)
        effects = fresh.contexts - fresh.contexts.mean(axis=1, keepdims=True)
        errors[kind] = float(np.square(q - q.mean(axis=1, keepdims=True) - effects).mean())
    assert errors["pooled"] < 0.7 * errors["ridge"]
    assert kind_of(logs) == "pooled"


def test_kinds_that_are_tried() -> None:
    assert kinds_for(parity(0)[0]) == ["linear", "ridge", "coded", "shallow"]
    assert kinds_for(stationary(0)) == ["ridge", "pooled"]
    rng = np.random.default_rng(0)
    many = Trajectories(rng.normal(size=(300, 25)), rng.integers(2, size=300), np.zeros(300), np.arange(301))
    assert kinds_for(many) == [
        "linear",
        "ridge",
        "coded",
        "shallow",
    ]  # too many columns for plain products, not for coded ones


def test_what_takes_too_long_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_kinds, "MOST_WORK", 1e6)
    monkeypatch.setattr(value_kinds, "MOST_TREE_ROWS", 3999)
    assert kinds_for(parity(0)[0]) == ["linear", "ridge"]


def test_the_parity_of_codes_is_found_by_the_choice_and_not_by_ridge() -> None:
    logs, _ = parity(11)
    fresh, effect = parity(12)
    assert kind_of(logs) == "coded"
    gains = {}
    for regressor in ("ridge", "auto"):
        chosen = FittedQ(regressor=regressor, history=0).fit(logs).along(fresh)[:, 1]
        gains[regressor] = float((effect * (chosen - 0.5)).mean())  # 0.5 at best
    assert gains["auto"] > 0.45
    assert gains["ridge"] < 0.15


def test_an_effect_above_a_threshold_is_found_by_shallow_trees() -> None:
    rng = np.random.default_rng(21)
    contexts, actions = rng.normal(size=(4000, 3)), rng.integers(2, size=4000)
    effect = np.where((contexts[:, 0] > 0.5) & (contexts[:, 1] > 0), 2.0, -0.5)
    rewards = effect * actions + rng.normal(size=4000)
    logs = Trajectories(contexts, actions, rewards, np.arange(4001), np.full((4000, 2), 0.5))
    assert kind_of(logs) == "shallow"


@pytest.mark.parametrize("history", [0, 2])
def test_the_tumor_takes_ridges_as_before(history: int) -> None:
    logs = simulate("tumor", 400, seed=31)
    assert kind_of(logs, history=history) == "ridge"
    auto, ridge = (
        FittedQ(history=history, temperature=2.0, temperatures=(), regressor=regressor).fit(logs)
        for regressor in ("auto", "ridge")
    )
    few = logs.take(np.arange(20))
    np.testing.assert_array_equal(auto.along(few), ridge.along(few))


def test_prognosis_alone_changes_nothing() -> None:
    # Returns follow the codes in a way that no quadratic knows, but actions do nothing: their effects decide.
    logs, _ = parity(5)
    prognosis = np.where(logs.contexts[:, :2].sum(axis=1) % 2 == 0, 3.0, -3.0)
    rewards = prognosis + np.random.default_rng(0).normal(size=logs.n_steps)
    chosen = kind_of(replace(logs, rewards=rewards))
    assert chosen in kinds_for(logs)
    q = FittedQ(history=0).fit(replace(logs, rewards=rewards)).values.q(logs)
    assert np.abs(q[:, 1] - q[:, 0]).mean() < 0.3


def test_few_episodes_keep_the_simplest() -> None:
    logs, _ = parity(11)
    assert kind_of(logs.take(np.arange(FEWEST_UNITS - 1))) == "linear"
    assert kind_of(stationary(0).take(np.arange(FEWEST_UNITS - 1))) == "ridge"


def lines(seed: int, bend: float, episodes: int = 400) -> tuple[Trajectories, FloatArray]:
    """Five actions, each worth its own line in three features, bent by `bend` times the square of the first."""
    rng = np.random.default_rng(seed)
    slopes = np.random.default_rng(1).normal(size=(3, 5))
    contexts, actions = rng.normal(size=(episodes, 3)), rng.integers(5, size=episodes)
    effects = 0.5 * contexts @ slopes + bend * np.square(contexts[:, :1]) * slopes[0]
    rewards = effects[np.arange(episodes), actions] + rng.normal(size=episodes)
    return Trajectories(contexts, actions, rewards, np.arange(episodes + 1), np.full((episodes, 5), 0.2)), effects


def test_lines_are_kept_where_effects_are_linear_and_left_where_they_are_not() -> None:
    assert kind_of(lines(3, bend=0.0)[0]) == "linear"
    assert kind_of(lines(3, bend=1.0)[0]) == "ridge"


def test_lines_gain_more_than_quadratics_where_effects_are_linear() -> None:
    fresh, effects = lines(99, bend=0.0, episodes=4000)
    gains = {}
    for kind in ("linear", "ridge"):
        policies = [FittedQ(history=0, regressor=kind).fit(lines(seed, bend=0.0)[0]) for seed in range(4)]
        gains[kind] = np.mean([(policy.along(fresh) * effects).sum(axis=1).mean() for policy in policies])
    assert gains["linear"] > 1.03 * gains["ridge"]


def test_linear_values_are_ridges_without_products() -> None:
    logs, _ = lines(4, bend=0.3)
    induction = BackwardInduction(logs, regressor="linear")
    assert logs.propensities is not None
    ((values, training),) = induction.values(expected(logs.propensities.T[:, :, None]))
    np.testing.assert_allclose(values.q(logs), training, atol=1e-9)
    (step,) = values.models
    assert isinstance(step, RidgeStep)
    assert not step.coefficients[:, 4:].any()
    assert step.coefficients[:, :4].all()
    design = np.hstack([np.ones((400, 1)), logs.contexts])
    free = fitted(logs, "linear", penalties=[1e-9]).q(logs)
    for action in range(5):  # without a penalty, the least squares of each action's own rows
        own = logs.actions == action
        line = np.linalg.lstsq(design[own], logs.rewards[own], rcond=None)[0]
        np.testing.assert_allclose(free[:, action], design @ line, atol=1e-4)


def test_episodes_of_one_cluster_are_held_out_together(monkeypatch: pytest.MonkeyPatch) -> None:
    logs, _ = parity(11, episodes=200)
    clusters = np.arange(200) // 4
    fitted_on: list[set[int]] = []
    made = BackwardInduction.__init__

    def noted(self: BackwardInduction, train: Trajectories, **how: Any) -> None:
        made(self, train, **how)
        if how.get("episodes") is not None:
            fitted_on.append(set(clusters[how["episodes"]].tolist()))

    monkeypatch.setattr(BackwardInduction, "__init__", noted)
    kind_of(replace(logs, clusters=clusters))
    assert len(fitted_on) == 8
    assert all(len(one) == 25 for one in fitted_on)
    assert fitted_on[0].isdisjoint(fitted_on[1])


def test_the_same_log_gives_the_same_bits_whatever_the_seed() -> None:
    logs, _ = parity(11)
    again, _ = parity(11)
    one, other = FittedQ(temperature=1.0).fit(logs, seed=0), FittedQ(temperature=1.0).fit(again, seed=7)
    np.testing.assert_array_equal(one.along(logs), other.along(logs))


def test_the_kind_is_chosen_once_for_learners_that_share_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[int] = []
    prepare = StepRidge.of

    def counted(*given: Any, **how: Any) -> StepRidge:
        prepared.append(1)
        return prepare(*given, **how)

    monkeypatch.setattr(StepRidge, "of", counted)
    logs, _ = parity(11)
    FittedQ(history=0).fit(logs)
    assert len(prepared) == 3 * 2 + 1  # three kinds of ridges on two halves, then the chosen one
    FittedQ(history=0, backup="soft").fit(logs)
    assert len(prepared) == 7


def test_coded_values_are_stored_exactly(tmp_path: Path) -> None:
    logs, _ = parity(11)
    policy = FittedQ(temperature=0.5, history=0).fit(logs)
    assert isinstance(policy.values.models[0], CodedStep)
    policy.save(tmp_path / "policy")
    np.testing.assert_array_equal(load_policy(tmp_path / "policy").along(logs), policy.along(logs))
