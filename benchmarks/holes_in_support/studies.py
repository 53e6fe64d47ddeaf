"""One log, one whole study of it through the public functions, and what is true of what it says: a row."""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

import poela
from poela.core.errors import PoelaError, PoelaWarning
from poela.data.trajectories import Trajectories
from poela_experiments.frame.kept import code_version

from .processes import Process
from .scenarios import scenario
from .variants import settings_of

Row = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One log of a scenario, and how it is studied."""

    scenario: str
    n: int
    variant: str
    learners: tuple[str, ...]  # none: the usual ones
    seed: int

    @property
    def kind(self) -> str:
        """All but the seed, as a name for files.

        >>> Task("half:own", 1500, "norule", ("poela", "bcq"), 3).kind
        'half-own.1500.norule.poela-bcq'
        """
        parts = (self.scenario.replace(":", "-"), str(self.n), self.variant, "-".join(self.learners))
        return ".".join(filter(None, parts))

    @property
    def row(self) -> Row:
        """Where a row begins."""
        return {
            "scenario": self.scenario,
            "n": self.n,
            "variant": self.variant,
            "learners": "+".join(self.learners) or "usual",
            "seed": self.seed,
            "code": code_version(),
        }


def studied(task: Task) -> Row:
    """The row of a task; a study that fails leaves its error."""
    described = scenario(task.scenario)
    logs = described.logs(task.n, task.seed)
    settings = settings_of(task.variant, task.learners or None)
    started = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PoelaWarning)
            study = poela.learn(logs, seed=task.seed, backend="inline", **settings)
            seconds = time.process_time() - started
            return task.row | _found(study, described.process, logs) | {"seconds": round(seconds, 2)}
    except Exception as problem:  # one log must not end a night's work; tables count what failed
        wrong = str(problem) if isinstance(problem, PoelaError) else f"{type(problem).__name__}: {problem}"
        return task.row | {"error": wrong, "seconds": round(time.process_time() - started, 2)}


def _found(study: Any, process: Process, logs: Trajectories) -> Row:
    """What the study says, and what is true of it."""
    recommended = not study.keeps_logging_policy
    gain = study.gain
    shown = gain.low if recommended and gain is not None else None
    row: Row = {
        "recommended": recommended,
        "claimed": shown is not None and shown > 0,
        "shown": shown,
        "estimate": None if gain is None else gain.value,
        "verdict": study.estimate.verdict,
        "answer": study.answer.headline,
    }
    if recommended:
        point, policy = study.choice.chosen, study.policy
        truth = process.truth(policy)
        row |= {"true": truth.gain, "in_hole": truth.in_hole, "harmful": truth.gain < 0}
        row |= {"false": shown is not None and shown > truth.gain}
        if row["false"]:  # was the claim wrong, or is what is handed back another policy than what was judged?
            folds = [study.fold_policy(point, fold) for fold in range(study.n_folds)]
            row |= {"true_as_judged": fmean(process.truth(one).gain for one in folds)}
    elif study.promising is not None:
        point, policy = study.points[study.result.promising], study.promising
        truth = process.truth(policy)
        row |= {"promising_true": truth.gain, "promising_in_hole": truth.in_hole, "harmful": False, "false": False}
    else:
        return row | {"harmful": False, "false": False}
    candidate = study.origin(point)[0].candidate
    return row | {
        "learner": candidate.learner,
        "policy": study.name_of(point),
        "barred": barred(candidate.build(), policy, logs),
    }


def barred(learner: Any, policy: Any, logs: Trajectories) -> float | None:
    """The share of logged decisions of one half that the learner's rule, fitted on the other half, does not allow.

    A model of the logging policy that the rule asks for is the policy's own, which has seen both halves.

    >>> from poela import BCQ, Trajectories
    >>> logs = Trajectories([[0.0], [0.0], [1.0], [1.0]], [0, 0, 1, 1], [0] * 4, np.arange(5))
    >>> barred(poela.POELA(radius=0.5), None, logs)
    0.0
    """
    rule = learner.eligibility_rule() if hasattr(learner, "eligibility_rule") else getattr(learner, "rule", None)
    if rule is None:
        return None
    fitted = rule.fit(logs.take(np.arange(logs.n_episodes) % 2 == 0), _behavior(policy))
    asked = logs.take(np.arange(logs.n_episodes) % 2 == 1)
    allowed = fitted.along(asked).mask[np.arange(asked.n_steps), asked.actions]
    return float(1 - allowed.mean())


def _behavior(policy: Any) -> Any:
    return getattr(getattr(policy, "eligibility", None), "behavior", None)


def tasks_of(
    scenarios: Sequence[str], n: int, variant: str, learners: Sequence[str], seeds: Sequence[int]
) -> list[Task]:
    """All tasks, seed by seed: a run that is cut short has as many logs of each scenario."""
    return [Task(name, n, variant, tuple(learners), seed) for seed in seeds for name in scenarios]
