"""Which run comes next in which worker: long ones first, and a worker stays with the fold that it has prepared."""

from collections.abc import Sequence
from threading import Lock

from poela.core.errors import PoelaError
from poela.learners.policy_gradient import PolicyGradient
from poela.learners.stacked import StackedLearner
from poela.studies.records import Task

LONG = (PolicyGradient, StackedLearner)  # a pass over the log at each step; then a batch of it; all others are short


class Waiting:
    """The runs that no worker has begun; workers are known by number.

    A fold costs time before its first run (its distances, its model of values), in each worker anew. `in_order`: as
    given instead, so that a study which is cut short has tried every candidate.

    >>> from poela.studies.candidates import Candidate
    >>> tasks = [Task(Candidate(name), 0, 0, fold) for name in ("fittedq", "poela") for fold in (0, 1)]
    >>> waiting = Waiting(tasks)
    >>> [f"{task.candidate}, {task.fold}" for task in map(waiting.take, (7, 8, 7, 8)) if task]
    ['poela, 0', 'poela, 1', 'fittedq, 0', 'fittedq, 1']
    """

    def __init__(self, tasks: Sequence[Task], *, in_order: bool = False) -> None:
        self._left = list(tasks) if in_order else sorted(tasks, key=_place)
        self._in_order, self._lock = in_order, Lock()
        self._fold_of: dict[int, int | None] = {}

    def take(self, worker: int) -> Task | None:
        """The next run of a worker; None when nothing is left."""
        with self._lock:
            if not self._left:
                return None
            task = self._left[0] if self._in_order else self._next_of(worker)
            self._left.remove(task)
            self._fold_of[worker] = task.fold
            return task

    def _next_of(self, worker: int) -> Task:
        often = {fold: sum(task.fold == fold for task in self._left) for fold in {task.fold for task in self._left}}
        begun = set(self._fold_of.values())

        def closeness(task: Task) -> tuple[bool, bool, int]:
            """A run of its own fold; else of one that nobody has begun; else of the one with most left."""
            own = worker in self._fold_of and task.fold == self._fold_of[worker]
            return own, task.fold not in begun, often[task.fold]

        return max(self._left, key=closeness)  # the first of equals, and long ones stand first


def _place(task: Task) -> int:
    try:
        learner = task.candidate.build()
    except PoelaError:
        return len(LONG)  # its own run says why
    return next((place for place, kind in enumerate(LONG) if isinstance(learner, kind)), len(LONG))
