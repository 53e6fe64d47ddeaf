"""Learning as a stack: K ≥ 1 policies, each with its own settings and seed, side by side on one device by one code.

In another stack a member's sums run in another order, so its policy differs in the last digits (and training amplifies
that).
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from poela.core.errors import InputError, PoelaError, PoelaWarning
from poela.core.policy import Policy
from poela.data.trajectories import Trajectories
from poela.learners.learner import Checkpoint, Learner
from poela.networks.modules import Network, NetworkShape, device_of
from poela.networks.stack import RecurrentStack, Stack, stack_of
from poela.networks.training import say, train_steps


@dataclass(frozen=True, eq=False)
class Member:
    """One of the policies that are learned together."""

    learner: Any  # a Learner
    seed: int

    @property
    def name(self) -> str:
        """The learner's name, as messages have it."""
        return type(self.learner).__name__


@dataclass(eq=False)
class Learned:
    """The checkpoints that a member reached, and what stopped it or is to be said of it."""

    checkpoints: list[Checkpoint] = field(default_factory=list)
    error: PoelaError | None = None
    warnings: list[str] = field(default_factory=list)

    def add(self, event: "Event") -> None:
        """Take down what has happened."""
        if isinstance(event, Checkpoint):
            self.checkpoints.append(event)
        elif isinstance(event, PoelaError):
            self.error = event
        else:
            self.warnings.append(str(event))


Event = Checkpoint | PoelaError | PoelaWarning
Events = Generator[tuple[Member, Event], None, None]


class StackedLearner(Learner):
    """A learner that is trained as a stack; by itself, as a stack of one."""

    steps: int
    learning_rate: float
    weight_decay: float
    checkpoints: int
    standardise: bool
    device: str

    @property
    @abstractmethod
    def stack_key(self) -> Hashable:
        """Equal for learners that can be one stack; None: this one is trained alone."""

    @abstractmethod
    def train_stack(self, members: Sequence[Member], train: Trajectories, behavior: Policy | None) -> Events:
        """Train members of this learner's key; yields what happens to each. After an error nothing else does."""

    def fit_path(self, train: Trajectories, seed: int = 0, behavior: Policy | None = None) -> Iterator[Checkpoint]:
        """Yield the policy at each checkpoint, the final one last."""
        with closing(self.train_stack([Member(self, seed)], train, behavior)) as events:
            for _, event in events:
                if isinstance(event, Checkpoint):
                    yield event
                else:
                    say(event)

    def new_stack(self, shape: NetworkShape, members: Sequence[Member], train: Trajectories) -> Stack | RecurrentStack:
        """Untrained networks for these members."""
        contexts = train.contexts if self.standardise else None
        return stack_of(shape, [member.seed for member in members], contexts, device_of(self.device))

    def is_checkpoint(self, step: int) -> bool:
        """Whether a policy is taken after this step."""
        return step % max(self.steps // self.checkpoints, 1) == 0 or step == self.steps


class TrainingStack:
    """The members of a stack while they learn: one that breaks down stops alone."""

    def __init__(self, members: Sequence[Member], stack: Stack | RecurrentStack) -> None:
        self.members, self.stack = members, stack
        self.title = members[0].name if len(members) == 1 else f"{len(members)} policies"
        self._learning = set(members)
        self._events: list[tuple[Member, Event]] = []

    def emit(self, number: int, event: Event) -> None:
        """Something happened to a member, which an error stops; of one that has stopped, nothing more is said."""
        member = self.members[number]
        if member in self._learning:
            self._events.append((member, event))
            if isinstance(event, PoelaError):
                self._learning.remove(member)

    def pop_events(self) -> list[tuple[Member, Event]]:
        """What has happened since this was last asked."""
        events, self._events = self._events, []
        return events

    def train(
        self, settings: StackedLearner, steps: int, loss: Callable[[int], Tensor], stage: str = ""
    ) -> Iterator[int]:
        """Minimise the losses [K], as long as any member learns; yields how many steps are done."""
        for done in train_steps(
            self.stack,
            loss,
            name=[member.name + stage for member in self.members],
            steps=steps,
            learning_rate=settings.learning_rate,
            weight_decay=settings.weight_decay,
            tell=self.emit,
        ):
            yield done
            if not self._learning:
                return

    def checkpoint(self, step: int, policy: Callable[[Member, Network], Policy]) -> None:
        """A checkpoint for every member that still learns."""
        for number, network in enumerate(self.stack.members()):
            if self.members[number] in self._learning:
                self.emit(number, Checkpoint(step, policy(self.members[number], network)))


def stack_key(learner: Learner) -> Hashable:
    """Learners with equal keys can be one stack; None: this one cannot.

    >>> from poela.learners.policy_gradient import POCRM, POELA
    >>> stack_key(POELA(radius=0.1)) == stack_key(POCRM(variance_penalty=1.0)) != stack_key(POELA(steps=7))
    True
    """
    return learner.stack_key if isinstance(learner, StackedLearner) else None


def fit_stacked(members: Sequence[Member], train: Any, behavior: Any = None) -> list[Learned]:
    """Learn one member of any learner, or several that have the same `stack_key`."""
    if len(members) == 1:
        return [_fit_alone(members[0], train, behavior)]
    keys = {stack_key(member.learner) for member in members}
    if len(keys) != 1 or None in keys:
        raise InputError(f"these {len(members)} learners cannot be trained as one stack: their settings differ")
    learned = {member: Learned() for member in members}
    for member, event in members[0].learner.train_stack(members, train, behavior):
        learned[member].add(event)
    return list(learned.values())


def _fit_alone(member: Member, train: Any, behavior: Any) -> Learned:
    learned = Learned()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", PoelaWarning)
        try:
            for checkpoint in member.learner.fit_path(train, member.seed, behavior):
                learned.add(checkpoint)
        except PoelaError as error:
            learned.add(error)
    learned.warnings = [str(item.message) for item in caught]
    return learned


def in_parts(members: Sequence[Member], most: int) -> Iterator[list[Member]]:
    """The members in as few parts of about one size as have at most `most` each.

    >>> [len(part) for part in in_parts([None] * 10, 4)]
    [4, 3, 3]
    """
    parts = -(-len(members) // most)
    for number in range(parts):
        yield list(members[number::parts])
