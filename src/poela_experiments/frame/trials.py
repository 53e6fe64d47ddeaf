"""Candidates learned and judged in memory: those that can be are one stack, so that a GPU learns all of them at once."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from poela.core.policy import Policy
from poela.data.trajectories import Trajectories
from poela.evaluation.recombination import effective_share
from poela.evaluation.scoring import Evaluator, Scoring
from poela.learners.policy_gradient import PolicyGradient, as_published
from poela.learners.stacked import Learned, Member, fit_stacked, stack_key
from poela.studies.candidates import Candidate
from poela.studies.selection import Point

SMOOTHING = 0.01  # of the logging policy in a greedy one while it is evaluated, as in the paper


@dataclass(frozen=True, eq=False)
class Tried:
    """One policy on the way of a candidate, as judged on the validation logs."""

    candidate: Candidate
    restart: int
    step: int
    policy: Policy
    point: Point

    def __str__(self) -> str:
        return f"{self.candidate}, restart {self.restart}, step {self.step}"


def tried(
    candidates: Sequence[Candidate],
    restarts: int,
    seed: int,
    logs: tuple[Trajectories, Trajectories],
    behavior: Policy | None,
    published: bool = False,
) -> list[Tried]:
    """Every checkpoint of every candidate; `published`: policy gradients in the form of the authors' code."""
    train, validation = logs
    asked = [(candidate, restart) for restart in range(restarts) for candidate in candidates]
    members = [_member(candidate, _seed(seed, restart), published) for candidate, restart in asked]
    evaluator = Evaluator(validation, Scoring(interval=None, smoothing=SMOOTHING))
    found = []
    for (candidate, restart), learned in zip(asked, _learned(members, train, behavior), strict=True):
        points = _judged(evaluator, learned, f"{candidate.learner}-{candidate.key}-{restart}")
        for checkpoint, point in zip(learned.checkpoints, points, strict=True):
            found.append(Tried(candidate, restart, checkpoint.step, checkpoint.policy, point))
    return found


def _member(candidate: Candidate, seed: int, published: bool) -> Member:
    learner = candidate.build()
    return Member(as_published(learner) if published and isinstance(learner, PolicyGradient) else learner, seed)


def _seed(seed: int, restart: int) -> int:
    """Of a restart, the same for all candidates, as in studies."""
    return int(np.random.SeedSequence((seed, restart)).generate_state(1)[0])


def _learned(members: Sequence[Member], train: Trajectories, behavior: Policy | None) -> list[Learned]:
    stacks: dict[Hashable, list[Member]] = {}
    for member in members:
        key = stack_key(member.learner)
        stacks.setdefault(member if key is None else key, []).append(member)
    found = {
        member: learned
        for stack in stacks.values()
        for member, learned in zip(stack, fit_stacked(stack, train, behavior), strict=True)
    }
    return [found[member] for member in members]


def _judged(evaluator: Evaluator, learned: Learned, path: str) -> Iterator[Point]:
    policies, logs = [checkpoint.policy for checkpoint in learned.checkpoints], evaluator.logs
    for number, evidence in enumerate(evaluator.evidence(policies)):
        value, error = evaluator.value(evidence, "sntis")
        ess = effective_share(evidence.used, logs.clusters) * logs.n_units
        known = {"sntis": value, "sntis_error": error, "ess": ess, "smoothing": evidence.smoothing}
        metrics = {name: number if np.isfinite(number) else None for name, number in known.items()}
        yield Point(path, number, number == len(policies) - 1, metrics)
