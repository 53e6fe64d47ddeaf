"""Learning many policies side by side: equal learners with other settings and seeds as one stack on one device.

The same steps on the same batches as one after the other, but sums run in another order, so policies differ from those
in the last digits (and training amplifies that).
"""

import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from poela.core.errors import InputError, PoelaError, PoelaWarning, TrainingError
from poela.core.policy import Policy
from poela.data.trajectories import Trajectories
from poela.learners.learner import Checkpoint, Learner
from poela.networks.stack import Stack
from poela.networks.training import DEAD_LOOKS, broken_down, dead_gradient


@dataclass(frozen=True, eq=False)
class Member:
    """One of the policies that are learned together."""

    learner: Learner
    seed: int


@dataclass(eq=False)
class Learned:
    """The checkpoints that a member reached, and what stopped it or is to be said of it."""

    checkpoints: list[Checkpoint] = field(default_factory=list)
    error: PoelaError | None = None
    warnings: list[str] = field(default_factory=list)


def stack_key(learner: Learner) -> Hashable:
    """Learners with equal keys can be one stack; None: this one cannot.

    >>> from poela.learners.policy_gradient import POCRM, POELA
    >>> stack_key(POELA(radius=0.1)) == stack_key(POCRM(variance_penalty=1.0)) != stack_key(POELA(steps=7))
    True
    """
    from poela.learners.policy_gradient import PolicyGradient
    from poela.learners.policy_gradient_stack import SHARED
    from poela.learners.q_learning import QLearning
    from poela.learners.q_stack import SHARED as SHARED_BY_Q

    if isinstance(learner, PolicyGradient) and learner.network == "mlp":
        return ("policy gradient", *(getattr(learner, name) for name in SHARED))
    if isinstance(learner, QLearning):
        return ("Q-learning", *(getattr(learner, name) for name in SHARED_BY_Q))
    return None


def fit_stacked(members: Sequence[Member], train: Trajectories, behavior: Policy | None = None) -> list[Learned]:
    """Learn all members, which have the same `stack_key`."""
    from poela.learners.policy_gradient import PolicyGradient
    from poela.learners.policy_gradient_stack import fit_policy_gradients
    from poela.learners.q_stack import fit_q_functions

    keys = {stack_key(member.learner) for member in members}
    if len(keys) != 1 or None in keys:
        raise InputError(f"these {len(members)} learners cannot be trained as one stack: their settings differ")
    fit = fit_policy_gradients if isinstance(members[0].learner, PolicyGradient) else fit_q_functions
    return fit(members, train, behavior)


def fit_alone(member: Member, train: Trajectories, behavior: Policy | None) -> Learned:
    """Learn one member by itself."""
    learned = Learned()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", PoelaWarning)
        try:
            for checkpoint in member.learner.fit_path(train, member.seed, behavior):
                learned.checkpoints.append(checkpoint)
        except PoelaError as error:
            learned.error = error
    learned.warnings = [str(item.message) for item in caught]
    return learned


class Watch:
    """Looks at every member of a stack: one that breaks down stops alone."""

    def __init__(self, stack: Stack, members: Sequence[Member], learned: Sequence[Learned]) -> None:
        self._stack, self._learned = stack, learned
        self._names = [type(member.learner).__name__ for member in members]
        self._dead = torch.zeros(len(stack), dtype=torch.long)

    def __call__(self, step: int, loss: Tensor) -> None:
        """Look at the gradients of a step."""
        self.stop(self._stack.broken(), lambda name: broken_down(name, step))
        gradients = [p.grad for p in self._stack.parameters() if p.grad is not None]
        alive = torch.stack([gradient.flatten(1).any(dim=1) for gradient in gradients]).any(dim=0).cpu()
        self._dead = torch.where(alive, 0, self._dead + 1)
        for number in torch.nonzero(self._dead == DEAD_LOOKS).flatten().tolist():
            self._learned[number].warnings.append(dead_gradient(self._names[number], step))

    def stop(self, broken: Tensor, message: Callable[[str], str]) -> None:
        """Members whose entry in `broken` [K] is true learn no further."""
        for number in torch.nonzero(broken).flatten().tolist():
            if self._learned[number].error is None:
                self._learned[number].error = TrainingError(message(self._names[number]))


def in_parts(members: Sequence[Member], most: int) -> Iterator[list[Member]]:
    """The members in as few parts of about one size as have at most `most` each.

    >>> [len(part) for part in in_parts([None] * 10, 4)]
    [4, 3, 3]
    """
    parts = -(-len(members) // most)
    for number in range(parts):
        yield list(members[number::parts])
