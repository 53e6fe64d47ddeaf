"""The paper's tumor tables: learners on simulated logs, each chosen by validation, each with its true value."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from poela.evaluation.rollouts import true_value
from poela.simulators.tumor import Schedule, TumorBehavior, TumorGrowth, normalised
from poela_experiments.frame.judging import compared, measured
from poela_experiments.frame.policies import Source, Truth
from poela_experiments.frame.published import LEARNERS, Number, PublishedTable, published
from poela_experiments.frame.results import Cell, Report, ResultTable
from poela_experiments.frame.run import Run
from poela_experiments.frame.settings import described
from poela_experiments.tumor_studies import SCALE, TumorTask, on_scale, studies_of

ROLL_OUTS = 20_000  # of policies that need no learning
VALUE, EXCESS = "true value", "SNTIS - truth"
TUMOR = published("tumor")
AUTHORS_CODE = PublishedTable.of("authors' code", described("tumor")["authors_code"])


@dataclass(frozen=True)
class Outcome:
    """The policy that a learner ends with on one data set; values are normalised."""

    learner: str
    task: TumorTask
    protocol: str
    candidate: str
    sntis: float
    ess: float
    truth: Truth

    @property
    def excess(self) -> float:
        """By how much the validation estimate exceeds the truth."""
        return self.sntis - self.truth.value


def tumor(run: Run) -> Report:
    """Six tables: final policies and best checkpoints, with known and estimated behavior, Markov and not.

    The quick version leaves recurrent behavior out.
    """
    outcomes: list[Outcome] = []
    report = Report("tumor", ())
    for behavior in run.size.behaviors:
        for markov in (False, True):
            outcomes += outcomes_of(studies_of(run, markov=markov, behavior=behavior))
            report = run.report(tables_of(run, outcomes))
    return report


def outcomes_of(studies: Iterable[tuple[TumorTask, Source]]) -> Iterator[Outcome]:
    """What each learner's chosen policy promises and holds, by either protocol."""
    for task, source in studies:
        for learner in LEARNERS:
            for protocol in source.choosing.selections:
                chosen, _ = source.choice(source.by_learner.get(learner, []), protocol)
                if chosen is not None:
                    found = source.examined(chosen, learner, protocol)
                    sntis, ess = normalised(found.validation or 0.0), chosen.metrics["ess"] or 0.0
                    yield Outcome(learner, task, protocol, found.chosen, sntis, ess, found.worth)


def tables_of(run: Run, outcomes: Sequence[Outcome]) -> Iterator[ResultTable]:
    """One table for each of the paper's that has results, and one of every data set."""
    note = f"logging policy: true value {run.kept('logging policy', logging_policy)[0]:.1f}"
    for paper in TUMOR.values():
        own = [o for o in outcomes if (o.protocol, o.task.behavior) == (paper.protocol, paper.behavior)]
        if own:
            notes = (SCALE, note, *_orders(own), *_excesses(own))
            yield run.table(paper.key, paper.title, comparison_rows(run, paper, own), notes)
    yield run.table("data-sets", "Each data set", details(outcomes), (SCALE,))


def comparison_rows(run: Run, paper: PublishedTable, outcomes: Sequence[Outcome]) -> list[dict[str, Cell]]:
    """Paper, ours, difference; in the main table what the authors' code gives too."""
    rows = compared(paper, _measured(run, outcomes))
    if paper.key == "main":
        for row in rows:
            given = AUTHORS_CODE.find(str(row["learner"]), str(row["quantity"]), str(row["contexts"]))
            row["authors' code"] = None if given is None else given.value
            row["± authors' code"] = None if given is None else given.error
    return rows


def _measured(run: Run, outcomes: Sequence[Outcome]) -> Iterator[Number]:
    for contexts, own in _by_contexts(outcomes).items():
        for learner in LEARNERS:
            theirs = [outcome for outcome in own if outcome.learner == learner]
            if theirs:
                yield measured(learner, contexts, VALUE, [outcome.truth.value for outcome in theirs])
                yield measured(learner, contexts, EXCESS, [outcome.excess for outcome in theirs])
        value, error = run.kept(f"9 months {contexts}", nine_months, contexts)
        yield Number("9 months", contexts, VALUE, value, error)


def _by_contexts(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    found: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        found.setdefault(outcome.task.contexts, []).append(outcome)
    return found


def nine_months(contexts: str) -> list[float]:
    """The truth of the fixed schedule behind the logging policy, which the paper's tables show too."""
    schedule = Schedule.first_months(9)
    return [*on_scale(true_value(schedule, TumorGrowth(markov=contexts == "Markov"), ROLL_OUTS))]


def logging_policy() -> list[float]:
    """The truth of the logging policy."""
    return [*on_scale(true_value(TumorBehavior(), TumorGrowth(), ROLL_OUTS, seed=0))]


def _orders(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """On how many data sets POELA is above each other policy-gradient learner: the order that the paper found."""
    for contexts, own in _by_contexts(outcomes).items():
        truths = {(o.learner, o.task.data_set): o.truth.value for o in own}
        ours = {number: truth for (name, number), truth in truths.items() if name == "POELA"}
        for other in ("PO-mu", "PO-CRM"):
            both = [(truth, truths[other, number]) for number, truth in ours.items() if (other, number) in truths]
            if both:
                above = sum(truth > theirs for truth, theirs in both)
                yield f"{contexts}: POELA is above {other} on {above} of {len(both)} data sets"


def _excesses(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """On how many data sets, and by how much, each learner's estimate exceeds the truth."""
    for contexts, own in _by_contexts(outcomes).items():
        for learner in LEARNERS:
            excesses = [outcome.excess for outcome in own if outcome.learner == learner]
            over = [excess for excess in excesses if excess > 0]
            if excesses:
                by = f", there by {sum(over) / len(over):.1f} on average" if over else ""
                off = sum(map(abs, excesses)) / len(excesses)
                yield (
                    f"{contexts}: the estimate of {learner} is above the truth on {len(over)} of {len(excesses)} "
                    f"sets{by}; off by {off:.1f} on average"
                )


def details(outcomes: Sequence[Outcome]) -> list[dict[str, Cell]]:
    """One row for each learner, data set and protocol."""
    return [
        {
            "contexts": outcome.task.contexts,
            "behavior": outcome.task.behavior,
            "protocol": outcome.protocol,
            "learner": outcome.learner,
            "data set": outcome.task.data_set,
            "true value": outcome.truth.value,
            "its error": outcome.truth.standard_error,
            "SNTIS": outcome.sntis,
            "SNTIS - truth": outcome.excess,
            "ESS": outcome.ess,
            "chosen": outcome.candidate,
        }
        for outcome in outcomes
    ]
