"""The paper's tumor tables, twice: its grids and the published form of its learners ("does it reproduce?"), and as many
settings for each learner ("does the order hold?")."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from poela.evaluation.rollouts import true_value
from poela.simulators.tumor import Schedule, TumorBehavior, TumorGrowth, normalised
from poela.studies.candidates import Candidate
from poela_experiments.frame.candidates import candidates_of, name_of
from poela_experiments.frame.judging import measured
from poela_experiments.frame.kept import Part
from poela_experiments.frame.published import LEARNERS, Number, PublishedTable, published
from poela_experiments.frame.results import Cell, Report, ResultTable
from poela_experiments.frame.run import Run
from poela_experiments.frame.settings import described
from poela_experiments.frame.trials import UNLIMITED, tried
from poela_experiments.order import order_table
from poela_experiments.tumor_logs import SCALE, TumorTask, normalised_weights, on_scale

ROLL_OUTS = 20_000  # of policies that need no learning
LOW = -2.0  # a return below this is low
VALUE, EXCESS, WEIGHT = "true value", "SNTIS - truth", "weight on low returns"
TUMOR = published("tumor")
PUBLISHED_FORM = (
    "learners in their published form: inputs as they are, logits through a ReLU, grids of the paper; where nothing is "
    "near, POELA allows every action"
)
RUN_AGAIN = "authors' code: run as it stands on 5 data sets, in whose logs the first month's action is never random"
AUTHORS_CODE = PublishedTable.of("authors' code", described("tumor")["authors_code"])


@dataclass(frozen=True)
class Outcome:
    """The policy that a learner ends with on one data set; values are normalised."""

    contexts: str
    behavior: str
    data_set: int
    learner: str
    protocol: str
    chosen: str
    sntis: float
    ess: float
    value: float  # the true one
    error: float  # of that
    weight: float  # that its training weights leave to episodes with low returns
    logged: float  # the share of such episodes in the log

    @property
    def excess(self) -> float:
        """By how much the validation estimate exceeds the truth."""
        return self.sntis - self.value

    def row(self) -> dict[str, Cell]:
        """In the table of every data set."""
        return {
            "contexts": self.contexts,
            "behavior": self.behavior,
            "protocol": self.protocol,
            "learner": self.learner,
            "data set": self.data_set,
            VALUE: self.value,
            "its error": self.error,
            "SNTIS": self.sntis,
            EXCESS: self.excess,
            "ESS": self.ess,
            WEIGHT: self.weight,
            "chosen": self.chosen,
        }


def tumor(run: Run) -> Report:
    """Six tables of values and two of weights, beside the paper's."""
    fixed = {f"9 months, {contexts}": partial(nine_months, contexts) for contexts in ("non-Markov", "Markov")}
    fixed["logging policy"] = partial(logging_policy)
    made = run.made({**_parts(run, published=True), **fixed})
    outcomes = _outcomes(made)
    return run.report([*tables_of(run, outcomes, made), _details(run, outcomes)])


def tumor_order(run: Run) -> Report:
    """POELA beside PO-mu and PO-CRM where each has as many settings, data set by data set."""
    outcomes = _outcomes(run.made(_parts(run, published=False)))
    return run.report([order_table(run, [outcome.row() for outcome in outcomes]), _details(run, outcomes)])


def _parts(run: Run, published: bool) -> dict[str, Part]:
    size = run.size
    tasks = [
        TumorTask(markov, run.seed + number, size.episodes, behavior)
        for behavior, data_sets in size.data_sets.items()
        for number in range(data_sets)
        for markov in (False, True)
    ]
    grids = {
        behavior: [(one.learner, dict(one.settings)) for one in candidates_of(run.experiment, size, behavior)]
        for behavior in size.data_sets
    }
    return {
        str(task): partial(data_set, task, grids[task.behavior], size.restarts, size.roll_outs, published)
        for task in tasks
    }


def data_set(
    task: TumorTask, grid: Sequence[tuple[str, dict[str, Any]]], restarts: int, roll_outs: int, published: bool
) -> list[dict[str, Any]]:
    """The outcome of each learner on one data set, by either protocol, in plain."""
    candidates = [Candidate(*asked) for asked in grid]
    (train, validation), behavior = task.weighted_logs()
    low = train.returns() < LOW
    found = tried(candidates, restarts, task.data_set, (train, validation), behavior, published)
    rows = []
    for learner in LEARNERS:
        own = [one for one in found if name_of(one.candidate) == learner]
        for protocol in UNLIMITED.selections:
            one, _ = UNLIMITED.chosen(own, protocol, validation.n_episodes)
            if one is None:
                continue
            truth = task.truth(one.policy, roll_outs)
            weights = normalised_weights(one.policy, train, one.metric("smoothing"))
            rows.append(
                {
                    "contexts": task.contexts,
                    "behavior": task.behavior,
                    "data_set": task.data_set,
                    "learner": learner,
                    "protocol": protocol,
                    "chosen": str(one),
                    "sntis": normalised(one.metric("sntis")),
                    "ess": one.metric("ess"),
                    "value": truth.value,
                    "error": truth.standard_error,
                    "weight": float(weights[low].sum()),
                    "logged": float(low.mean()),
                }
            )
    return rows


def nine_months(contexts: str) -> list[float]:
    """The truth of the fixed schedule behind the logging policy, which the paper's tables show too."""
    schedule = Schedule.first_months(9)
    return [*on_scale(true_value(schedule, TumorGrowth(markov=contexts == "Markov"), ROLL_OUTS))]


def logging_policy() -> list[float]:
    """The truth of the logging policy."""
    return [*on_scale(true_value(TumorBehavior(), TumorGrowth(), ROLL_OUTS, seed=0))]


def _outcomes(made: Mapping[str, Any]) -> list[Outcome]:
    return [Outcome(**row) for piece in made.values() for row in piece if isinstance(row, dict)]


def tables_of(run: Run, outcomes: Sequence[Outcome], made: Mapping[str, Any]) -> Iterator[ResultTable]:
    """One table for each of the paper's that has results."""
    note = f"logging policy: true value {made['logging policy'][0]:.1f}"
    logged = [outcome.logged for outcome in outcomes]
    low = (
        f"sum of the SNTIS weights of training episodes with a return below {LOW:g} under the chosen final policy",
        f"such episodes are {min(logged):.0%} to {max(logged):.0%} of the logs (paper: over 95%)",
    )
    for paper in TUMOR.values():
        own = [o for o in outcomes if (o.protocol, o.behavior) == (paper.protocol, paper.behavior)]
        kinds = {number.contexts for number in paper.numbers}
        own = [outcome for outcome in own if outcome.contexts in kinds]
        if not own:
            continue
        if paper.numbers[0].quantity == WEIGHT:
            yield run.beside(paper, _means(own, WEIGHT), low)
        else:
            fixed = (
                Number("9 months", contexts, VALUE, *made[f"9 months, {contexts}"])
                for contexts in dict.fromkeys(outcome.contexts for outcome in own)
            )
            rows = _with_authors_code(run.comparison(paper, [*_means(own, VALUE, EXCESS), *fixed]), paper)
            sets = len({outcome.data_set for outcome in own})
            means = f"means over {sets} data sets and their standard errors"
            theirs = [RUN_AGAIN] if "authors' code" in rows[0] else []
            yield run.table(paper.key, paper.title, rows, (SCALE, note, means, PUBLISHED_FORM, *theirs))


def _means(outcomes: Sequence[Outcome], *quantities: str) -> Iterator[Number]:
    for contexts in dict.fromkeys(outcome.contexts for outcome in outcomes):
        for learner in LEARNERS:
            rows = [o.row() for o in outcomes if (o.contexts, o.learner) == (contexts, learner)]
            for quantity in quantities if rows else ():
                yield measured(learner, contexts, quantity, [float(str(row[quantity])) for row in rows])


def _with_authors_code(rows: list[dict[str, Cell]], paper: PublishedTable) -> list[dict[str, Cell]]:
    """In the main table, what the authors' code gives too."""
    if paper.key == "main":
        for row in rows if "paper" in rows[0] else ():
            given = AUTHORS_CODE.find(str(row["learner"]), str(row["quantity"]), str(row["contexts"]))
            row["authors' code"] = None if given is None else given.value
            row["± authors' code"] = None if given is None else given.error
    return rows


def _details(run: Run, outcomes: Sequence[Outcome]) -> ResultTable:
    return run.table("data-sets", "Each data set", [outcome.row() for outcome in outcomes], (SCALE,))
