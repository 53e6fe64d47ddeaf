"""The paper's CartPole tables: learners on logs from beginner to expert, on test logs and (ours) by roll-outs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poela.core.progress import progress
from poela.evaluation.estimate import Estimate
from poela.evaluation.evaluate import evaluate
from poela.evaluation.evidence import DEFAULT_TRUNCATION
from poela.evaluation.rollouts import TrueValue, true_value
from poela.experiments.cartpole_studies import CHOOSING, FULL, NAMES, QUICK, Size, Task, annotated, name_of
from poela.experiments.cartpole_support import supports
from poela.experiments.chosen_policies import ANY, LEVEL, by_learner, estimated_numbers, unqualified
from poela.experiments.comparison import compared
from poela.experiments.published.cartpole import CARTPOLE
from poela.experiments.published.records import NO_PENALTY, Number
from poela.experiments.results import Cell, Report, ResultTable
from poela.experiments.running import HERE, Running
from poela.policies.storage import load_object
from poela.simulators.cartpole import STEPS, CartPole
from poela.studies.study import Study

LOGGING = "logging policy"
SCALE = 100 / STEPS  # 200 steps are 100


@dataclass(frozen=True)
class Examined:
    """A chosen policy on the test logs and in the simulator."""

    learner: str
    contexts: str
    protocol: str
    chosen: str
    estimate: Estimate
    truth: TrueValue | None
    least_ess: str = ""
    training_ess: float | None = None

    def numbers(self) -> Iterator[Number]:
        """As the paper's tables have them; 200 steps are 100."""
        yield from estimated_numbers(self.learner, self.contexts, self.estimate, self.least_ess, SCALE)
        if self.truth is not None:
            value, error = SCALE * self.truth.value, SCALE * self.truth.standard_error
            yield Number(self.learner, self.contexts, "true value", value, error)


def cartpole(out: Path, quick: bool = True, seed: int = 0, running: Running = HERE) -> Report:
    """Four tables: final policies and best checkpoints, with and without the angular velocity."""
    command = f"poela reproduce cartpole {'--quick' if quick else '--full'} --seed {seed}"
    return tables_of(QUICK if quick else FULL, out, seed, running, command).write(out)


def tables_of(size: Size, studies: Path, seed: int, running: Running, command: str) -> Report:
    """The four tables, what was chosen, and what effective sample sizes there were to choose from."""
    examined: list[Examined] = []
    support: list[dict[str, Cell]] = []
    with progress("CartPole", 2) as advance:
        for markov in (True, False):
            task = Task(size, markov, seed)
            study = task.study(studies, running)
            examined += _examined(task, study)
            support += supports(
                annotated(study, task.parts[1]), task.checkpoints, by_learner(study, name_of), task.contexts
            )
            advance()
    notes = (
        f"on the validation logs, whose propensities are estimated; weights are truncated at {DEFAULT_TRUNCATION:g}",
        "a logging checkpoint is one of the eight policies that made the logs; of the learners, the policy with the "
        "largest effective sample size of all checkpoints",
    )
    table = ResultTable("Effective sample sizes to choose from", support, command, notes)
    return Report("cartpole", (*_tables(examined, command), table))


def _examined(task: Task, study: Study) -> Iterator[Examined]:
    train, test = (annotated(study, task.parts[number]) for number in (0, 2))
    simulator = CartPole(task.markov)
    known: dict[str, tuple[Estimate, TrueValue, float]] = {}
    for protocol in CHOOSING.selections:
        for learner, own in by_learner(study, name_of).items():
            chosen, least = CHOOSING.chosen(own, protocol, task.parts[1].n_episodes)
            if chosen is None:
                continue
            name = study.name_of(chosen)
            if name not in known:
                policy: Any = load_object(study.store.policy(chosen.run_id, chosen.number))
                smoothing = chosen.metrics["smoothing"] or 0.0
                known[name] = (
                    evaluate(policy, test, interval="bca", level=LEVEL, smoothing=smoothing),
                    true_value(policy, simulator, task.size.roll_outs, seed=task.seed),
                    evaluate(policy, train, interval=None, smoothing=smoothing).ess,
                )
            estimate, truth, training_ess = known[name]
            yield Examined(learner, task.contexts, protocol, name, estimate, truth, least, training_ess)
        mean = evaluate(None, test, estimator="behavior", interval="bca", level=LEVEL)
        yield Examined(LOGGING, task.contexts, protocol, "", mean, None)


def _tables(examined: Sequence[Examined], command: str) -> tuple[ResultTable, ...]:
    tables = []
    for paper in CARTPOLE:
        contexts = paper.numbers[0].contexts
        own = [item for item in examined if (item.protocol, item.contexts) == (paper.protocol, contexts)]
        missing = [name for name in (*NAMES.values(), NO_PENALTY) if name not in {item.learner for item in own}]
        notes = [
            "200 steps are 100; bounds: 5% and 95%; chosen by validation SNTIS among policies with an effective sample "
            f"size of {CHOOSING.least_ess} of the validation episodes or more",
            "true value: by roll-outs, which the paper does not give",
            "behavior is estimated; where nothing is near, POELA allows every action, as the authors' code does",
            *unqualified([item.learner for item in own if item.least_ess == ANY]),
            *([f"no policy with any weight: {', '.join(missing)}"] if missing else []),
        ]
        rows = compared(paper, [number for item in own for number in item.numbers()])
        tables.append(ResultTable(paper.title, rows, command, tuple(notes)))
    about = (
        "least ESS: the least effective sample size on the validation logs that a policy of the learner had to have",
        "training ESS: of the training episodes, whose propensities come from the same model as those of the test logs",
    )
    return (*tables, ResultTable("Chosen policies", _details(examined), command, about))


def _details(examined: Sequence[Examined]) -> list[dict[str, Cell]]:
    return [
        {
            "contexts": item.contexts,
            "protocol": item.protocol,
            "learner": item.learner,
            "SNTIS": SCALE * item.estimate.value,
            "true value": None if item.truth is None else SCALE * item.truth.value,
            "ESS": item.estimate.ess,
            "training ESS": item.training_ess,
            "verdict": item.estimate.verdict,
            "least ESS": item.least_ess,
            "chosen": item.chosen,
        }
        for item in examined
    ]
