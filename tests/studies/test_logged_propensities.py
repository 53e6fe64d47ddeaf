"""Studies that build on the propensities that cases bring (`behavior="logged"`)."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import poela
from poela.core.draws import uniform_of
from poela.core.errors import InputError
from poela.data.trajectories import Trajectories
from poela.serving.export import export_onnx
from poela.serving.server import server_of
from poela.serving.source import open_policy
from poela.studies.candidates import Candidate
from poela.studies.study import Study

CONSENSUS = [Candidate("consensus", {"sharpness": [1.5, 3.0]})]


def logs_of(n: int, seed: int = 0) -> Trajectories:
    """The logging policy follows something that contexts do not show, and the likelier action is the better one."""
    rng = np.random.default_rng(seed)
    lean = rng.uniform(0.05, 0.95, n)
    propensities = np.stack([lean, 1 - lean], axis=1)
    actions = (rng.random(n) > lean).astype(np.int64)
    rewards = 1.0 * (rng.random(n) < np.take_along_axis(propensities, actions[:, None], axis=1)[:, 0])
    return Trajectories(rng.normal(size=(n, 2)), actions, rewards, np.arange(n + 1), propensities)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Sharpened propensities."""
    out = tmp_path_factory.mktemp("logged") / "study"
    return poela.learn(logs_of(600), candidates=CONSENSUS, behavior="logged", backend="inline", out=out)


def test_what_contexts_cannot_tell_is_shown(study: Study) -> None:
    assert study.gain is not None
    assert study.gain.low is not None
    # μ³ renormalised: E[Σ μ⁴/Σ μ³] − E[Σ μ²] by integration over the uniform lean.
    lean = np.linspace(0.05, 0.95, 10_001)
    cubed = (lean**4 + (1 - lean) ** 4) / (lean**3 + (1 - lean) ** 3)
    now = lean**2 + (1 - lean) ** 2
    assert 0 < study.gain.low < float((cubed - now).mean()) + 0.02
    assert study.record.data.propensities.endswith("new cases must bring theirs")
    with_model = poela.learn(logs_of(600), candidates=CONSENSUS, behavior="knn", backend="inline")
    assert with_model.keeps_logging_policy


def test_decisions_are_those_of_the_propensities_that_rows_bring(study: Study, tmp_path: Path) -> None:
    new = logs_of(5, seed=1)
    pq.write_table(new.to_table(), tmp_path / "new.parquet")
    decided = Study.open(study.directory).decide(tmp_path / "new.parquet").to_pydict()
    assert new.propensities is not None
    raised = new.propensities**study.policy.sharpness
    expected = raised / raised.sum(axis=1, keepdims=True)
    for action in (0, 1):
        np.testing.assert_allclose(decided[f"propensity_{action}"], expected[:, action], rtol=1e-12)
    # An action of probability p is drawn at p's place of a number that belongs to the policy, the case and its step.
    keys = zip(decided["episode"], decided["step"], strict=True)
    uniform = np.array([uniform_of(study.policy.content_hash[:16], *key) for key in keys])
    assert decided["action"] == (uniform >= expected[:, 0]).astype(int).tolist()


def test_rows_without_propensities_are_refused(study: Study, tmp_path: Path) -> None:
    table = logs_of(5).to_table()
    with pytest.raises(InputError, match=r"'propensity_0'.*so give the logging policy's propensity of every action"):
        study.decide(table.drop_columns(["propensity_0", "propensity_1"]))
    wrong = table.set_column(table.column_names.index("propensity_0"), "propensity_0", pa.array([2.0] * 5))
    with pytest.raises(InputError, match=r"'propensity_0' lies outside \[0, 1\] in 5 rows"):
        study.decide(wrong)
    with pytest.raises(InputError, match="each case must bring the logging policy's propensities"):
        study.policy.probabilities(np.zeros((1, 2)))


def test_nothing_that_cannot_be_given_propensities_gets_the_policy(study: Study, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="builds on the propensities that cases bring cannot be exported"):
        export_onnx(study.policy, tmp_path / "policy.onnx")
    with pytest.raises(InputError, match="which cannot be served"):
        server_of(open_policy(study.directory), None)


@pytest.mark.parametrize("logged", [None, "one"])
def test_logs_without_the_propensities_of_every_action(logged: str | None) -> None:
    logs = logs_of(60)
    one = None if logged is None else logs.logged_propensities
    with pytest.raises(InputError, match="'logged' needs logs with the propensities of every action"):
        poela.learn(logs.with_propensities(one), candidates=CONSENSUS, behavior="logged", backend="inline")


def test_by_default_only_what_the_logging_policy_does_is_eligible() -> None:
    logs = logs_of(300)
    study = poela.learn(logs, learners=["consensus"], behavior="logged", backend="inline")
    assert [str(task.candidate) for task in study.tasks][:1] == ["consensus rule=(relative_probability=0.01)"]
    rare = Trajectories([[0.0, 0.0]], [0], [0.0], [0, 1], [[0.995, 0.005]])
    assert study.policy.eligibility.along(rare).mask.tolist() == [[True, False]]
