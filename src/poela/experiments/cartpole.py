"""The paper's CartPole tables: learners on logs from beginner to expert, on test logs and (ours) by roll-outs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poela.core.progress import progress
from poela.data.trajectories import Trajectories
from poela.evaluation.estimate import Estimate
from poela.evaluation.evaluate import evaluate
from poela.evaluation.rollouts import TrueValue, true_value
from poela.experiments.comparison import compared
from poela.experiments.published.cartpole import CARTPOLE
from poela.experiments.published.records import NO_PENALTY, Number
from poela.experiments.results import Cell, Report, ResultTable
from poela.experiments.running import HERE, Running
from poela.policies.storage import load_object
from poela.simulators.cartpole import STEPS, CartPole
from poela.simulators.registry import simulate
from poela.studies.candidates import Candidate, grid
from poela.studies.material import read_behavior
from poela.studies.selection import Scored, Selection, choose
from poela.studies.study import Study

# A share, so that smaller versions can choose too: 30 of 248 validation episodes, as in the paper.
LEAST_ESS = 30 / 248
PROTOCOLS = {name: Selection("sntis", name, min_ess=LEAST_ESS) for name in ("final", "best")}
NAMES = {"poela": "POELA", "pomu": "PO-mu", "pocrm": "PO-CRM", "bcq": "BCQ", "pql": "PQL"}
LOGGING = "logging policy"
LEVEL = 0.90  # between the paper's two bounds, the 5% and 95% quantiles
SCALE = 100 / STEPS  # 200 steps are 100

RADII = (0.0001, 0.0005, 0.001, 0.005, 0.01)
PENALTIES = (0.0, 0.1, 1.0, 10.0)
PROBABILITIES = (0.05, 0.1, 0.15, 0.2)
THRESHOLDS = (0.0, 0.05, 0.1, 0.2, 0.5)


@dataclass(frozen=True)
class Size:
    """How much is done; the paper does not say how many restarts it had here."""

    episodes: int = 1240
    restarts: int = 2
    roll_outs: int = 1000
    hidden: tuple[int, int] = (256, 256)
    checkpoints: int = 25
    behavior: str = "clone"
    fewer: int = 1  # every so many candidates of each learner are tried, with as many times fewer steps


FULL = Size()
QUICK = Size(episodes=100, restarts=1, roll_outs=100, hidden=(32, 32), checkpoints=2, behavior="multinomial", fewer=20)


@dataclass(frozen=True)
class Examined:
    """A chosen policy on the test logs and in the simulator."""

    learner: str
    contexts: str
    protocol: str
    chosen: str
    estimate: Estimate
    truth: TrueValue | None

    def numbers(self) -> Iterator[Number]:
        """As the paper's tables have them; 200 steps are 100."""
        estimate = self.estimate
        error = SCALE * estimate.standard_error
        yield Number(self.learner, self.contexts, "SNTIS", SCALE * estimate.value, error)
        for quantity, value in (("upper bound", estimate.high), ("lower bound", estimate.low)):
            if value is not None:
                yield Number(self.learner, self.contexts, quantity, SCALE * value)
        yield Number(self.learner, self.contexts, "ESS", estimate.ess)
        if self.truth is not None:
            value, error = SCALE * self.truth.value, SCALE * self.truth.standard_error
            yield Number(self.learner, self.contexts, "true value", value, error)


def cartpole(out: Path, quick: bool = True, seed: int = 0, running: Running = HERE) -> Report:
    """Four tables: final policies and best checkpoints, with and without the angular velocity."""
    size = QUICK if quick else FULL
    command = f"poela reproduce cartpole {'--quick' if quick else '--full'} --seed {seed}"
    examined: list[Examined] = []
    with progress("CartPole", 2) as advance:
        for markov in (True, False):
            examined += _examined(size, markov, seed, out, running)
            advance()
    return Report("cartpole", _tables(examined, command)).write(out)


def candidates_of(size: Size) -> list[Candidate]:
    """The paper's grids.

    >>> len(candidates_of(FULL)), len(candidates_of(QUICK))
    (38, 5)
    """
    common = {"hidden": (size.hidden,), "checkpoints": (size.checkpoints,)}
    warm = {**common, "steps": (500 // size.fewer,), "warm_start_steps": (500 // size.fewer,)}
    batches = {**common, "steps": (1000 // size.fewer,), "batch_size": (64,)}
    density = {**batches, "density_steps": (10_000 // size.fewer,)}
    learners = (
        # Over a hundred steps some context has nothing near; to bar actions there leaves few episodes with weight.
        grid("poela", radius=RADII, variance_penalty=PENALTIES, fallback=("all",), **warm),
        grid("pomu", minimum_probability=PROBABILITIES, variance_penalty=(0.0,), **warm),
        grid("pocrm", variance_penalty=PENALTIES, **warm),
        grid("bcq", threshold=THRESHOLDS, **batches),
        grid("pql", threshold=THRESHOLDS, **density),
    )
    return [candidate for own in learners for candidate in own[:: size.fewer]]


def _examined(size: Size, markov: bool, seed: int, out: Path, running: Running) -> Iterator[Examined]:
    # Propensities are estimated, as the name of the paper's PO-mu column has it.
    logs = simulate("cartpole", size.episodes, seed, markov=markov).with_propensities(None)
    train, validation, test = logs.split((0.6, 0.2, 0.2), seed=seed)
    contexts = "Markov" if markov else "non-Markov"
    study = running.study(
        train,
        out / contexts.lower(),
        validation=validation,
        candidates=candidates_of(size),
        restarts=size.restarts,
        seed=seed,
        selection=PROTOCOLS["final"],
        behavior=size.behavior,
    )
    test = read_behavior(study.directory / "behavior").annotation(test).trajectories
    for protocol, selection in PROTOCOLS.items():
        for name, own in _own(study).items():
            chosen = choose(own, selection, validation.n_episodes).chosen
            if chosen is not None:
                policy: Any = load_object(study.store.policy(chosen.run_id, chosen.number))
                estimate = _estimated(policy, test, chosen.metrics["smoothing"] or 0.0)
                truth = true_value(policy, CartPole(markov), size.roll_outs, seed=seed)
                yield Examined(name, contexts, protocol, study.name_of(chosen), estimate, truth)
        mean = evaluate(None, test, estimator="behavior", interval="bca", level=LEVEL)
        yield Examined(LOGGING, contexts, protocol, "", mean, None)


def _own(study: Study) -> dict[str, list[Scored]]:
    """The policies of each learner, and those of POELA without a variance penalty."""
    found: dict[str, list[Scored]] = {}
    for item in study.scored:
        candidate = study.runs[item.run_id]["candidate"]
        found.setdefault(NAMES[candidate["learner"]], []).append(item)
        if candidate["learner"] == "poela" and candidate["settings"]["variance_penalty"] == 0:
            found.setdefault(NO_PENALTY, []).append(item)
    return found


def _estimated(policy: Any, test: Trajectories, smoothing: float) -> Estimate:
    return evaluate(policy, test, interval="bca", level=LEVEL, smoothing=smoothing)


def _tables(examined: Sequence[Examined], command: str) -> tuple[ResultTable, ...]:
    tables = []
    for paper in CARTPOLE:
        contexts = paper.numbers[0].contexts
        own = [item for item in examined if (item.protocol, item.contexts) == (paper.protocol, contexts)]
        missing = [name for name in (*NAMES.values(), NO_PENALTY) if name not in {item.learner for item in own}]
        notes = [
            "200 steps are 100; bounds: 5% and 95%; chosen by validation SNTIS among policies with an effective sample "
            f"size of {LEAST_ESS:.0%} of the validation episodes or more",
            "true value: by roll-outs, which the paper does not give",
            "behavior is estimated; where nothing is near, POELA allows every action, as the authors' code does",
            *([f"no policy has that effective sample size: {', '.join(missing)}"] if missing else []),
        ]
        rows = compared(paper, [number for item in own for number in item.numbers()])
        tables.append(ResultTable(paper.title, rows, command, tuple(notes)))
    return (*tables, ResultTable("Chosen policies", _details(examined), command))


def _details(examined: Sequence[Examined]) -> list[dict[str, Cell]]:
    return [
        {
            "contexts": item.contexts,
            "protocol": item.protocol,
            "learner": item.learner,
            "SNTIS": SCALE * item.estimate.value,
            "true value": None if item.truth is None else SCALE * item.truth.value,
            "ESS": item.estimate.ess,
            "verdict": item.estimate.verdict,
            "chosen": item.chosen,
        }
        for item in examined
    ]
