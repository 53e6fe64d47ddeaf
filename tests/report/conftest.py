"""Small studies whose names are as hostile as names can be."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from poela.data.trajectories import Trajectories
from poela.studies.candidates import Candidate
from poela.studies.learning import learn
from poela.studies.study import Study

SCRIPT = "<script>document.title='owned'</script>"
HOSTILE_ACTIONS = (SCRIPT, "\"'><img src=x onerror=\"document.title='owned'\">" + "w" * 300)
HOSTILE_FEATURES = ("العمر \u202e<b>x</b>", "</script><script>document.title='owned'</script>", "{{ 7 * 7 }} 'quoted'")


def made_logs(
    actions: tuple[str, ...] = ("wait", "treat"), features: tuple[str, ...] = ("age", "sofa", "charge")
) -> Trajectories:
    """Two actions, one of them better for each half of the cases; the last feature has values that stand out."""
    rng = np.random.default_rng(0)
    episodes, steps = 200, 3
    n = episodes * steps
    contexts = np.column_stack([rng.normal(size=(n, 2)), 98_000 + 900 * rng.random(n)])
    chances = 0.3 + 0.4 * (contexts[:, 0] > 0)
    taken = (rng.random(n) < chances).astype(np.int64)
    rewards = contexts[:, 1] * (2 * taken - 1) + 0.1 * rng.normal(size=n)
    return Trajectories(
        contexts,
        taken,
        rewards,
        np.arange(0, n + 1, steps),
        np.stack([1 - chances, chances], axis=1),
        feature_names=features,
        action_names=actions,
    )


@pytest.fixture(scope="session")
def logs() -> Trajectories:
    return made_logs()


@pytest.fixture(scope="session")
def study(logs: Trajectories, tmp_path_factory: pytest.TempPathFactory) -> Study:
    out = tmp_path_factory.mktemp("studies") / "study"
    return learn(logs, candidates=[Candidate("fittedq", {"regressor": "ridge"})], backend="inline", out=out)


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Study:
    out = tmp_path_factory.mktemp("studies") / '<b>study & "co"\''
    return learn(
        made_logs(HOSTILE_ACTIONS, HOSTILE_FEATURES),
        candidates=[Candidate("fittedq", {"regressor": "ridge"})],
        backend="inline",
        out=out,
    )


@pytest.fixture
def unfinished(study: Study, tmp_path: Path) -> Path:
    """A study that was stopped after some of its runs."""
    out = tmp_path / "unfinished"
    shutil.copytree(study.directory, out)
    (out / "choice.json").unlink()
    for run in sorted((out / "runs").glob("*-3.*")):
        run.unlink()
    return out
