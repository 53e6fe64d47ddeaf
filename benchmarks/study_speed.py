"""A study of 8 candidates × 3 restarts beside the same fits bare, on one core and on two.

    OMP_NUM_THREADS=1 python benchmarks/study_speed.py [episodes]

Prints the time of the bare fits (one after the other, one thread), of the study with one worker and with two, and the
two ratios: study to bare fits, and two workers to one.
"""

import sys
import tempfile
import time
from pathlib import Path

from poela.data.trajectories import Trajectories
from poela.simulators.registry import simulate
from poela.studies.candidates import Candidate, grid
from poela.studies.learning import learn
from poela.studies.runs import one_thread
from poela.studies.settings import StudySettings

RESTARTS = 3
SHARES = (0.5, 0.3, 0.2)  # one split: its fits are those that are timed bare
CANDIDATES = [
    *grid("poela", radius=["q90", "q97"], variance_penalty=[0.01, 0.1, 1.0]),
    *grid("pocrm", variance_penalty=[0.1, 1.0]),
]


def bare(train: Trajectories, candidates: tuple[Candidate, ...]) -> float:
    """Seconds for the fits alone."""
    settings = StudySettings(candidates, restarts=RESTARTS)
    started = time.perf_counter()
    with one_thread():
        for restart in range(RESTARTS):
            for candidate in candidates:
                candidate.build().fit(train, seed=settings.restart_seed(restart))
    return time.perf_counter() - started


def study(logs: Trajectories, jobs: int) -> float:
    """Seconds for the whole study."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as home:
        learn(logs, candidates=CANDIDATES, restarts=RESTARTS, shares=SHARES, out=Path(home) / "study", jobs=jobs)
    return time.perf_counter() - started


def main(episodes: int) -> None:
    """Time all three and print the ratios."""
    logs = simulate("tumor", episodes=episodes)
    train = logs.split(SHARES, seed=0)[0]
    seconds = {"bare fits": bare(train, tuple(CANDIDATES))}
    seconds["study, 1 worker"] = study(logs, jobs=1)
    seconds["study, 2 workers"] = study(logs, jobs=2)
    for name, value in seconds.items():
        print(f"{name}: {value:.1f} s")
    print(f"study to bare fits: {seconds['study, 1 worker'] / seconds['bare fits']:.3f}")
    print(f"two workers to one: {seconds['study, 2 workers'] / seconds['study, 1 worker']:.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
