"""The runs of a study, carried out where the execution says, and kept as they come."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from poela.core.errors import PoelaError
from poela.core.files import unwritable
from poela.core.progress import progress
from poela.studies.execution import Lost, Outcome, available_cores, run_inline, run_local
from poela.studies.fold_data import FoldData, remove_folds, write_folds
from poela.studies.options import Execution
from poela.studies.records import RunRecord, Task
from poela.studies.stacks import has_gpu, run_stacked
from poela.studies.store import SCRATCH
from poela.studies.study import Study
from poela.studies.tracking import tracker


def run(
    study: Study,
    tasks: Sequence[Task],
    folds: Mapping[str, FoldData],
    execution: Execution,
    deadline: float | None = None,
    finished: Callable[[Task, RunRecord], None] | None = None,
) -> None:
    """Carry out runs of a study, and keep each as it finishes, of which `finished` is told; a deadline may end it."""
    scratch = study.directory / SCRATCH
    lost: list[str] = []
    tracking = tracker(execution.track, study.directory)
    try:
        write_folds(scratch, folds)
        with (
            closing(_outcomes(tasks, scratch, execution, deadline)) as outcomes,
            progress(f"{len(tasks)} runs", len(tasks)) as advance,
        ):
            for task, result in outcomes:
                if isinstance(result, Lost):
                    lost.append(f"{task.candidate}, restart {task.restart}: {result.reason}")
                else:
                    study.store.write_run(result.record, result.policies)
                    if tracking is not None:
                        tracking.finished(task.run_id, result.record)
                    if finished is not None:
                        finished(task, result.record)
                advance(1, note=str(task.candidate))
    except OSError as error:
        raise unwritable(study.directory, error) from None
    finally:
        remove_folds(scratch)
    if lost:
        raise PoelaError("; ".join(lost))


def _outcomes(
    tasks: Sequence[Task], scratch: Path, execution: Execution, deadline: float | None
) -> Generator[Outcome, None, None]:
    if execution.backend == "inline":
        return run_inline(tasks, scratch, deadline)
    if execution.backend == "local":
        jobs = execution.jobs or available_cores()
        return (run_stacked if has_gpu() else run_local)(tasks, scratch, jobs, deadline)
    from poela.studies.ray_backend import run_ray

    return run_ray(tasks, scratch, execution.address, deadline, execution.jobs)
