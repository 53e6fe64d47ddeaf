"""Where and how an experiment runs: nothing that its numbers depend on."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poela.data.trajectories import Trajectories
from poela.studies.learning import Execution, learn
from poela.studies.study import Study


@dataclass(frozen=True)
class Running:
    """Processes side by side (None: one for each core), the study engine's backend, and the address of its cluster.

    Experiments without studies run in this process, whatever the backend.

    >>> Running(backend="inline")
    Running(jobs=None, backend='inline', address=None)
    """

    jobs: int | None = None
    backend: str = "local"
    address: str | None = None

    def __post_init__(self) -> None:
        Execution(self.backend, self.jobs, address=self.address)  # which refuses what cannot be

    def study(self, logs: Trajectories, out: Path, **settings: Any) -> Study:
        """The study in `out`: carried out, continued after an interruption or, where it is finished, opened."""
        return learn(logs, out=out, resume=True, jobs=self.jobs, backend=self.backend, address=self.address, **settings)


HERE = Running()
