"""Which run comes next in which worker."""

from collections import Counter

from poela.studies.candidates import Candidate
from poela.studies.execution import Waiting, staged
from poela.studies.records import Task

NAMES = ("fittedq", "consensus", "bcq", "poela")
NAMES_BY_COST = ("fittedq", "consensus", "poela", "bcq")
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


def test_workers_share_folds_out_and_keep_to_them_until_the_end() -> None:
    done = followed(Waiting(TASKS), 2)
    prepared = [len({task.fold for task in own}) for own in done.values()]
    assert sum(prepared) <= 5 + 2  # five folds, and what one takes over from the other when its own are done
    for own in done.values():
        order = [NAMES_BY_COST.index(task.candidate.learner) for task in own]
        assert order == sorted(order)


def test_short_runs_come_first_and_batches_last() -> None:
    own = followed(Waiting(TASKS), 1)[0]
    assert [task.candidate.learner for task in own[::5]] == list(NAMES_BY_COST)
    assert own == staged(TASKS)


def test_under_a_limit_of_time_one_path_is_finished_after_the_other() -> None:
    done = followed(Waiting(TASKS, in_order=True), 2)
    rounds = [task for both in zip(done[0], done[1], strict=True) for task in both]
    assert rounds == staged(TASKS)


def test_a_candidate_that_cannot_be_built_comes_with_the_short_ones() -> None:
    broken = Task(Candidate("poela", {"radius": -1.0}), 0, 0, 0)
    assert followed(Waiting([Task(Candidate("poela"), 0, 0, 0), broken]), 1)[0][0] == broken
