"""The studies behind the tumor tables: every data set is one, and each learner has its own choice."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from poela.core.progress import progress
from poela.data.trajectories import Trajectories
from poela.evaluation.rollouts import TrueValue, true_value
from poela.simulators.episodes import run as simulated
from poela.simulators.tumor import TumorBehavior, TumorGrowth, normalised
from poela_experiments.frame.candidates import candidates_of
from poela_experiments.frame.policies import Source, Truth
from poela_experiments.frame.run import Run

# Whose probabilities are used: those of the log, or those of a model by its name in the table of behavior models.
BEHAVIORS = {"known": "auto", "BC": "clone", "BCRNN": "recurrent"}
SCALE = "normalised: uniform random 0, best schedule found 100"


@dataclass(frozen=True)
class TumorTask:
    """One data set of the experiment."""

    markov: bool = False
    data_set: int = 0
    episodes: int = 1000  # to learn from, and as many to choose by
    behavior: str = "known"

    @property
    def simulator(self) -> TumorGrowth:
        """The environment."""
        return TumorGrowth(markov=self.markov)

    @property
    def contexts(self) -> str:
        """What the contexts are, in a word."""
        return "Markov" if self.markov else "non-Markov"

    @property
    def directory(self) -> str:
        """Where its study is kept."""
        model = "" if self.behavior == "known" else f"-{self.behavior.lower()}"
        return f"{self.contexts.lower()}{model}-{self.data_set}"

    def logs(self) -> tuple[Trajectories, Trajectories]:
        """Training and validation logs, without propensities where they are to be estimated."""
        train, validation = (
            simulated(self.simulator, TumorBehavior(), self.episodes, seed=(self.data_set, role)) for role in (0, 1)
        )
        if self.behavior != "known":
            return train.with_propensities(None), validation.with_propensities(None)
        return train, validation

    def truth(self, policy: Any, roll_outs: int) -> Truth:
        """By roll-outs, normalised."""
        return on_scale(true_value(policy, self.simulator, roll_outs, seed=self.data_set))

    def source(self, run: Run) -> Source:
        """Its study: the paper's grids, with a path of checkpoints for each candidate."""
        candidates = candidates_of("tumor", run.size, run.size.settings.get("grids", self.behavior))
        truth = partial(self.truth, roll_outs=run.size.roll_outs)
        model = BEHAVIORS[self.behavior]
        return Source(run, self.directory, self.data_set, self.logs, candidates, model, truth)


def on_scale(found: TrueValue) -> Truth:
    """Normalised, as in the paper."""
    return Truth(normalised(found.value), normalised(found.standard_error) - normalised(0.0))


def studies_of(run: Run, *, markov: bool, behavior: str = "known") -> Iterator[tuple[TumorTask, Source]]:
    """The data sets of one row of a table, each with its study."""
    with progress("data sets", run.size.data_sets) as advance:
        for number in range(run.size.data_sets):
            task = TumorTask(markov, run.seed + number, run.size.episodes, behavior)
            yield task, task.source(run)
            advance()
