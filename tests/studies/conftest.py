"""A small study that takes a fraction of a second."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poela.data.trajectories import Trajectories
from poela.studies.candidates import Candidate
from poela.studies.fold_data import FoldData, write_folds
from poela.studies.learning import learn
from poela.studies.selection import Selection
from poela.studies.study import Study

TINY = {"steps": 6, "warm_start_steps": 2, "hidden": (4,), "checkpoints": 3, "device": "cpu"}


@pytest.fixture(scope="session")
def tiny_logs() -> Trajectories:
    rng = np.random.default_rng(0)
    episodes, steps = 60, 3
    contexts = rng.normal(size=(episodes * steps, 2))
    chances = 0.2 + 0.6 * (contexts[:, 0] > 0)
    actions = (rng.random(episodes * steps) < chances).astype(np.int64)
    rewards = np.where(actions == (contexts[:, 1] > 0), 1.0, 0.0) + 0.1 * rng.normal(size=episodes * steps)
    propensities = np.stack([1 - chances, chances], axis=1)
    return Trajectories(contexts, actions, rewards, np.arange(0, episodes * steps + 1, steps), propensities)


@pytest.fixture(scope="session")
def tiny_candidates() -> list[Candidate]:
    return [
        Candidate("poela", {"radius": "q75", **TINY}),
        Candidate("poela", {"radius": 1.0, "scale": "standard", **TINY}),
        Candidate("pocrm", TINY),
    ]


@pytest.fixture
def material(tiny_logs: Trajectories, tmp_path: Path) -> Path:
    """What workers are given, as files: one fold."""
    train, validation = tiny_logs.split((0.5, 0.5), seed=0)
    write_folds(tmp_path / "material", {"0": FoldData(train, validation)})
    return tmp_path / "material"


@pytest.fixture(scope="session")
def tiny_study(tiny_logs: Trajectories, tiny_candidates: list[Candidate]) -> Callable[..., Study]:
    def run(**settings: Any) -> Study:
        """One split, unless the test asks for folds."""
        one_split = {} if "folds" in settings else {"shares": (0.5, 0.3, 0.2), "selection": Selection()}
        usual = {"candidates": tiny_candidates, "backend": "inline", "restarts": 2, **one_split}
        return learn(tiny_logs, **{**usual, **settings})

    return run
