"""The table of experiments: a new one is one file and one line here (and one in `data/`, for its settings)."""

from collections.abc import Callable, Sequence
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
    parts: bool = True  # that shards can share

    def run(self, out: Path, quick: bool, seed: int, execution: "Execution", joined: Sequence[Path] = ()) -> "Report":
        """Carry it out, small or whole; results are written to `out`. `joined`: folders where shards left its parts."""
        return self.function(self._run(out, quick, seed, execution, joined=joined))

    def run_shard(self, out: Path, quick: bool, seed: int, execution: "Execution", shard: str) -> str:
        """Make one share of its parts, such as "2/8", in `out`; says how many that were."""
        from poela_experiments.frame.shards import Shard, ShardDone

        run = self._run(out, quick, seed, execution, shard=Shard.parsed(shard))
        try:
            self.function(run)
        except ShardDone as done:
            return str(done)
        raise NotImplementedError(f"{self.name} says that it has parts, and makes none")

    def _run(self, out: Path, quick: bool, seed: int, execution: "Execution", **more: object) -> "Run":
        from poela.core.errors import InputError
        from poela_experiments.frame.run import Run
        from poela_experiments.frame.settings import Size

        if not self.parts and any(more.values()):
            raise InputError(f"{self.name} is one piece and cannot be made in shards: leave out --shard and --join")
        size = Size.of(self.name, "quick" if quick else "full")
        return Run(self.name, out, size, seed, execution, **more)  # type: ignore[arg-type]

    @property
    def function(self) -> "Callable[[Run], Report]":
        """Imported when it is needed: `list` is light."""
        module, _, attribute = self.place.partition(":")
        function: Callable[[Run], Report] = getattr(import_module(f"poela_experiments.{module}"), attribute)
        return function


_ALL = (
    Experiment("demo", "demo:demo", "from a simulated log to an evaluated policy, in a minute or two", False),
    Experiment("tumor", "tumor:tumor", "the paper's learners on tumor logs, as published: eight tables"),
    Experiment("tumor-order", "tumor:tumor_order", "POELA, PO-mu and PO-CRM with as many settings each: who is above?"),
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
)
EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _ALL}
