"""The paper's tumor tables: learners on simulated logs, each chosen by validation, each with its true value."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from poela.evaluation.rollouts import true_value
from poela.experiments.comparison import compared, measured
from poela.experiments.published.records import Number, PublishedTable
from poela.experiments.published.tumor import AUTHORS_CODE, EXCESS, TUMOR, VALUE
from poela.experiments.results import Cell, Report, ResultTable
from poela.experiments.running import HERE, Running
from poela.experiments.tumor_studies import BEHAVIORS, FULL, NAMES, QUICK, Outcome, outcomes_of, tasks_of
from poela.simulators.tumor import Schedule, TumorBehavior, TumorGrowth, normalised

ROLL_OUTS = 20_000  # of policies that need no learning
SCALE = "normalised: uniform random 0, best schedule found 100"


def tumor(out: Path, quick: bool = True, seed: int = 0, running: Running = HERE) -> Report:
    """Six tables: final policies and best checkpoints, with known and estimated behavior, Markov and not.

    The report is written anew after each part, so that an interrupted run leaves the tables of what it finished. The
    quick version leaves recurrent behavior out.
    """
    size = QUICK if quick else FULL
    command = f"poela reproduce tumor {'--quick' if quick else '--full'} --seed {seed}"
    outcomes: list[Outcome] = []
    report = Report("tumor", ())
    for behavior in list(BEHAVIORS)[: 2 if quick else None]:
        for markov in (False, True):
            tasks = tasks_of(size, seed, markov=markov, behavior=behavior)
            outcomes += outcomes_of(tasks, size, out, running)
            report = Report("tumor", tables_of(outcomes, command)).write(out)
    return report


def tables_of(outcomes: Sequence[Outcome], command: str) -> tuple[ResultTable, ...]:
    """One table for each of the paper's that has results, and one of every data set."""
    logging = true_value(TumorBehavior(), TumorGrowth(), ROLL_OUTS, seed=0)
    note = f"logging policy: true value {normalised(logging.value):.1f}"
    tables = []
    for paper in TUMOR:
        own = [o for o in outcomes if (o.protocol, o.task.behavior) == (paper.protocol, paper.behavior)]
        if own:
            notes = (SCALE, note, *_orders(own), *_excesses(own))
            tables.append(ResultTable(paper.title, comparison_rows(paper, own), command, notes))
    return (*tables, ResultTable("Each data set", details(outcomes), command, (SCALE,)))


def comparison_rows(paper: PublishedTable, outcomes: Sequence[Outcome]) -> list[dict[str, Cell]]:
    """Paper, ours, difference; in the main table what the authors' code gives too."""
    rows = compared(paper, _measured(outcomes))
    if paper is TUMOR[0]:
        for row in rows:
            given = AUTHORS_CODE.find(str(row["learner"]), str(row["quantity"]), str(row["contexts"]))
            row["authors' code"] = None if given is None else given.value
            row["± authors' code"] = None if given is None else given.error
    return rows


def _measured(outcomes: Sequence[Outcome]) -> Iterator[Number]:
    for contexts in dict.fromkeys(outcome.task.contexts for outcome in outcomes):
        for learner, name in NAMES.items():
            own = [o for o in outcomes if (o.learner, o.task.contexts) == (learner, contexts)]
            if own:
                yield measured(name, contexts, VALUE, [outcome.truth for outcome in own])
                yield measured(name, contexts, EXCESS, [outcome.excess for outcome in own])
        yield nine_months(contexts)


@lru_cache(maxsize=2)
def nine_months(contexts: str) -> Number:
    """The fixed schedule behind the logging policy, which the paper's tables show too: the first nine months."""
    truth = true_value(Schedule.first_months(9), TumorGrowth(markov=contexts == "Markov"), ROLL_OUTS)
    error = normalised(truth.standard_error) - normalised(0.0)
    return Number("9 months", contexts, VALUE, normalised(truth.value), error)


def _orders(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """On how many data sets POELA is above each other policy-gradient learner: the order that the paper found."""
    for contexts in dict.fromkeys(outcome.task.contexts for outcome in outcomes):
        truths = {(o.learner, o.task.data_set): o.truth for o in outcomes if o.task.contexts == contexts}
        for other in ("pomu", "pocrm"):
            pairs = [
                (truth, truths.get((other, number))) for (name, number), truth in truths.items() if name == "poela"
            ]
            both = [(ours, theirs) for ours, theirs in pairs if theirs is not None]
            above = sum(ours > theirs for ours, theirs in both)
            if both:
                yield f"{contexts}: POELA is above {NAMES[other]} on {above} of {len(both)} data sets"


def _excesses(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """On how many data sets, and by how much, each learner's estimate exceeds the truth."""
    for contexts in dict.fromkeys(outcome.task.contexts for outcome in outcomes):
        for learner, name in NAMES.items():
            own = [o.excess for o in outcomes if (o.learner, o.task.contexts) == (learner, contexts)]
            over = [excess for excess in own if excess > 0]
            if own:
                by = f", there by {sum(over) / len(over):.1f} on average" if over else ""
                off = sum(map(abs, own)) / len(own)
                yield (
                    f"{contexts}: the estimate of {name} is above the truth on {len(over)} of {len(own)} sets{by}; "
                    f"off by {off:.1f} on average"
                )


def details(outcomes: Sequence[Outcome]) -> list[dict[str, Cell]]:
    """One row for each learner, data set and protocol."""
    return [
        {
            "contexts": outcome.task.contexts,
            "behavior": outcome.task.behavior,
            "protocol": outcome.protocol,
            "learner": NAMES[outcome.learner],
            "data set": outcome.task.data_set,
            "true value": outcome.truth,
            "its error": outcome.truth_error,
            "SNTIS": outcome.sntis,
            "SNTIS - truth": outcome.excess,
            "ESS": outcome.ess,
            "chosen": outcome.candidate,
        }
        for outcome in outcomes
    ]
