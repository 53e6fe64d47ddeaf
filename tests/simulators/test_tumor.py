"""Tumor growth: the dynamics by hand, published values, the logging policy."""

from collections.abc import Sequence

import numpy as np
import pytest

from poela.core.errors import InputError
from poela.simulators.episodes import StepNoise, run
from poela.simulators.registry import simulate
from poela.simulators.tumor import MEANS, Patients, Schedule, TumorBehavior, TumorGrowth, TumorState, normalised


def by_hand(actions: Sequence[int], parameters: Sequence[float], gone_at_once: bool = False) -> list[tuple[float, ...]]:
    """(C, P, Q, Q_p) after each month, in plain scalars from the difference equations of the model."""
    p, q, lambda_p, k_pq, k_qpp, delta_qp, gamma, kde, k = parameters
    c, q_p = 0.0, 0.0
    history: list[tuple[float, ...]] = []
    for action in actions:
        total = p + q + q_p
        c = float(action) if gone_at_once else (c + action) - kde * (c + action)
        p_next = p + lambda_p * p * (1 - total / k) + k_qpp * q_p - k_pq * p - gamma * c * kde * p
        q_next = q + k_pq * p_next - gamma * c * kde * q
        q_p = q_p + gamma * c * kde * q_next - k_qpp * q_p - delta_qp * q_p
        p, q = p_next, q_next
        history.append((c, p, q, q_p))
    return history


def mean_patient(drug: str) -> Patients:
    return Patients(*(np.array([mean]) for mean in MEANS[drug]))


def test_one_treated_month_of_the_mean_patient_by_hand() -> None:
    state, reward, ended = TumorGrowth().step(TumorState.start(mean_patient("PCV")), np.array([1]))
    # C = 1 · (1 − 0.24); P = 7.13 + 0.121·7.13·(1 − 0.4833) − 0.0295·7.13 − 0.729·0.76·0.24·7.13, and so on.
    assert state.concentration[0] == pytest.approx(0.76, rel=1e-12)
    assert state.proliferative[0] == pytest.approx(7.13 + 0.445772591 - 0.210335 - 0.948073248, rel=1e-9)
    assert state.quiescent[0] == pytest.approx(41.2 + 0.0295 * 6.417364343 - 5.47834752, rel=1e-9)
    assert state.damaged[0] == pytest.approx(0.1329696 * 35.910964728, rel=1e-9)
    assert reward[0] == pytest.approx(-0.76, rel=1e-12)
    assert not ended[0]


@pytest.mark.parametrize("drug", ["PCV", "TMZ", "RT"])
def test_whole_episodes_follow_the_scalar_equations(drug: str) -> None:
    noise = StepNoise(seed=1, step=0, first=0, n=4)
    simulator = TumorGrowth(markov=True, drug=drug)
    logs = run(simulator, Schedule.uniform(), 4, seed=1)
    patients = simulator.reset(4, noise).patients
    for episode in range(4):
        rows = slice(logs.offsets[episode], logs.offsets[episode + 1])
        parameters = [float(getattr(patients, name)[episode]) for name in Patients.__dataclass_fields__]
        history = by_hand(logs.actions[rows].tolist(), parameters, gone_at_once=drug == "TMZ")
        shown = np.array([(0.0, parameters[0], parameters[1], 0.0), *history[:-1]])
        np.testing.assert_allclose(logs.contexts[rows, :4], shown, rtol=1e-6, atol=1e-7)
        np.testing.assert_array_equal(logs.contexts[rows, 4], np.arange(30))
        sizes = [parameters[0] + parameters[1], *(p + q + q_p for _, p, q, q_p in history)]
        rewards = [sizes[month] - sizes[month + 1] - history[month][0] for month in range(30)]
        np.testing.assert_allclose(logs.rewards[rows], rewards, rtol=1e-9, atol=1e-9)


def test_the_plain_variant_shows_the_size_and_pays_shrinkage_at_the_end() -> None:
    plain = run(TumorGrowth(), Schedule.uniform(), 50, seed=2)
    markov = run(TumorGrowth(markov=True), Schedule.uniform(), 50, seed=2)
    assert plain.feature_names == ("concentration", "size", "month")
    assert markov.feature_names == ("concentration", "proliferative", "quiescent", "damaged", "month")
    np.testing.assert_array_equal(plain.actions, markov.actions)
    np.testing.assert_allclose(plain.contexts[:, 1], markov.contexts[:, 1:4].sum(axis=1), rtol=1e-6)
    np.testing.assert_allclose(plain.returns(), markov.returns(), rtol=1e-9)
    # Before the last month the reward is minus the concentration that the next month shows.
    rewards, contexts = plain.rewards.reshape(50, 30), plain.contexts.reshape(50, 30, 3)
    np.testing.assert_allclose(rewards[:, :-1], -contexts[:, 1:, 0], rtol=1e-6)


def test_patients_differ_by_three_per_cent_around_the_means() -> None:
    patients = TumorGrowth().reset(40_000, StepNoise(0, 0, 0, 40_000)).patients
    for name, mean in zip(Patients.__dataclass_fields__, MEANS["PCV"], strict=True):
        logarithm = np.log(getattr(patients, name) / mean)
        assert abs(logarithm.mean()) < 4 * 0.03 / np.sqrt(40_000)
        assert logarithm.std() == pytest.approx(0.03, rel=4 / np.sqrt(80_000))


# Values of an independent implementation of the model, 20,000 roll-outs each, with its standard errors.
# The logging policy's value is that of the published logs, which treat in month 0 always.
MEASURED = {
    "uniform": (Schedule.uniform(), -19.75, 0.05),
    "published behavior": (TumorBehavior(as_published=True), -8.7, 0.033 + 0.025),
    "never": (Schedule.never(), -16.95, 0.01),
    "nine months": (Schedule.first_months(9), -4.36, 0.01),
    "five months": (Schedule.first_months(5), 2.92, 0.0076),
    "five months after one": (Schedule.first_months(5, skip=1), 2.94, 0.0076),
}


@pytest.mark.parametrize("name", MEASURED)
def test_known_values(name: str) -> None:
    policy, value, error = MEASURED[name]
    returns = run(TumorGrowth(), policy, 20_000, seed=0).returns()
    own_error = returns.std() / np.sqrt(20_000)
    assert abs(returns.mean() - value) < 3 * np.hypot(error, own_error) + 0.005  # rounding of the stored value


def test_nine_months_normalised_is_the_papers_value() -> None:
    returns = run(TumorGrowth(), Schedule.first_months(9), 20_000, seed=0).returns()
    assert normalised(float(returns.mean())) == pytest.approx(68.12, abs=0.6)


def test_every_month_is_randomised_and_propensities_are_the_frequencies() -> None:
    logs = simulate("tumor", episodes=5000, seed=0)
    treated = logs.actions.reshape(5000, 30).mean(axis=0)
    expected = np.repeat([0.85, 0.15], [9, 21])
    assert np.abs(treated - expected).max() < 4.5 * np.sqrt(0.85 * 0.15 / 5000)
    np.testing.assert_allclose(np.asarray(logs.propensities)[:, 1].reshape(5000, 30), np.tile(expected, (5000, 1)))


def test_as_published_always_treats_in_month_0_and_logs_85_per_cent() -> None:
    logs = simulate("tumor", episodes=500, seed=0, as_published=True)
    first = logs.offsets[:-1]
    assert (logs.actions[first] == 1).all()
    np.testing.assert_allclose(np.asarray(logs.propensities)[first], np.tile([0.15, 0.85], (500, 1)))
    later = np.setdiff1d(np.arange(logs.n_steps), first)
    correct = simulate("tumor", episodes=500, seed=0)
    np.testing.assert_array_equal(logs.actions[later], correct.actions[later])
    np.testing.assert_array_equal(logs.propensities, correct.propensities)


def test_weighting_by_propensities_gives_the_value_of_another_schedule() -> None:
    """Importance sampling with the logged propensities is unbiased: the first month's shrinkage under treatment."""
    logs = simulate("tumor", episodes=20_000, seed=5, markov=True)
    first = logs.offsets[:-1]
    weighted = (logs.actions[first] == 1) / logs.logged_propensities[first] * logs.rewards[first]
    direct = run(TumorGrowth(markov=True), Schedule.first_months(1), 20_000, seed=6).rewards[first]
    error = np.hypot(weighted.std(), direct.std()) / np.sqrt(20_000)
    assert abs(weighted.mean() - direct.mean()) < 4 * error


def test_unknown_drugs_simulators_and_options_are_refused() -> None:
    with pytest.raises(InputError, match="PCV, TMZ, RT"):
        TumorGrowth(drug="aspirin")
    with pytest.raises(InputError, match="choose one of tumor"):
        simulate("tumour", episodes=1)
    with pytest.raises(InputError, match="no option color: it has markov, drug, as_published"):
        simulate("tumor", episodes=1, color="blue")
