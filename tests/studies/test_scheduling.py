"""Which run comes next in which worker."""

from collections import Counter

from poela.studies.candidates import Candidate
from poela.studies.records import Task
from poela.studies.scheduling import Waiting

NAMES = ("fittedq", "consensus", "bcq", "poela")
TASKS = [Task(Candidate(name), 0, 0, fold) for name in NAMES for fold in range(5)]


def followed(waiting: Waiting, workers: int) -> dict[int, list[Task]]:
    """What workers do that all take equally long."""
    done: dict[int, list[Task]] = {worker: [] for worker in range(workers)}
    while True:
        for own, worker in zip(done.values(), done, strict=True):
            task = waiting.take(worker)
            if task is None:
                return done
            own.append(task)


def test_every_run_comes_once_whatever_the_number_of_workers() -> None:
    for workers in (1, 2, 3, 7, 30):
        done = followed(Waiting(TASKS), workers)
        assert Counter(task.run_id for own in done.values() for task in own) == Counter(task.run_id for task in TASKS)


def test_a_worker_stays_with_its_fold_until_that_is_done() -> None:
    done = followed(Waiting(TASKS), 2)
    prepared = [len({task.fold for task in own}) for own in done.values()]
    assert sum(prepared) == 6  # the last of five folds is shared, no other
    for own in done.values():
        folds = [task.fold for task in own]
        assert folds == sorted(folds, key=folds.index)


def test_passes_over_the_log_come_before_batches_and_those_before_regressions() -> None:
    own = followed(Waiting(TASKS), 1)[0]
    assert [task.candidate.learner for task in own[:4]] == ["poela", "bcq", "fittedq", "consensus"]


def test_under_a_budget_runs_keep_their_order() -> None:
    assert followed(Waiting(TASKS, in_order=True), 1)[0] == TASKS


def test_a_candidate_that_cannot_be_built_waits_with_the_short_ones() -> None:
    broken = Task(Candidate("poela", {"radius": -1.0}), 0, 0, 0)
    assert followed(Waiting([broken, Task(Candidate("poela"), 0, 0, 0)]), 1)[0][1] == broken
