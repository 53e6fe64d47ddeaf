"""The paper's counter-examples: the values that the paper's text implies, by listing every policy or episode."""

import itertools

import numpy as np
import pytest

from poela.core.errors import InputError
from poela.simulators.episodes import run
from poela.simulators.tabular import DECOY, GAMBLE, SAFE, Bandit, HiddenBranch, TablePolicy


def first_action(example: HiddenBranch, action: int) -> TablePolicy:
    """Starts with the action, then acts like the logging policy."""
    table = example.behavior.table.copy()
    table[:2] = np.eye(len(example.action_names))[action]
    return TablePolicy(example, table)


@pytest.mark.parametrize(("n_contexts", "n_actions"), [(2, 2), (20, 10), (8, 6)])
def test_bandit_pays_as_the_paper_says(n_contexts: int, n_actions: int) -> None:
    bandit = Bandit(n_contexts, n_actions)
    positive, negative = bandit.rewards[: n_contexts // 2], bandit.rewards[n_contexts // 2 :]
    assert (np.sort(positive, axis=1) == [0.0] * (n_actions - 1) + [1.0]).all()
    assert (np.sort(negative, axis=1) == [-5.0] * (n_actions // 2) + [-1.0] * (n_actions // 2)).all()
    assert bandit.optimal()[0] == pytest.approx(bandit.best_value, abs=1e-12)
    # Uniform actions: half of 1/A, and half of −3.
    assert bandit.value(bandit.behavior) == pytest.approx(0.5 / n_actions - 1.5, abs=1e-12)


@pytest.mark.parametrize("horizon", [2, 3, 4, 8])
def test_first_actions_of_the_hidden_branch(horizon: int) -> None:
    example = HiddenBranch(horizon)
    assert example.value(first_action(example, SAFE)) == pytest.approx(0, abs=1e-12)
    assert example.value(first_action(example, GAMBLE)) == pytest.approx(-2, abs=1e-12)
    assert example.optimal()[0] == pytest.approx(example.best_value, abs=1e-12)


@pytest.mark.parametrize("horizon", [2, 3, 8])
def test_first_actions_with_the_decoy(horizon: int) -> None:
    example = HiddenBranch(horizon, decoy=True)
    values = [example.value(first_action(example, action)) for action in (SAFE, GAMBLE, DECOY)]
    assert values == pytest.approx([0, -2, -5], abs=1e-12)
    assert example.value(example.behavior) == pytest.approx(-7 / 3, abs=1e-12)


@pytest.mark.parametrize("decoy", [False, True])
@pytest.mark.parametrize("horizon", [2, 3, 6])
def test_every_sequence_of_choices_is_equally_likely_and_ends_in_the_loss(horizon: int, decoy: bool) -> None:
    example = HiddenBranch(horizon, decoy)
    logs, chances = example.episodes_of(example.behavior)
    assert chances.sum() == pytest.approx(1, abs=1e-12)
    branched = np.flatnonzero(logs.returns() == -5)
    branched = branched[logs.actions[logs.offsets[branched]] == GAMBLE]
    assert len(branched) == 2 ** (horizon - 1)
    assert (logs.lengths[branched] == horizon).all()
    assert chances[branched] == pytest.approx(0.5 / (3 if decoy else 2) / 2 ** (horizon - 1), abs=1e-12)


def test_contexts_are_histories() -> None:
    example = HiddenBranch(horizon=4)
    logs, _ = example.every_episode()
    assert example.feature_names == ("branch", "choice_1", "choice_2")
    for episode in np.flatnonzero(logs.lengths == 4):
        rows = slice(logs.offsets[episode], logs.offsets[episode + 1])
        signs = 2 * logs.actions[rows] - 1
        expected = [[0, 0, 0], [1, 0, 0], [1, signs[1], 0], [1, signs[1], signs[2]]]
        assert logs.contexts[rows].tolist() == expected


def test_the_decoy_looks_like_the_safe_action() -> None:
    example = HiddenBranch(horizon=3, decoy=True)
    logs, _ = example.every_episode()
    firsts = logs.actions[logs.offsets[:-1]]
    waiting = {
        action: {
            tuple(logs.contexts[logs.offsets[episode] + 1].tolist()) for episode in np.flatnonzero(firsts == action)
        }
        for action in (SAFE, DECOY)
    }
    assert waiting[SAFE] == waiting[DECOY] == {(0.0, 0.0, 1.0)}


def test_no_policy_of_what_is_observed_beats_the_safe_action() -> None:
    example = HiddenBranch(horizon=3)
    contexts = np.unique(example.observations, axis=0)
    best = -np.inf
    for choices in itertools.product((0, 1), repeat=len(contexts)):
        table = np.eye(2)[[choices[np.flatnonzero((contexts == row).all(axis=1))[0]] for row in example.observations]]
        best = max(best, example.value(TablePolicy(example, table)))
    assert best == pytest.approx(0, abs=1e-12)


def test_importance_sampling_is_fooled_where_the_data_are_few() -> None:
    """The paper's point: some policy that starts with the gamble looks perfect, and the more so the longer H."""
    example = HiddenBranch(horizon=8)
    logs = run(example, example.behavior, episodes=64, seed=0)
    gambled = logs.actions[logs.offsets[:-1]] == GAMBLE
    assert len(set(logs.lengths.tolist())) == 2
    unlucky = gambled & (logs.lengths == 8)
    seen = {
        tuple(logs.actions[logs.offsets[episode] + 1 : logs.offsets[episode + 1]])
        for episode in np.flatnonzero(unlucky)
    }
    assert len(seen) < 2**7  # so an unseen sequence exists, on which no unlucky episode has weight
    assert logs.returns()[gambled & ~unlucky].mean() == 1


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="even"):
        Bandit(n_contexts=3)
    with pytest.raises(InputError, match="from 2 to 11"):
        HiddenBranch(horizon=1)
