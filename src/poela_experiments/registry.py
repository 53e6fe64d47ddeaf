"""The table of experiments: a new one is one file and one line here (and one in `data/`, for its settings)."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from poela.studies.options import Execution
    from poela_experiments.frame.results import Report
    from poela_experiments.frame.run import Run


@dataclass(frozen=True)
class Experiment:
    """What an experiment shows, and the function of a `Run` that makes its report, as "module:function"."""

    name: str
    place: str
    summary: str

    def run(self, out: Path, quick: bool, seed: int, execution: "Execution") -> "Report":
        """Carry it out, small or whole; results are written to `out`."""
        from poela_experiments.frame.run import Run
        from poela_experiments.frame.settings import Size

        size = Size.of(self.name, "quick" if quick else "full")
        return self.function(Run(self.name, out, size, seed, execution))

    @property
    def function(self) -> "Callable[[Run], Report]":
        """Imported when it is needed: `list` is light."""
        module, _, attribute = self.place.partition(":")
        function: Callable[[Run], Report] = getattr(import_module(f"poela_experiments.{module}"), attribute)
        return function


_ALL = (
    Experiment("demo", "demo:demo", "from a simulated log to an evaluated policy, in a minute or two"),
    Experiment("tumor", "tumor:tumor", "five learners on tumor logs, beside the truth: six tables"),
    Experiment(
        "tumor-weights", "weights:tumor_weights", "their weights on low returns; --out tumor uses those studies"
    ),
    Experiment("values", "value_learners:value_learners", "BCQ, PQL, CQL and FittedQ's path on tumor logs"),
    Experiment(
        "sepsis", "sepsis:sepsis", "learners on simulated sepsis logs, beside the truth: the paper's tables and figures"
    ),
    Experiment("cartpole", "cartpole:cartpole", "five learners on CartPole logs: four tables"),
    Experiment(
        "counterexamples", "counterexamples:counterexamples", "the paper's small examples: episodes needed against H"
    ),
    Experiment("mujoco", "mujoco:mujoco", "Hopper and Walker2D: real-valued actions, beside d3rlpy's BCQ and CQL"),
    Experiment("behavior", "behavior_models:behavior_models", "behavior models beside known logging policies"),
    Experiment("coverage", "coverage:coverage", "how often each interval holds the truth, and what the verdict says"),
)
EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _ALL}
