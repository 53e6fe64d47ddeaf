"""How long a study of 1000 candidates takes to open, to list, and to resume when nothing is left to do.

python benchmarks/large_study.py [candidates]
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from poela.data.trajectories import Trajectories
from poela.studies.candidates import grid
from poela.studies.execution import Outcome
from poela.studies.learning import learn
from poela.studies.runs import Result, Task, carry_out
from poela.studies.study import Study


def logs() -> Trajectories:
    """Sixty short episodes."""
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, 180)
    return Trajectories(rng.normal(size=(180, 2)), actions, actions * 1.0, np.arange(0, 181, 3), np.full((180, 2), 0.5))


def timed(what: str, work: Callable[[], Any]) -> Any:
    """Do it, and print how long it took."""
    started = time.perf_counter()
    result = work()
    print(f"{what}: {time.perf_counter() - started:.2f} s")
    return result


def main(candidates: int) -> None:
    """Fit one candidate, pretend that all others came out the same, and time what comes after."""
    import poela.studies.learning as learning
    from poela.studies.fold_data import read_fold

    settings = grid(
        "poela",
        radius=[1.0 + k / candidates for k in range(candidates)],
        steps=[10],
        warm_start_steps=[1],
        checkpoints=[10],
        hidden=[(4,)],
    )

    def same_for_all(tasks: list[Task], material: Path, *rest: Any) -> Any:
        first = carry_out(tasks[0], read_fold(material))

        def outcome(task: Task) -> Outcome:
            return task, Result(
                {**first.record, **task.to_plain(), "candidate_key": task.candidate.key}, first.policies
            )

        return (outcome(task) for task in tasks)

    learning.run_inline = same_for_all  # type: ignore[assignment]
    with tempfile.TemporaryDirectory() as home:
        out = Path(home) / "study"

        def run(resume: bool) -> Study:
            return learn(logs(), candidates=settings, restarts=1, out=out, resume=resume, backend="inline")

        timed(f"write {candidates} runs of 10 checkpoints", lambda: run(False))
        study = timed("open, and choose", lambda: (found := Study.open(out), found.choice)[0])
        timed("its table", study.table)
        timed("its policy", lambda: study.policy)
        timed("resume", lambda: run(True))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
