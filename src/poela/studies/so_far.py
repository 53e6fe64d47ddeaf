"""A provisional answer while a study runs: judged as its result will be, on the paths that are finished.

Nothing that the study ends with depends on it. Folds that teach each other take the worst case, as nobody has yet left
two of them out.
"""

import time
import warnings
from collections import Counter
from collections.abc import Sequence

from poela.core.errors import PoelaError
from poela.core.progress import tell
from poela.studies.guarded import Guarded
from poela.studies.held_out import Episodes
from poela.studies.judging import Part, judged_points
from poela.studies.outcome_unit import Outcome
from poela.studies.records import RunRecord, SoFarRecord, StudyRecord, Task
from poela.studies.selection import Choice, choose
from poela.studies.study import Study

MOST_SHARE = 0.1  # of the time that passes, for judging early: seconds of this processor


class SoFar:
    """Keeps the provisional answer of a study, run by run."""

    def __init__(self, study: Study, episodes: Episodes, guards: Sequence[Guarded] = ()) -> None:
        self._study, self._episodes, self._guards = study, episodes, guards
        self._runs: dict[str, RunRecord] = dict(study.runs)
        self._left = Counter(task.candidate.learner for task in study.left_out)
        self._judged = 0  # paths
        self._started, self._spent, self._last = time.perf_counter(), 0.0, 0.0  # _last: by one look, for each path
        self._record: SoFarRecord | None = None
        self._told = False  # what is known first is said at once, and then learner by learner

    def finished(self, task: Task, record: RunRecord) -> None:
        """A run has finished: judge what it completes, unless that has taken too much time already."""
        self._runs[task.run_id] = record
        self._left[task.candidate.learner] -= 1
        if len(self._runs) < len(self._study.tasks):  # the last one is followed by the answer itself
            self._look()
        if not self._left[task.candidate.learner]:
            self._tell_of(task.candidate.learner)

    def _look(self) -> None:
        paths = sum(count == self._study.n_folds for count in Counter(map(_path_of, self._runs.values())).values())
        elapsed = time.perf_counter() - self._started
        if paths == self._judged or self._spent + self._last * paths > MOST_SHARE * elapsed:
            return  # or would have, with this look
        started, self._judged = time.process_time(), paths
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # said at the end
                self._record = self._answer()
        except PoelaError:
            return  # and so is what is wrong
        finally:
            took = time.process_time() - started
            self._spent, self._last = self._spent + took, took / paths
        self._study.store.write_so_far(self._record)
        if not self._told:
            self._told = True
            tell(so_far_in_words(self._record, self._study.record))

    def _answer(self) -> SoFarRecord:
        study, settings = self._study, self._study.settings
        shared = None if study.n_folds == 1 else _unknown
        runs = [self._runs[task.run_id] for task in study.tasks if task.run_id in self._runs]
        points, _ = judged_points(study.store, runs, self._episodes, settings, study.n_folds, shared, self._guards)
        record = study.record
        units, doubted = self._episodes.logs.n_units, record.data.doubted
        choice = choose(points, settings.selection, units, record.logging_policy, doubted)
        gain, low = _gain_of(choice, by_gain=settings.selection.by == "gain")
        return SoFarRecord(
            study=record.fingerprint,
            runs=len(self._runs),
            of=len(study.tasks),
            policies=len(points),
            policy=Study(study.store).details_of(choice.chosen),
            gain=gain,
            low=low,
            confidence=settings.selection.confidence,
        )

    def _tell_of(self, learner: str) -> None:
        said = f"{learner} has finished"
        if self._record is not None and len(self._runs) < len(self._study.tasks):
            said = f"{said}. {so_far_in_words(self._record, self._study.record)}"
        tell(said)


def _gain_of(choice: Choice, *, by_gain: bool) -> tuple[float | None, float | None]:
    """The estimated gain of what would be chosen now, and its bound."""
    if choice.chosen is None or not by_gain:
        return None, None
    metrics = choice.chosen.metrics
    return metrics.get("gain"), metrics.get("shown")


def _unknown(path_id: str, parts: Sequence[Part]) -> list[list[None]]:
    """What folds share is not known yet, of any way to show a gain."""
    return [[None] * (1 if evidence.controlled is None else 2) for _, evidence, _ in parts]


def _path_of(run: RunRecord) -> str:
    return run.task.path_id


def so_far_in_words(record: SoFarRecord, study: StudyRecord) -> str:
    """One sentence, which says that it is provisional."""
    policies = "1 policy" if record.policies == 1 else f"{record.policies} policies"
    after = f"So far, after {policies} ({record.runs} of {record.of} runs):"
    if record.low is None:
        best = "nothing is shown to be better" if study.settings.selection.by == "gain" else f"{record.policy} is best"
        return f"{after} {best} (provisional)."
    least = (study.outcome or Outcome()).amount(record.low, study.logging_policy.standard_error)
    confidence = f"{100 * record.confidence:.4g}%"
    doubted = " if everything that mattered was recorded" if study.data.doubted else ""
    return f"{after} at least {least} better than what is done now{doubted} ({confidence}, provisional)."


def left_out_in_words(study: Study) -> str:
    """What a study has not tried, by learner; its answer holds for what it has."""
    left = Counter(task.candidate.learner for task in study.left_out)
    every = Counter(task.candidate.learner for task in study.tasks)
    each = ", ".join(f"{learner} {count} of {every[learner]}" for learner, count in left.items())
    return (
        f"Left out: {len(study.left_out)} of {len(study.tasks)} runs ({each}). The answer covers the policies that "
        "were tried in every fold; continue with --resume."
    )
