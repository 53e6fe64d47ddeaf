"""The sepsis simulator, against dense computations on the package's own matrices and published values."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from poela.core.arrays import BoolArray, FloatArray
from poela.core.errors import InputError, PoelaError
from poela.data.cohorts import FEATURES
from poela.data.trajectories import Trajectories
from poela.simulators import sepsis as sepsis_tables
from poela.simulators.episodes import GeneratorNoise, run
from poela.simulators.sepsis import FROZEN, STEPS, VARYING, Sepsis, SepsisBehavior, SepsisState, sofa_scores

UNIFORM = np.full((713, 25), 1 / 25)


@pytest.fixture(scope="session")
def package() -> dict[str, Any]:
    """The package's files, read by other means than ours."""
    found = importlib.util.find_spec("icu_sepsis")
    assert found is not None
    assert found.submodule_search_locations
    folder = Path(found.submodule_search_locations[0]) / "envs" / "assets"
    with np.load(folder / "dynamics.npz", allow_pickle=False) as file:
        arrays: dict[str, Any] = {name: file[name] for name in ("tx_mat", "d_0", "expert_policy", "sofa_scores")}
        arrays["centers"] = file["state_cluster_centers"]
    admissible = np.zeros((716, 25), np.bool_)
    for state, line in enumerate((folder / "admissible_actions.txt").read_text().split("\n")[1:717]):
        admissible[state, list(map(int, line.split()))] = True
    return {**arrays, "admissible": admissible}


@pytest.fixture(scope="session")
def logs() -> Trajectories:
    return run(Sepsis(), SepsisBehavior(), episodes=4000, seed=0)


def dense_outcomes(simulator: Sepsis) -> FloatArray:
    """[713, 25, 716], with death, survival and the absorbing state in the last columns."""
    model = simulator.model
    live = model.outcomes[model.row_of]
    death = 1 - live.sum(axis=2, keepdims=True)
    return np.concatenate([live[:, :, :713], death, live[:, :, 713:], np.zeros_like(death)], axis=2)


def test_the_published_process_is_kept(package: dict[str, Any]) -> None:
    assert np.abs(dense_outcomes(Sepsis()) - package["tx_mat"][:713]).max() < 1e-14


def test_actions_without_support_act_as_the_worst_supported_one(package: dict[str, Any]) -> None:
    harmful, extra = dense_outcomes(Sepsis("harmful", extra_death=0.05)), 0.05
    published, admissible = package["tx_mat"][:713], package["admissible"][:713]
    reward = np.zeros(716)
    reward[714] = 1
    # Iterating the Bellman equation, not the linear solve of the code under test.
    values = np.zeros(716)
    following = np.einsum("sa,sat->st", package["expert_policy"][:713], published)
    for _ in range(4000):
        values[:713] = following @ (values + reward)
    q = published @ (values + reward)
    for state in range(0, 713, 7):
        supported = np.flatnonzero(admissible[state])
        worst = supported[np.argmin(q[state, supported])]
        for action in range(25):
            expected = published[state, action].copy()
            if not admissible[state, action]:
                expected = (1 - extra) * published[state, worst]
                expected[713] += extra
            assert np.abs(harmful[state, action] - expected).max() < 1e-12


def test_contexts_are_the_44_features_of_the_paper(package: dict[str, Any]) -> None:
    kept = np.delete(package["centers"][:713], [2, 43, 44], axis=1)
    np.testing.assert_array_equal(Sepsis().model.centroids, kept)
    assert len(FEATURES) == 44
    assert FEATURES[:4] == ("gender", "mechvent", "re_admission", "age")
    assert FEATURES[-2:] == ("output_total", "output_4hourly")
    correlation = np.corrcoef(kept[:, FEATURES.index("SOFA")], package["sofa_scores"][:713])[0, 1]
    assert correlation > 0.99
    assert np.abs(sofa_scores(kept) - package["sofa_scores"][:713]).mean() < 0.3


def test_every_column_has_unit_variance(logs: Trajectories) -> None:
    # Frozen columns keep the variance of the first step, and clusters are visited a little differently than expected.
    assert np.abs(logs.contexts[:, VARYING].var(axis=0) - 1).max() < 0.1
    assert np.abs(logs.contexts.var(axis=0) - 1).max() < 0.2


def test_half_of_the_noise_lasts() -> None:
    simulator, noise = Sepsis(), GeneratorNoise(np.random.default_rng(0), 20_000)
    first = simulator.reset(20_000, noise)
    second, _, _ = simulator.step(first, np.zeros(20_000, np.int64), noise)
    lives = second.states != first.states
    centroids = simulator.model.centroids
    noises = [(state.measured - centroids[state.states])[lives] for state in (first, second)]
    for column in VARYING:
        assert np.corrcoef(noises[0][:, column], noises[1][:, column])[0, 1] == pytest.approx(0.5, abs=0.05)


def test_demographics_are_measured_once(logs: Trajectories) -> None:
    first = logs.initial_contexts[logs.episode_of_step]
    np.testing.assert_array_equal(logs.contexts[:, FROZEN], first[:, FROZEN])
    later = logs.step_numbers > 0
    assert (logs.contexts[later][:, VARYING] != first[later][:, VARYING]).all()


def test_logs_have_the_shape_of_the_benchmark(logs: Trajectories) -> None:
    """Survival about 78.5, mean length 8.1, perplexity 4.6 and all actions, as in the benchmark's description."""
    assert abs(logs.returns().mean() - 78.2) < 4 * logs.returns().std() / np.sqrt(logs.n_episodes)
    assert set(logs.returns().tolist()) == {0.0, 100.0}
    assert logs.lengths.max() == STEPS
    assert logs.lengths.mean() == pytest.approx(8.1, abs=0.4)
    assert logs.propensities is not None
    entropies = -(logs.propensities * np.log(np.maximum(logs.propensities, 1e-300))).sum(axis=1)
    assert np.exp(entropies.mean()) == pytest.approx(4.6, abs=0.15)
    assert len(np.unique(logs.actions)) == 25


def test_behavior_mixes_the_experts_by_bayes_rule(logs: Trajectories, package: dict[str, Any]) -> None:
    """Posterior by SciPy's normal density; prior by plain forward iteration of the published process."""
    expert, centers = package["expert_policy"][:713], np.delete(package["centers"][:713], [2, 43, 44], axis=1)
    following = np.einsum("sa,sat->st", expert, package["tx_mat"][:713])[:, :713]
    now, prior = package["d_0"][:713], np.zeros(713)
    for _ in range(20):
        prior, now = prior + now, now @ following
    prior /= prior.sum()
    between = (centers - prior @ centers).T @ ((centers - prior @ centers) * prior[:, None])
    scale = np.sqrt((1 - np.diag(between)) / np.diag(between))
    covariance = (between * scale[:, None] * scale[None])[np.ix_(VARYING, VARYING)]
    contexts = logs.contexts[:20].astype(np.float64)
    density = multivariate_normal(np.zeros(len(VARYING)), covariance)
    for context, ours in zip(contexts, SepsisBehavior().probabilities(contexts), strict=True):
        log_posterior = density.logpdf(context[VARYING] - centers[:, VARYING]) + np.log(prior)
        posterior = np.exp(log_posterior - log_posterior.max())
        assert np.abs(ours - posterior @ expert / posterior.sum()).max() < 1e-9


def survivors(simulator: Sepsis, state: int, action: int, steps: int, n: int = 20_000) -> tuple[FloatArray, BoolArray]:
    noise = GeneratorNoise(np.random.default_rng(1), n)
    fresh = simulator.reset(n, noise)
    here = SepsisState(np.full(n, state), fresh.deviations, fresh.measured, steps)
    _, rewards, ended = simulator.step(here, np.full(n, action), noise)
    return rewards, ended


def test_outcomes_have_the_chances_of_the_process() -> None:
    simulator = Sepsis("harmful")
    model = simulator.model
    # Where one step decides most: the state and action with the largest chance of survival.
    saving = model.outcomes[model.row_of][:, :, 713]
    state, action = (int(i) for i in np.unravel_index(saving.argmax(), saving.shape))
    row = model.outcomes[model.row_of[state, action]]
    rewards, ended = survivors(simulator, state, action, steps=0)
    assert (rewards == 100).mean() == pytest.approx(row[713], abs=0.02)
    assert ended.mean() == pytest.approx(1 - row[:713].sum(), abs=0.02)
    rewards, ended = survivors(simulator, state, action, steps=STEPS - 1)
    assert ended.all()
    assert (rewards == 100).mean() == pytest.approx(row[713] + row[:713] @ model.expert_values, abs=0.02)


def test_settings_out_of_range_are_all_named() -> None:
    with pytest.raises(InputError) as caught:
        Sepsis("deadly", extra_death=2.0)
    assert len(caught.value.problems) == 2


def test_the_package_is_not_imported() -> None:
    code = (
        "import sys; from poela.simulators.sepsis import Sepsis; Sepsis().model; "
        "sys.exit(any(name in sys.modules for name in ('icu_sepsis', 'gym', 'gymnasium', 'torch')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_the_package_one_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(PoelaError, match=r"pip install --no-deps icu-sepsis$"):
        sepsis_tables._published.__wrapped__()


def test_other_data_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PoelaError, match=r"--no-deps icu-sepsis==2.0.1"):
        sepsis_tables._read(tmp_path)
    np.savez(tmp_path / "dynamics.npz", tx_mat=np.zeros((3, 2, 3)))
    (tmp_path / "admissible_actions.txt").write_text("1 1 1\n0\n0\n0\n")
    with pytest.raises(PoelaError, match=r"--no-deps icu-sepsis==2.0.1"):
        sepsis_tables._read(tmp_path)
