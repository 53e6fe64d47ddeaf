"""A toy of each kind from a package of somebody else's, which nothing is known of but its entry points."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

OUTSIDE = Path(__file__).parent / "outside"
GUIDE = Path(__file__).parents[2] / "CONTRIBUTING.md"
Poela = Callable[..., Any]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what an installer leaves of the toys, and with the learner that the guide walks through."""
    home = tmp_path_factory.mktemp("outside")
    learner, entry = _guide("python"), tomllib.loads(_guide("toml"))
    (home / "my_package").mkdir()
    (home / "my_package" / "doubled.py").write_text(learner)
    for project in (tomllib.loads((OUTSIDE / "pyproject.toml").read_text()), entry):
        _install(home, project["project"])
    return home


def _guide(language: str) -> str:
    stepwise = GUIDE.read_text().partition("## A learner, step by step")[2]
    (block,) = re.findall(rf"```{language}\n(.*?)```", stepwise, re.DOTALL)
    return str(block)


def _install(home: Path, project: dict[str, Any]) -> None:
    name = project["name"].replace("-", "_")
    folder = home / f"{name}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1.0\n")
    groups = project["entry-points"]
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) for group, points in groups.items()]
    (folder / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture(scope="module")
def run(home: Path) -> Poela:
    """`python -m poela`, or another module or program, where the toys are installed."""
    paths = os.pathsep.join([str(home), str(OUTSIDE), *sys.path])

    def call(*arguments: object, module: str = "poela") -> Any:
        command = [sys.executable, "-m", module, *map(str, arguments)]
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, cwd=home, env={**os.environ, "PYTHONPATH": paths}
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return call


@pytest.fixture(scope="module")
def study(run: Poela, home: Path) -> Any:
    """Logs of the toy simulator, and a study of them by toys alone, in worker processes."""
    for name, options in {"logs": ["--option", "logged=false"], "later": ["--option", "prize=3"]}.items():
        run("simulate", "coin", "--episodes", 200, "--out", f"{name}.parquet", "--json", *options)
    toys = ("--learners", "doubled", "--behavior", "frequencies", "--choose-by", "mildest")
    return run("learn", "logs.parquet", "--out", "study", *toys, "--folds", 2, "--jobs", 1, "--json")


def test_a_simulator(study: Any, home: Path) -> None:
    import pyarrow.parquet as pq

    logs, later = (pq.read_table(home / f"{name}.parquet") for name in ("logs", "later"))
    assert set(logs["action"].to_pylist()) == {"heads", "tails"}
    assert set(later["reward"].to_pylist()) == {0.0, 3.0}


def test_a_learner_a_behavior_model_and_a_selection_rule(study: Any, home: Path) -> None:
    assert {row["learner"] for row in study["table"]} == {"doubled"}
    assert "by frequencies" in study["propensities"]
    assert study["reason"] == "the mildest of all"
    best = max(study["table"], key=lambda row: row["ess"])
    assert best["chosen"]
    settings = json.loads((home / "study" / "study.json").read_text())["settings"]
    assert (settings["behavior"], settings["selection"]["by"]) == ("frequencies", "mildest")


def test_an_estimator_and_an_interval(study: Any, run: Poela, home: Path) -> None:
    import pyarrow.parquet as pq

    shown = run(
        "evaluate", "study", "--logs", "later.parquet", "--estimator", "clipped", "--interval", "range", "--json"
    )["estimate"]
    assert (shown["estimator"], shown["interval"]) == ("clipped", "range")
    rewards = np.array(pq.read_table(home / "later.parquet")["reward"])
    assert shown["low"] == 0.0  # a lost guess
    assert 0.9 * rewards.mean() < shown["value"] < 1.1 * rewards.mean()  # whoever guesses wins every other time
    assert 3.0 <= shown["high"] <= 6.0


def test_an_experiment(run: Poela, home: Path) -> None:
    assert run("reproduce", "guesses", "--json")["mean"] == pytest.approx(0.5, abs=0.1)
    assert (home / "guesses" / "guesses.json").exists()
    names = [row["name"] for row in run("reproduce", "list", "--json")]
    assert {"guesses", "tumor"} <= set(names)


def test_all_of_them_in_python(run: Poela, home: Path) -> None:
    (home / "in_python.py").write_text(
        "import json, poela\n"
        "from poela.simulators.registry import simulate\n"
        "logs = simulate('coin', episodes=100, seed=1)\n"
        "study = poela.learn(logs, learners=['doubled'], choose_by='mildest', folds=2, backend='inline')\n"
        "shown = poela.evaluate(study.policy, logs, estimator='clipped', interval='range')\n"
        "print(json.dumps([study.choice.reason, shown.estimator, shown.interval]))\n"
    )
    assert run(module="in_python") == ["the mildest of all", "clipped", "range"]
