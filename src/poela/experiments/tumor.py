"""The paper's tumor experiment: learners on simulated logs, each chosen by validation, each with its true value.

Every data set is one study; each learner's policy is chosen among its own candidates. The truth of the simulator is
looked at last, and only to be printed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poela.core.progress import progress
from poela.data.trajectories import Trajectories
from poela.evaluation.rollouts import true_value
from poela.experiments.results import Cell, Report, ResultTable, with_error
from poela.policies.storage import load_object
from poela.simulators.episodes import run
from poela.simulators.tumor import TumorBehavior, TumorGrowth, normalised
from poela.studies.candidates import Candidate, grid
from poela.studies.learning import learn
from poela.studies.selection import Selection, choose
from poela.studies.study import Study

FINAL = Selection("sntis", "final")
PENALTIES = (0.0, 0.1, 1.0)
RADII = (0.05, 0.1, 0.5)
# PO-CRM has one setting where POELA has two, so it gets as many values of that one: neither is tuned harder.
MANY_PENALTIES = (0.0, 0.03, 0.1, 0.3, 1.0, 2.0, 3.0, 5.0, 10.0)
ROLL_OUTS = 2000
NAMES = {"poela": "POELA", "pocrm": "PO-CRM", "pomu": "PO-mu", "bcq": "BCQ", "pql": "PQL"}


@dataclass(frozen=True)
class TumorTask:
    """One data set of the experiment."""

    markov: bool = False
    data_set: int = 0
    episodes: int = 1000  # to learn from, and as many to choose by

    @property
    def simulator(self) -> TumorGrowth:
        """The environment."""
        return TumorGrowth(markov=self.markov)

    def logs(self) -> tuple[Trajectories, Trajectories]:
        """Training and validation logs."""
        parts = (run(self.simulator, TumorBehavior(), self.episodes, seed=(self.data_set, role)) for role in (0, 1))
        train, validation = parts
        return train, validation


@dataclass(frozen=True)
class Outcome:
    """The policy that a learner ends with on one data set; values are normalised."""

    learner: str
    data_set: int
    candidate: str
    sntis: float
    ess: float
    truth: float
    truth_error: float

    @property
    def excess(self) -> float:
        """By how much the validation estimate exceeds the truth."""
        return self.sntis - self.truth


def tumor(out: Path, quick: bool = True, seed: int = 0, jobs: int | None = None) -> Report:
    """POELA and PO-CRM with known behavior, final policies, non-Markov contexts: who is right about itself?"""
    restarts, data_sets, episodes = (2, 2, 300) if quick else (5, 5, 1000)
    candidates = [
        *grid("poela", radius=RADII, variance_penalty=PENALTIES),
        *grid("pocrm", variance_penalty=MANY_PENALTIES),
    ]
    if quick:
        candidates = [c.with_settings(steps=100, warm_start_steps=100) for c in candidates[:12:3]]
    tasks = [TumorTask(data_set=seed + number, episodes=episodes) for number in range(data_sets)]
    outcomes = compare_learners(tasks, candidates, restarts, out, jobs)
    flags = "--quick" if quick else "--full"
    report = Report("tumor", _tables(outcomes, tasks, f"poela reproduce tumor {flags} --seed {seed}"))
    return report.write(out)


def compare_learners(
    tasks: Sequence[TumorTask],
    candidates: Sequence[Candidate],
    restarts: int,
    out: Path,
    jobs: int | None,
    selection: Selection = FINAL,
) -> list[Outcome]:
    """One study for each data set; what each learner's chosen policy promises and holds."""
    found: list[Outcome] = []
    with progress("data sets", len(tasks)) as advance:
        for task in tasks:
            train, validation = task.logs()
            variant = "markov" if task.markov else "non-markov"
            study = learn(
                train,
                validation=validation,
                candidates=candidates,
                restarts=restarts,
                seed=task.data_set,
                selection=selection,
                out=out / f"{variant}-{task.data_set}",
                resume=True,
                jobs=jobs,
            )
            learners = dict.fromkeys(candidate.learner for candidate in candidates)
            found += [outcome_of(study, learner, task, selection) for learner in learners]
            advance()
    return found


def outcome_of(study: Study, learner: str, task: TumorTask, selection: Selection) -> Outcome:
    """The learner's own best policy by the selection, and its truth."""
    own = [item for item in study.scored if study.runs[item.run_id]["candidate"]["learner"] == learner]
    chosen = choose(own, selection, task.episodes).chosen
    assert chosen is not None, f"no policy of {learner} has any weight on the validation logs"
    policy: Any = load_object(study.store.policy(chosen.run_id, chosen.number))
    truth = true_value(policy, task.simulator, ROLL_OUTS, seed=task.data_set)
    return Outcome(
        learner=learner,
        data_set=task.data_set,
        candidate=study.name_of(chosen),
        sntis=normalised(chosen.metrics["sntis"] or 0.0),
        ess=chosen.metrics["ess"] or 0.0,
        truth=normalised(truth.value),
        truth_error=normalised(truth.standard_error) - normalised(0.0),
    )


def _tables(outcomes: Sequence[Outcome], tasks: Sequence[TumorTask], command: str) -> tuple[ResultTable, ...]:
    scale = "normalised: uniform random 0, best schedule found 100"
    learners = dict.fromkeys(outcome.learner for outcome in outcomes)
    summary = [_summary(learner, [o for o in outcomes if o.learner == learner]) for learner in learners]
    details: list[dict[str, Cell]] = [
        {
            "learner": NAMES[outcome.learner],
            "data set": outcome.data_set,
            "true value": outcome.truth,
            "SNTIS": outcome.sntis,
            "SNTIS - truth": outcome.excess,
            "ESS": outcome.ess,
            "chosen": outcome.candidate,
        }
        for outcome in outcomes
    ]
    logging = true_value(TumorBehavior(), tasks[0].simulator, 20_000, seed=tasks[0].data_set)
    note = f"logging policy: true value {normalised(logging.value):.1f}"
    return (
        ResultTable(
            "Tumor growth, non-Markov, final policy chosen by validation SNTIS", summary, command, (scale, note)
        ),
        ResultTable("Each data set", details, command, (scale,)),
    )


def _summary(learner: str, own: Sequence[Outcome]) -> dict[str, Cell]:
    over = [outcome.excess for outcome in own if outcome.excess > 0]
    return {
        "learner": NAMES[learner],
        "true value": with_error([outcome.truth for outcome in own]),
        "SNTIS - truth": with_error([outcome.excess for outcome in own]),
        "absolute difference": with_error([abs(outcome.excess) for outcome in own]),
        "estimate above truth": f"{len(over)} of {len(own)}",
        "by on average": sum(over) / len(over) if over else 0.0,
        "ESS": with_error([outcome.ess for outcome in own]),
    }
