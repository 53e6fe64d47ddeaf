"""A page that is opened while a study runs: what is done, what is left, and what is known so far."""

from collections import defaultdict
from datetime import UTC, datetime

from poela.core.readable import effective
from poela.report.blocks import Block, Column, Entry, Fact, Facts, Section, Table, Text, named
from poela.report.sections.reproduce import reproduce_section
from poela.report.wording import typeset
from poela.studies.records import RunRecord, Task
from poela.studies.so_far import so_far_in_words
from poela.studies.study import Study
from poela.studies.words import sentence, without_rule


def unfinished_sections(study: Study) -> list[Section]:
    """What can be said before a study has judged anything."""
    done, every = len(study.runs), len(study.tasks)
    data, logging = study.record.data, study.record.logging_policy
    seconds = sum(run.wall_seconds for run in study.runs.values())
    facts = [
        Fact("Runs finished", f"{done} of {every}", f"{done / max(every, 1):.0%}"),
        Fact("Work so far", f"{seconds / 60:.1f} min", "all processes together"),
        Fact("Episodes", f"{data.train_episodes:,}", f"in {data.folds} folds" if data.folds > 1 else "in one split"),
        Fact("What is done now", typeset(logging.value, logging.standard_error), "mean return"),
    ]
    now = datetime.now(UTC).strftime("%H:%M:%S UTC")
    so_far = study.so_far
    lead = f"There is no answer yet: {done} of {every} runs have finished."
    ends = "Nothing is chosen before all runs are done"
    if so_far is not None:
        lead = so_far_in_words(so_far, study.record)
        ends = (
            "This answer is provisional: it covers the policies that it names, and the last one covers all that are "
            "tried, so that its bound may be lower or higher"
        )
    blocks: list[Block] = [
        Text(lead, "lead"),
        Text(
            f"As of {now}. Make the page again (or use --watch) and reload it to see more. If the study was "
            f"interrupted, poela learn … --resume continues it. {ends}."
        ),
        Facts(facts),
        _progress(study),
        Text(sentence(data.propensities)),
    ]
    return [Section("answer", "So far", blocks), reproduce_section(study, None)]


def _progress(study: Study) -> Table:
    of_path: dict[str, list[Task]] = defaultdict(list)
    for task in study.tasks:
        of_path[task.path_id].append(task)
    columns = (
        Column("what is tried"),
        Column("folds", True),
        Column("value so far", True),
        Column("effective cases", True),
        Column("state"),
    )
    rows = [_row([study.runs.get(task.run_id) for task in tasks], tasks[0]) for tasks in of_path.values()]
    note = "Value and effective cases: of the boldest policy, averaged over the finished folds. They promise nothing."
    return Table("Runs", columns, rows, note=note)


def _row(runs: list[RunRecord | None], task: Task) -> tuple[Entry, ...]:
    finished = [run for run in runs if run is not None]
    value, ess = (_mean(finished, name) for name in ("sntis", "ess"))
    failed = [run for run in finished if run.status != "done"]
    state = f"{len(failed)} {failed[0].status}" if failed else "done" if len(finished) == len(runs) else "going on"
    return (
        Entry(named(f"{without_rule(str(task.candidate))}, restart {task.restart}"), str(task.candidate)),
        Entry(f"{len(finished)}/{len(runs)}", len(finished)),
        Entry(typeset(value), value),
        Entry(effective(ess), ess),
        Entry(state if finished else "waiting"),
    )


def _mean(runs: list[RunRecord], metric: str) -> float | None:
    numbers = [run.checkpoints[-1].metrics.get(metric) for run in runs if run.checkpoints]
    known = [number for number in numbers if number is not None]
    return sum(known) / len(known) if known else None
