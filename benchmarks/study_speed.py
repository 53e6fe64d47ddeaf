"""A study of 8 candidates × 3 restarts on one split, beside the same fits bare.

python benchmarks/bench.py study_speed
"""

import tempfile
from pathlib import Path

from measuring import Speed, Work

from poela.simulators.registry import simulate
from poela.studies.candidates import grid
from poela.studies.learning import learn
from poela.studies.settings import StudySettings

RESTARTS = 3
SHARES = (0.5, 0.3, 0.2)  # one split: its fits are those that are timed bare
CANDIDATES = [
    *grid("poela", radius=["q90", "q97"], variance_penalty=[0.01, 0.1, 1.0], steps=[30], warm_start_steps=[10]),
    *grid("pocrm", variance_penalty=[0.1, 1.0], steps=[30], warm_start_steps=[10]),
]


def bare(episodes: int) -> Work:
    """The fits alone."""
    train = simulate("tumor", episodes=episodes).split(SHARES, seed=0)[0]
    settings = StudySettings(tuple(CANDIDATES), restarts=RESTARTS)

    def work() -> None:
        for restart in range(RESTARTS):
            for candidate in CANDIDATES:
                candidate.build().fit(train, seed=settings.restart_seed(restart))

    return work


def study(episodes: int) -> Work:
    """The whole study, by one process."""
    logs = simulate("tumor", episodes=episodes)

    def work() -> None:
        with tempfile.TemporaryDirectory() as home:
            out = Path(home) / "study"
            learn(logs, candidates=CANDIDATES, restarts=RESTARTS, shares=SHARES, out=out, jobs=1, backend="inline")

    return work


SPEED = Speed(
    case="Episodes of a study of 24 fits of 30 steps",
    ours=study,
    floor=bare,
    floor_name="the same fits alone",
    sizes=(100, 200, 400),
    large=(1_000, 2_000, 4_000),
)
