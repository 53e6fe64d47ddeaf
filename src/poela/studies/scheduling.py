"""Which run comes next in which worker: cheap learners first, path by path, so that an answer is there early."""

from collections.abc import Sequence
from threading import Lock

from poela.core.errors import PoelaError
from poela.learners.policy_gradient import PolicyGradient
from poela.learners.rules import Rules
from poela.learners.stacked import StackedLearner
from poela.studies.records import Task

# The short ones first, then these: a search over rules, passes over the log at each step, and batches of it.
LATER = (Rules, PolicyGradient, StackedLearner)


def staged(tasks: Sequence[Task]) -> list[Task]:
    """The runs in the order in which they are begun: a path is finished in all folds before the next one.

    >>> from poela.studies.candidates import Candidate
    >>> names = ("bcq", "poela", "fittedq", "rules")
    >>> [task.candidate.learner for task in staged([Task(Candidate(name), 0, 0, 0) for name in names])]
    ['fittedq', 'rules', 'poela', 'bcq']
    """
    return sorted(tasks, key=_stage)


class Waiting:
    """The runs that no worker has begun; workers are known by number.

    A fold costs time before its first run (its distances, its model of values), in each worker anew: so a worker goes
    along the paths with the folds that it has prepared, and those that nobody has. `in_order`: strictly one path after
    the other instead, so that a study which is cut short has finished what it has begun.

    >>> from poela.studies.candidates import Candidate
    >>> tasks = [Task(Candidate(name), 0, 0, fold) for name in ("poela", "fittedq") for fold in (0, 1)]
    >>> waiting = Waiting(tasks)
    >>> [f"{task.candidate}, {task.fold}" for task in map(waiting.take, (7, 8, 7, 8)) if task]
    ['fittedq, 0', 'fittedq, 1', 'poela, 0', 'poela, 1']
    """

    def __init__(self, tasks: Sequence[Task], *, in_order: bool = False) -> None:
        self._left = staged(tasks)
        self._in_order, self._lock = in_order, Lock()
        self._prepared: dict[int, set[int | None]] = {}  # folds, by worker

    def take(self, worker: int) -> Task | None:
        """The next run of a worker; None when nothing is left."""
        with self._lock:
            if not self._left:
                return None
            task = self._left[0] if self._in_order else self._next_of(worker)
            self._left.remove(task)
            self._prepared.setdefault(worker, set()).add(task.fold)
            return task

    def _next_of(self, worker: int) -> Task:
        own = self._prepared.get(worker, set())
        begun = set[int | None]().union(*self._prepared.values())
        near = (task for task in self._left if task.fold in own or task.fold not in begun)
        return next(near, self._left[0])


def _stage(task: Task) -> int:
    try:
        learner = task.candidate.build()
    except PoelaError:
        return 0  # its own run says why
    return next((stage for stage, kind in enumerate(LATER, start=1) if isinstance(learner, kind)), 0)
