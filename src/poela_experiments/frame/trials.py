"""Candidates learned and judged in memory: those that can be are one stack, so that a GPU learns all at once."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from poela.core.policy import Policy
from poela.data.trajectories import Trajectories
from poela.evaluation.scoring import Evaluator, Scoring
from poela.learners.learner import Checkpoint
from poela.learners.policy_gradient import PolicyGradient, as_published
from poela.learners.stacked import Learned, Member, fit_stacked, stack_key
from poela.stats.weights import effective_share
from poela.studies.candidates import Candidate
from poela.studies.selection import Point, Selection, choose

SMOOTHING = 0.01  # of the logging policy in a greedy one while it is evaluated, as in the paper
ANY = "any"  # the least effective sample size of a learner none of whose policies has that of the paper


@dataclass(frozen=True, eq=False)
class Tried:
    """One policy on the way of a candidate, as judged on the validation logs."""

    candidate: Candidate
    restart: int
    checkpoint: Checkpoint
    final: bool
    metrics: Mapping[str, float | None]

    @property
    def policy(self) -> Policy:
        """The policy itself."""
        policy: Policy = self.checkpoint.policy
        return policy

    def metric(self, name: str) -> float:
        """A number of it; 0 where there is none."""
        return self.metrics[name] or 0.0

    def __str__(self) -> str:
        where = self.checkpoint.note or f"step {self.checkpoint.step}"
        return f"{self.candidate}, restart {self.restart}, {where}"


def tried(
    candidates: Sequence[Candidate],
    restarts: int,
    seed: int,
    logs: Sequence[Trajectories],
    behavior: Policy | None,
    published: bool = False,
) -> list[Tried]:
    """Every checkpoint of every candidate; `published`: policy gradients in the form of the authors' code."""
    train, validation = logs[:2]
    asked = [(candidate, restart) for restart in range(restarts) for candidate in candidates]
    members = [_member(candidate, _seed(seed, restart), published) for candidate, restart in asked]
    evaluator = Evaluator(validation, Scoring(interval=None, smoothing=SMOOTHING))
    found = []
    for (candidate, restart), learned in zip(asked, _learned(members, train, behavior), strict=True):
        last = len(learned.checkpoints) - 1
        for number, metrics in enumerate(_judged(evaluator, learned)):
            found.append(Tried(candidate, restart, learned.checkpoints[number], number == last, metrics))
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


def _judged(evaluator: Evaluator, learned: Learned) -> Iterator[Mapping[str, float | None]]:
    policies, logs = [checkpoint.policy for checkpoint in learned.checkpoints], evaluator.logs
    for evidence in evaluator.evidence(policies):
        value, error = evaluator.value(evidence, "sntis")
        ess = effective_share(evidence.used, logs.clusters) * logs.n_units
        known = {"sntis": value, "sntis_error": error, "ess": ess, "smoothing": evidence.smoothing}
        yield {name: number if np.isfinite(number) else None for name, number in known.items()}


@dataclass(frozen=True)
class Choosing:
    """The paper's two protocols: by validation SNTIS, with a least effective sample size as a share of the episodes."""

    least_share: float

    @property
    def least_ess(self) -> str:
        """The least effective sample size in words."""
        return f"{self.least_share:.1%}"

    @property
    def selections(self) -> dict[str, Selection]:
        """By protocol."""
        return {name: Selection("sntis", name, min_ess=self.least_share) for name in ("final", "best")}

    def chosen(self, items: Sequence[Tried], protocol: str, n_episodes: int) -> tuple[Tried | None, str]:
        """The choice, and the least effective sample size that a policy had to have: the paper's, or else any."""
        points = [Point(str(number), 0, item.final, item.metrics) for number, item in enumerate(items)]
        for selection, least in ((self.selections[protocol], self.least_ess), (Selection("sntis", protocol), ANY)):
            best = choose(points, selection, n_episodes).chosen
            if best is not None:
                return items[int(best.path_id)], least
        return None, ANY


UNLIMITED = Choosing(0.0)
