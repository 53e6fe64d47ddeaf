"""The studies behind the sepsis tables: which logs, which candidates, and each learner's own choice.

Every study has a directory of its own, so several processes can work on different ones under the same `--out`.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from poela.behavior.neighbours import KNNBehavior
from poela.data.trajectories import Trajectories
from poela.experiments.chosen_policies import Choosing, by_learner
from poela.experiments.running import Running
from poela.simulators.episodes import run
from poela.simulators.sepsis import Sepsis, SepsisBehavior
from poela.studies.candidates import Candidate, grid
from poela.studies.selection import Scored
from poela.studies.study import Study

# Whose probabilities stand in the weights. "own": of our own care, the model that predicts held-out actions best
# (log likelihood per step, 9,000 episodes: clone -1.90, multinomial -1.94, kNN -2.04).
BEHAVIORS = {"kNN": "knn", "BC": "clone", "BCRNN": "recurrent"}
OWN = "own"
NAMES = {
    "poela": "POELA",
    "pomu": "PO-mu",
    "pocrm": "PO-CRM",
    "bcq": "BCQ",
    "pql": "PQL",
    "cql": "CQL",
    "fittedq": "FittedQ",
    "clone": "Clone",
}
# A share, so that smaller versions can choose too: 200 of 3,000 validation episodes, as in the paper.
CHOOSING = Choosing(200 / 3000)
UNLIMITED = Choosing(0.0)

K = 100  # of kNN, as the paper has it

RADII = (0.4, 0.6, 0.8, 1.0)
PENALTIES = (0.0, 0.1, 1.0, 10.0)
PROBABILITIES = (0.01, 0.02, 0.05, 0.1)
THRESHOLDS = (0.0, 0.01, 0.05, 0.1, 0.3, 0.5)
# With own care, each policy-gradient learner has eight settings, so that none is tuned harder.
FEW_PENALTIES = (0.0, 1.0)
MANY_PENALTIES = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
CONSERVATISM = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
RULES = ({"minimum_probability": 0.05}, {"minimum_probability": 0.1})
LOWEST_VALUE = 0.0  # v_min of PQL on this task


@dataclass(frozen=True)
class Size:
    """How much is done."""

    episodes: tuple[int, int, int] = (9000, 3000, 3000)  # to learn from, to choose by, to test with
    restarts: int = 1
    roll_outs: int = 20_000
    hidden: tuple[int, int] = (256, 256)
    steps: int = 1000  # of policy gradients; Q-learning takes ten times as many
    checkpoints: int = 20
    early_steps: int = 50  # of policy gradients, looked at closely
    early_checkpoints: int = 5
    fewer: int = 1  # every so many candidates of each learner are tried
    behaviors: tuple[str, ...] = tuple(BEHAVIORS)  # of the paper's tables
    own_behavior: str = "clone"  # where the choice is ours
    own_data_sets: int = 2  # on which every learner stands beside the clinicians
    default_episodes: int = 15_000
    default_learners: tuple[str, ...] | None = None  # None: all that a default study tries


FULL = Size()
QUICK = Size(
    episodes=(300, 150, 150),
    restarts=1,
    roll_outs=500,
    hidden=(32, 32),
    steps=30,
    checkpoints=3,
    early_steps=2,
    early_checkpoints=2,
    fewer=5,
    behaviors=("kNN",),
    own_behavior="multinomial",
    own_data_sets=1,
    default_episodes=300,
    default_learners=("clone",),
)


@dataclass(frozen=True)
class SepsisTask:
    """One data set with one model of the logging policy."""

    variant: str = "harmless"
    behavior: str = "kNN"
    seed: int = 0
    early: bool = False  # the first steps of policy gradients only, with checkpoints close to each other

    @property
    def simulator(self) -> Sepsis:
        """The environment."""
        return Sepsis(self.variant)

    @property
    def directory(self) -> str:
        """Where its study is kept.

        >>> SepsisTask("harmful", "BC").directory
        'harmful-bc-0'
        """
        return f"{self.variant}-{self.behavior.lower()}{'-early' if self.early else ''}-{self.seed}"

    def logs(self, size: Size) -> tuple[Trajectories, Trajectories, Trajectories]:
        """Logs to learn from, to choose by and to test with; the clinicians' probabilities stay hidden."""
        train, validation, test = (
            run(self.simulator, SepsisBehavior(), n, seed=(self.seed, role)).with_propensities(None)
            for role, n in enumerate(size.episodes)
        )
        return train, validation, test

    def weighted_logs(self, size: Size) -> tuple[Trajectories, Trajectories, Trajectories]:
        """The same logs as a study takes them: without propensities, which it then estimates, but for kNN.

        As in the authors' code, the kNN behind the weights of a part of the logs is fitted on that very part; that
        behind the rules of policies is fitted on training episodes.
        """
        train, validation, test = self.logs(size)
        if self.behavior != "kNN":
            return train, validation, test
        return _weighted_by_itself(train), _weighted_by_itself(validation), _weighted_by_itself(test)


def _weighted_by_itself(logs: Trajectories) -> Trajectories:
    """The logs with propensities by a kNN that has seen them."""
    return logs.with_propensities(KNNBehavior(k=min(K, logs.n_steps)).fit_quietly(logs, seed=0).along(logs))


def candidates_of(size: Size, behavior: str) -> list[Candidate]:
    """The paper's grids for its behavior models; for "own" ours, with more learners.

    >>> [len(candidates_of(FULL, behavior)) for behavior in ("kNN", "BC", OWN)]
    [36, 36, 53]
    """
    common = {"hidden": (size.hidden,), "checkpoints": (size.checkpoints,)}
    gradient = {**common, "steps": (size.steps,), "warm_start_steps": (max(size.steps // 2, 1),)}
    values = {**common, "steps": (10 * size.steps,), "batch_size": (100,)}
    density = {**values, "density_steps": (10 * size.steps,), "lowest_value": (LOWEST_VALUE,)}
    learners = [
        *(_own_care(gradient, values) if behavior == OWN else _as_published(behavior, gradient)),
        grid("bcq", threshold=THRESHOLDS, **values),
        grid("pql", threshold=THRESHOLDS, **density),
    ]
    return [candidate for own in learners for candidate in own[:: size.fewer]]


def early_candidates(size: Size, behavior: str) -> list[Candidate]:
    """The paper's grids of policy gradients, for the first steps after the warm start.

    >>> len(early_candidates(FULL, "kNN"))
    24
    """
    settings = {
        "hidden": (size.hidden,),
        "steps": (size.early_steps,),
        "checkpoints": (size.early_checkpoints,),
        "warm_start_steps": (max(size.steps // 2, 1),),
    }
    return [candidate for own in _as_published(behavior, settings) for candidate in own[:: size.fewer]]


def _as_published(behavior: str, gradient: dict[str, Any]) -> list[list[Candidate]]:
    """Where kNN gives an action probability 0, the paper bars it for every policy-gradient learner."""
    radius = {"radius": RADII, "variance_penalty": PENALTIES, "fallback": ("all",)}
    overlap = {"minimum_probability": (0.0,)}
    unruled = grid("pocrm", variance_penalty=PENALTIES, **gradient)
    if behavior == "kNN":
        radius |= overlap
        unruled = grid("pomu", variance_penalty=PENALTIES, **overlap, **gradient)
    return [
        grid("poela", **radius, **gradient),
        grid("pomu", minimum_probability=PROBABILITIES, variance_penalty=(0.0,), **gradient),
        unruled,
    ]


def _own_care(gradient: dict[str, Any], values: dict[str, Any]) -> list[list[Candidate]]:
    backups = ("max", "soft")
    return [
        grid("poela", radius=RADII, variance_penalty=FEW_PENALTIES, **gradient),
        grid("pomu", minimum_probability=PROBABILITIES, variance_penalty=FEW_PENALTIES, **gradient),
        grid("pocrm", variance_penalty=MANY_PENALTIES, **gradient),
        grid("cql", conservatism=CONSERVATISM, **values),
        [*grid("fittedq", history=(0, 2), backup=backups), *grid("fittedq", history=(0,), backup=backups, rule=RULES)],
        [Candidate("clone"), *grid("clone", rule=RULES)],
    ]


def name_of(candidate: Candidate) -> str:
    """The learner as tables name it: PO-mu that asks for no more than overlap is PO-CRM.

    >>> name_of(Candidate("pomu", {"minimum_probability": 0.0})), name_of(Candidate("pomu"))
    ('PO-CRM', 'PO-mu')
    """
    if candidate.learner == "pomu" and candidate.settings.get("minimum_probability") == 0:
        return NAMES["pocrm"]
    return NAMES[candidate.learner]


@dataclass(frozen=True, eq=False)
class SepsisStudy:
    """A finished study of the experiment."""

    task: SepsisTask
    size: Size
    study: Study

    @cached_property
    def by_learner(self) -> dict[str, list[Scored]]:
        """The policies of each learner, and those of POELA without a variance penalty."""
        return by_learner(self.study, name_of)

    def candidate(self, item: Scored) -> Candidate:
        """What a policy was learned with."""
        return self.study.runs[item.run_id].task.candidate

    def chosen(self, items: list[Scored], protocol: str, choosing: Choosing = CHOOSING) -> tuple[Scored | None, str]:
        """The best of these policies on the validation logs, and the least effective sample size it had to have."""
        return choosing.chosen(items, protocol, self.study.record.data.validation_episodes)


def study_of(task: SepsisTask, size: Size, out: Path, running: Running) -> SepsisStudy:
    """The study of a task: carried out, continued or, where it is finished, opened."""
    train, validation, _ = task.weighted_logs(size)
    study = running.study(
        train,
        out / task.directory,
        validation=validation,
        candidates=(early_candidates if task.early else candidates_of)(size, task.behavior),
        restarts=size.restarts,
        seed=task.seed,
        selection=CHOOSING.selections["best"],
        behavior=size.own_behavior if task.behavior == OWN else BEHAVIORS[task.behavior],
    )
    return SepsisStudy(task, size, study)


def default_study(variant: str, size: Size, seed: int, out: Path, running: Running) -> Study:
    """A study with default settings on one file of logs without propensities."""
    logs = run(Sepsis(variant), SepsisBehavior(), size.default_episodes, seed=(seed, 3)).with_propensities(None)
    return running.study(logs, out / f"{variant}-default-{seed}", learners=size.default_learners, seed=seed)
