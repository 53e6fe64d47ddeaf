"""The CartPole studies: how much is done, the paper's grids and protocols, and the logs."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from poela.core.arrays import FloatArray
from poela.data.trajectories import Trajectories
from poela.experiments.chosen_policies import Choosing
from poela.experiments.running import Running
from poela.simulators.cartpole import CartPoleBehavior
from poela.simulators.registry import simulate
from poela.studies.candidates import Candidate, grid
from poela.studies.material import read_behavior
from poela.studies.study import Study

# A share, so that smaller versions can choose too: 30 of 248 validation episodes, as in the paper.
CHOOSING = Choosing(30 / 248)
NAMES = {"poela": "POELA", "pomu": "PO-mu", "pocrm": "PO-CRM", "bcq": "BCQ", "pql": "PQL"}
SHARES = (0.6, 0.2, 0.2)

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


@dataclass(frozen=True)
class Task:
    """The logs with or without the angular velocity, and the study of them."""

    size: Size
    markov: bool
    seed: int

    @property
    def contexts(self) -> str:
        """As the paper's tables call them."""
        return "Markov" if self.markov else "non-Markov"

    @cached_property
    def parts(self) -> tuple[Trajectories, ...]:
        """The episodes to learn from, to choose by and to test with, without propensities."""
        # Propensities are estimated, as the name of the paper's PO-mu column has it.
        logs = simulate("cartpole", self.size.episodes, self.seed, markov=self.markov).with_propensities(None)
        return logs.split(SHARES, seed=self.seed)

    @cached_property
    def checkpoints(self) -> FloatArray:
        """Each logging checkpoint's own probabilities [N, checkpoints, 2] along the validation episodes."""
        shown = simulate("cartpole", self.size.episodes, self.seed, markov=True)
        return CartPoleBehavior().of_each(shown.split(SHARES, seed=self.seed)[1].contexts)

    def study(self, studies: Path, running: Running) -> Study:
        """Carried out, or continued."""
        train, validation, _ = self.parts
        return running.study(
            train,
            studies / self.contexts.lower(),
            validation=validation,
            candidates=candidates_of(self.size),
            restarts=self.size.restarts,
            seed=self.seed,
            selection=CHOOSING.selections["final"],
            behavior=self.size.behavior,
        )


def annotated(study: Study, logs: Trajectories) -> Trajectories:
    """The logs with the propensities of the study's behavior model."""
    found: Trajectories = read_behavior(study.directory / "behavior").annotation(logs).trajectories
    return found


def name_of(candidate: Candidate) -> str:
    """The learner as tables name it."""
    return NAMES[candidate.learner]
