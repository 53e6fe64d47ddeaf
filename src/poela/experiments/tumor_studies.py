"""The studies behind the tumor tables: every data set is one study, and each learner's policy is chosen from its own.

The truth of the simulator is looked at last, and only to be printed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from poela.core.progress import progress
from poela.data.trajectories import Trajectories
from poela.evaluation.rollouts import true_value
from poela.experiments.running import Running
from poela.policies.storage import load_object
from poela.simulators.episodes import run
from poela.simulators.tumor import TumorBehavior, TumorGrowth, normalised
from poela.studies.candidates import Candidate, grid
from poela.studies.selection import Scored, Selection, choose
from poela.studies.study import Study

PROTOCOLS = {"final": Selection("sntis", "final"), "best": Selection("sntis", "best")}
NAMES = {"poela": "POELA", "pomu": "PO-mu", "pocrm": "PO-CRM", "bcq": "BCQ", "pql": "PQL"}
# Whose probabilities are used: those of the log, or those of a model by its name in the table of behavior models.
BEHAVIORS = {"known": "auto", "BC": "clone", "BCRNN": "recurrent"}

PENALTIES = (0.0, 0.1, 1.0)
RADII = (0.05, 0.1, 0.5)
# PO-CRM has one setting where POELA has two, so it gets as many values of that one; PO-mu gets penalties, which the
# paper does not give it. So neither has fewer settings to choose from than POELA.
MANY_PENALTIES = (0.0, 0.03, 0.1, 0.3, 1.0, 2.0, 3.0, 5.0, 10.0)
PROBABILITIES = (0.01, 0.05, 0.1, 0.2)
THRESHOLDS = (0.0, 0.2)
LOWEST_VALUE = -30.0  # v_min of PQL on this task


@dataclass(frozen=True)
class Size:
    """How much is done."""

    data_sets: int
    episodes: int  # to learn from, and as many to choose by
    restarts: int
    roll_outs: int
    steps: int | None = None  # None: as many as the paper
    checkpoints: int = 25


FULL = Size(data_sets=5, episodes=1000, restarts=5, roll_outs=2000)
QUICK = Size(data_sets=1, episodes=200, restarts=1, roll_outs=500, steps=50, checkpoints=5)


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
        parts = [run(self.simulator, TumorBehavior(), self.episodes, seed=(self.data_set, role)) for role in (0, 1)]
        if self.behavior != "known":
            parts = [part.with_propensities(None) for part in parts]
        train, validation = parts
        return train, validation


@dataclass(frozen=True)
class Outcome:
    """The policy that a learner ends with on one data set; values are normalised."""

    learner: str
    task: TumorTask
    protocol: str
    candidate: str
    sntis: float
    ess: float
    truth: float
    truth_error: float

    @property
    def excess(self) -> float:
        """By how much the validation estimate exceeds the truth."""
        return self.sntis - self.truth


def tasks_of(size: Size, seed: int, *, markov: bool, behavior: str = "known") -> list[TumorTask]:
    """The data sets of one row of a table."""
    return [TumorTask(markov, seed + number, size.episodes, behavior) for number in range(size.data_sets)]


def candidates_of(size: Size, behavior: str = "known") -> list[Candidate]:
    """The paper's grids, with a path of checkpoints for each; the quick version has two candidates of each learner.

    >>> [str(candidate) for candidate in candidates_of(QUICK)][:1]
    ['poela radius=0.1 variance_penalty=0 checkpoints=5 steps=50 warm_start_steps=50']
    >>> len(candidates_of(FULL)), len(candidates_of(FULL, behavior="BC"))
    (32, 34)
    """
    every = {"checkpoints": (size.checkpoints,)}
    if size.steps is None:
        return [
            *grid("poela", radius=RADII, variance_penalty=PENALTIES, **every),
            *_pomu(behavior, every),
            *grid("pocrm", variance_penalty=MANY_PENALTIES, **every),
            *grid("bcq", threshold=THRESHOLDS, **every),
            *grid("pql", threshold=THRESHOLDS, lowest_value=(LOWEST_VALUE,), **every),
        ]
    few = {**every, "steps": (size.steps,)}
    warm, density = {**few, "warm_start_steps": (size.steps,)}, {**few, "density_steps": (size.steps,)}
    return [
        *grid("poela", radius=RADII[1:], variance_penalty=PENALTIES[:1], **warm),
        *grid("pomu", minimum_probability=PROBABILITIES[-2:], variance_penalty=(0.0,), **warm),
        *grid("pocrm", variance_penalty=MANY_PENALTIES[:2], **warm),
        *grid("bcq", threshold=THRESHOLDS, **few),
        *grid("pql", threshold=THRESHOLDS, lowest_value=(LOWEST_VALUE,), **density),
    ]


def _pomu(behavior: str, every: dict[str, Any]) -> list[Candidate]:
    if behavior != "known":
        return grid("pomu", minimum_probability=PROBABILITIES, variance_penalty=PENALTIES, **every)
    # Known probabilities are 0.15 and 0.85: thresholds below bar nothing, and one between leaves one policy only.
    return [
        *grid("pomu", minimum_probability=(0.1,), variance_penalty=MANY_PENALTIES, **every),
        *grid("pomu", minimum_probability=(0.2,), variance_penalty=(0.0,), **every),
    ]


def study_of(task: TumorTask, size: Size, out: Path, running: Running) -> Study:
    """The study of a data set: carried out, continued or, where it is finished, opened."""
    train, validation = task.logs()
    return running.study(
        train,
        out / task.directory,
        validation=validation,
        candidates=candidates_of(size, task.behavior),
        restarts=size.restarts,
        seed=task.data_set,
        selection=PROTOCOLS["final"],
        behavior=BEHAVIORS[task.behavior],
    )


def outcomes_of(tasks: Sequence[TumorTask], size: Size, out: Path, running: Running) -> list[Outcome]:
    """What each learner's chosen policy promises and holds, by either protocol."""
    found: list[Outcome] = []
    with progress("data sets", len(tasks)) as advance:
        for task in tasks:
            study = study_of(task, size, out, running)
            for learner in NAMES:
                found += _outcomes(study, learner, task, size)
            advance()
    return found


def _outcomes(study: Study, learner: str, task: TumorTask, size: Size) -> Iterator[Outcome]:
    """By both protocols; where they choose the same policy, its truth is found out once."""
    known: dict[tuple[str, int], Outcome] = {}
    for protocol, selection in PROTOCOLS.items():
        chosen = chosen_by(study, learner, selection)
        if chosen is None:
            continue
        key = (chosen.run_id, chosen.number)
        if key not in known:
            known[key] = _outcome(study, learner, task, size, chosen)
        yield replace(known[key], protocol=protocol)


def chosen_by(study: Study, learner: str, selection: Selection) -> Scored | None:
    """The learner's own best policy; None where none has any weight on the validation logs."""
    own = [item for item in study.scored if study.runs[item.run_id].task.candidate.learner == learner]
    return choose(own, selection, study.record.data.validation_episodes).chosen


def _outcome(study: Study, learner: str, task: TumorTask, size: Size, chosen: Scored) -> Outcome:
    policy: Any = load_object(study.store.policy(chosen.run_id, chosen.number))
    sntis = chosen.metrics["sntis"]
    assert sntis is not None  # it was chosen by it
    truth = true_value(policy, task.simulator, size.roll_outs, seed=task.data_set)
    return Outcome(
        learner=learner,
        task=task,
        protocol="",
        candidate=study.name_of(chosen),
        sntis=normalised(sntis),
        ess=chosen.metrics["ess"] or 0.0,
        truth=normalised(truth.value),
        truth_error=normalised(truth.standard_error) - normalised(0.0),
    )
