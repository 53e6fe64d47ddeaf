"""The clinic: its dynamics by hand, its logging policy, and that it is the hard case it is meant to be."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poela.cli import main
from poela.core.arrays import FloatArray
from poela.core.errors import InputError
from poela.core.policy import Memoryless
from poela.data.tables import read_logs
from poela.evaluation.evaluate import evaluate
from poela.evaluation.rollouts import compare, true_value
from poela.learners.fitted_q import FittedQ
from poela.simulators.clinic import BURDENS, HABITS, SHARES, SHOWS, STRENGTHS, WORKS, Clinic, ClinicBehavior
from poela.simulators.episodes import GeneratorNoise, Noise, run
from poela.simulators.registry import simulate


class Fixed(Noise):
    """Chosen numbers in place of chance, one call after the other."""

    def __init__(self, *calls: Any) -> None:
        self._calls = [np.atleast_2d(np.asarray(call, float)) for call in calls]

    def uniform(self, columns: int) -> FloatArray:
        found = self._calls.pop(0)
        assert found.shape[1] == columns
        return found

    normal = uniform


class Always(Memoryless):
    def __init__(self, action: int) -> None:
        self.action = action

    def probabilities(self, contexts: Any) -> FloatArray:
        return np.tile(np.eye(16)[self.action], (len(contexts), 1))


STILL = [0.0] * 5


def test_a_visit_by_hand() -> None:
    clinic = Clinic()
    state = clinic.reset(1, Fixed([0.7], [0.0] * 6, STILL))  # 0.35 + 0.3 < 0.7: the third disease
    assert state.disease.tolist() == [2]
    np.testing.assert_allclose(clinic.contexts(state), [[1.08, 0.72, 3.6, 2.16, 1.08, 0.0, 0.0]], rtol=1e-6)
    # Drug C in a high dose: 3.6 + 0.35 − 1.2·1.1 = 2.63; side effects 0.8; remission: 1/(1 + e^2.219) = 0.0981.
    for luck, healed in ((0.098, True), (0.099, False)):
        after, reward, ended = clinic.step(state, np.array([10]), Fixed([0.0], [luck, 1.0], STILL))
        assert after.severity[0] == pytest.approx(2.63)
        assert after.burden[0] == pytest.approx(0.8)
        assert reward[0] == pytest.approx(99.2 if healed else -0.8)
        assert ended[0] == healed
    # The chance of dropout: 1/(1 + exp(6 − 0.3·2.63 − 0.5·0.8)) = 0.00807.
    for luck, lost in ((0.0080, True), (0.0081, False)):
        _, reward, ended = clinic.step(state, np.array([10]), Fixed([0.0], [1.0, luck], STILL))
        assert reward[0] == pytest.approx(-20.8 if lost else -0.8)
        assert ended[0] == lost


def test_patients_of_every_disease_come_in_their_shares() -> None:
    state = Clinic().reset(50_000, GeneratorNoise(np.random.default_rng(0), 50_000))
    shares = np.bincount(state.disease, minlength=4) / 50_000
    assert np.abs(shares - SHARES).max() < 4 * np.sqrt(0.25 / 50_000)
    assert np.log(state.severity / 3.6).std() == pytest.approx(0.25, rel=0.02)


def test_tables_belong_together() -> None:
    assert SHARES.sum() == pytest.approx(1)
    assert SHOWS.shape == (len(SHARES), len(HABITS))
    assert len(Clinic.action_names) == WORKS.shape[1] * len(STRENGTHS) == HABITS.shape[1] * len(BURDENS) == 16


def test_good_episodes_end_early_and_none_has_more_than_eight_visits() -> None:
    logs = simulate("clinic", episodes=4000, seed=0)
    assert logs.lengths.max() == 8
    assert logs.lengths.min() == 1
    np.testing.assert_array_equal(logs.contexts[:, -1], logs.step_numbers)
    last = logs.offsets[1:] - 1
    assert (np.delete(logs.rewards, last) <= 0).all()  # only an end pays
    returns = logs.returns()
    means = [returns[(logs.lengths >= low) & (logs.lengths < high)].mean() for low, high in ((1, 4), (4, 7), (7, 9))]
    assert means[0] > means[1] > means[2] + 20
    lost = logs.rewards[last] < -15
    assert 0.05 < lost.mean() < 0.5
    assert (logs.lengths[lost] < 8).any()


def test_propensities_are_the_frequencies_and_what_was_asked_for() -> None:
    logs = simulate("clinic", episodes=5000, seed=0)
    assert logs.propensities is not None
    taken = np.eye(16)[logs.actions]
    excess = (taken - logs.propensities).sum(axis=0)
    spread = np.sqrt((logs.propensities * (1 - logs.propensities)).sum(axis=0))
    assert np.abs(excess / spread).max() < 4
    assert logs.propensities.min() > 1e-4
    alone, none = (simulate("clinic", episodes=5000, seed=0, propensities=kind) for kind in ("logged", "none"))
    np.testing.assert_array_equal(alone.propensities, logs.logged_propensities)
    assert none.propensities is None
    for other in (alone, none):
        np.testing.assert_array_equal(other.actions, logs.actions)
        np.testing.assert_array_equal(other.contexts, logs.contexts)


def test_without_an_effect_every_policy_has_the_same_episodes() -> None:
    policies = {"as now": ClinicBehavior(), **{str(action): Always(action) for action in (0, 7, 15)}}
    together = compare(policies, Clinic(effect=0.0), episodes=500)
    for action in ("0", "7", "15"):
        np.testing.assert_array_equal(together.returns[action], together.returns["as now"])
    matters = compare(policies, Clinic(), episodes=500)
    gap = matters.difference("as now", "0")
    assert gap.value > 5 * gap.standard_error


def test_contexts_do_not_tell_the_disease() -> None:
    state = Clinic().reset(4000, GeneratorNoise(np.random.default_rng(0), 4000))
    shown = Clinic().contexts(state)[:, :5].astype(float)
    centres = np.stack([shown[state.disease == disease].mean(axis=0) for disease in range(4)])
    guessed = np.square(shown[:, None] - centres).sum(axis=2).argmin(axis=1)
    assert 0.4 < (guessed == state.disease).mean() < 0.95


@pytest.mark.parametrize("seed", [20, 24])
def test_plain_importance_sampling_grossly_overestimates_a_strongly_tilted_policy(seed: int) -> None:
    """Only short, lucky episodes keep weight: the mean weight is far below 1, and the verdict must notice."""
    simulator, behavior = Clinic(), ClinicBehavior()
    train, test = (run(simulator, behavior, 2000, seed=start + seed) for start in (100, 200))
    policy = FittedQ(temperatures=(), temperature=2.0, history=0, regressor="ridge").fit(train, behavior=behavior)
    estimate = evaluate(policy, test, interval=None)
    claimed = estimate.value - test.returns().mean()
    truth = true_value(policy, simulator, 4000).value - true_value(behavior, simulator, 4000).value
    assert claimed > truth + 15
    assert estimate.diagnostics.mean_weight < 0.6
    assert estimate.ess > 25
    assert estimate.verdict != "trust"


@pytest.mark.parametrize("option", ["effect=-1", "effect=nan", "effect=much", "propensities=some", "drug=A"])
def test_options_that_cannot_be_are_refused(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["simulate", "clinic", "--episodes", "5", "--out", str(tmp_path / "logs.csv"), "--option", option]
    assert main(command) == 2
    said = capsys.readouterr().err
    assert option.split("=")[0] in said
    assert "Traceback" not in said
    assert not (tmp_path / "logs.csv").exists()
    with pytest.raises(InputError, match="effect"):
        Clinic(effect=float("nan"))


@pytest.mark.parametrize("kind", ["all", "logged", "none"])
def test_the_command_writes_what_can_be_read_again(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "logs.parquet"
    options = ["--option", f"propensities={kind}", "--option", "effect=0"]
    assert main(["simulate", "clinic", "--episodes", "30", "--seed", "3", "--out", str(path), *options]) == 0
    found, made = read_logs(path), simulate("clinic", episodes=30, seed=3, effect=0.0, propensities=kind)
    np.testing.assert_array_equal(found.contexts, made.contexts)
    np.testing.assert_array_equal(found.rewards, made.rewards)
    if kind == "none":
        assert found.propensities is None
    else:
        np.testing.assert_allclose(found.logged_propensities, made.logged_propensities)
