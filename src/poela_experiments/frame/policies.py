"""Which policy of a learner a table shows, and what it promises and holds.

By the paper's choice or, where none qualifies, one among all, marked. The truth of a simulator is looked at last, and
only to be printed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from poela.core.policy import Policy
from poela.data.action_space import finite_actions
from poela.data.trajectories import Trajectories
from poela.evaluation.estimate import Estimate
from poela.evaluation.evaluate import evaluate
from poela.studies.candidates import Candidate
from poela.studies.logging_policy import LoggingPolicy, find_logging_policy
from poela_experiments.frame.candidates import name_of
from poela_experiments.frame.published import NO_PENALTY, Number
from poela_experiments.frame.trials import ANY, SMOOTHING, UNLIMITED, Choosing, Tried, tried

LEVEL = 0.90  # between the paper's two bounds, the 5% and 95% quantiles


class Truth(NamedTuple):
    """What a policy is worth in the simulator, on the scale of the tables."""

    value: float
    standard_error: float


@dataclass(frozen=True)
class Examined:
    """A policy on the test logs, where there are any, and in the simulator."""

    learner: str
    protocol: str
    estimate: Estimate | None = None
    truth: Truth | None = None
    contexts: str = ""
    scale: float = 1.0  # of the tables, for what the estimate says
    chosen: str = ""
    least_ess: str = ""  # that it had to have on the validation logs
    validation: float | None = None  # SNTIS there, by which it was chosen

    @property
    def promise(self) -> Estimate:
        """The estimate on the test logs."""
        assert self.estimate is not None, "this experiment has no test logs"
        return self.estimate

    @property
    def worth(self) -> Truth:
        """The truth."""
        assert self.truth is not None, "nobody has looked at its truth"
        return self.truth

    def numbers(self) -> Iterator[Number]:
        """SNTIS, its bounds and the effective sample size, as the paper's tables have them, and the truth."""
        # The paper would not have chosen a policy of any size: it is set beside the paper's number, but not judged.
        estimate, scale = self.promise, self.scale
        judged = self.least_ess != ANY
        yield self._number("SNTIS", scale * estimate.value, scale * estimate.standard_error, judged)
        for quantity, value in (("upper bound", estimate.high), ("lower bound", estimate.low)):
            if value is not None:
                yield self._number(quantity, scale * value)
        yield self._number("ESS", estimate.ess)
        if self.truth is not None:
            yield self._number("true value", *self.truth)

    def _number(self, quantity: str, value: float, error: float | None = None, judged: bool = True) -> Number:
        return Number(self.learner, self.contexts, quantity, value, error, judged)


@dataclass(frozen=True, eq=False)
class Source:
    """One data set with one model of the logging policy: its policies, each learner's own choice, and what is found."""

    seed: int
    given: Sequence[Trajectories]  # to learn from, to choose by, to test with
    behavior_model: str  # by its name in the table of behavior models
    candidates: Sequence[Candidate]
    restarts: int
    truth: Callable[[Any], Truth]
    choosing: Choosing = UNLIMITED
    contexts: str = ""  # what contexts are, in a word
    scale: float = 1.0  # of the tables, for what estimates say
    logging_policy: Policy | None = None  # where tables show its truth
    _seen: dict[int, tuple[Estimate, Truth]] = field(default_factory=dict)

    @cached_property
    def _logging(self) -> LoggingPolicy:
        return find_logging_policy(tuple(self.given), self.behavior_model, self.seed)

    @property
    def propensities(self) -> str:
        """Where they come from, in words."""
        return self._logging.note

    @property
    def model(self) -> Policy | None:
        """Of the logging policy, where one was fitted."""
        model = self._logging.model
        return model if isinstance(model, Policy) else None

    @cached_property
    def logs(self) -> tuple[Trajectories, ...]:
        """With propensities: their own or, where they have none, those of the model."""
        return tuple(finite_actions(part, "this table") for part in self._logging.parts if part is not None)

    @cached_property
    def policies(self) -> list[Tried]:
        """Every checkpoint of every candidate."""
        return tried(self.candidates, self.restarts, self.seed, self.logs, self.model)

    @cached_property
    def by_learner(self) -> dict[str, list[Tried]]:
        """The policies of each learner, and those of POELA without a variance penalty."""
        found: dict[str, list[Tried]] = {}
        for item in self.policies:
            found.setdefault(name_of(item.candidate), []).append(item)
            if item.candidate.learner == "poela" and item.candidate.settings["variance_penalty"] == 0:
                found.setdefault(NO_PENALTY, []).append(item)
        return found

    def choice(
        self, items: Sequence[Tried], protocol: str, choosing: Choosing | None = None
    ) -> tuple[Tried | None, str]:
        """The best of these policies on the validation logs, and the least effective sample size it had to have."""
        return (choosing or self.choosing).chosen(items, protocol, self.logs[1].n_episodes)

    def choices(self, protocol: str) -> Iterator[tuple[str, Tried, str]]:
        """Each learner's own choice; where none of its policies has the least effective sample size, of all of them."""
        for name, items in self.by_learner.items():
            chosen, least = self.choice(items, protocol)
            if chosen is not None:
                yield name, chosen, least

    def examined(self, item: Tried, learner: str, protocol: str, least_ess: str = "") -> Examined:
        """What a policy promises and holds; found out once, whichever table asks."""
        if id(item) not in self._seen:
            estimate = evaluate(item.policy, self.logs[2], interval="bca", level=LEVEL, smoothing=SMOOTHING)
            self._seen[id(item)] = estimate, self.truth(item.policy)
        return Examined(
            *(learner, protocol),
            *self._seen[id(item)],
            self.contexts,
            self.scale,
            chosen=str(item),
            least_ess=least_ess,
            validation=item.metrics["sntis"],
        )

    def logging(self, name: str, protocol: str) -> Examined:
        """The logging policy itself, under this name: the mean of the test logs and, where it is known, its truth."""
        mean = evaluate(None, self.logs[2], estimator="behavior", interval="bca", level=LEVEL)
        truth = None if self.logging_policy is None else self.truth(self.logging_policy)
        return Examined(name, protocol, mean, truth, self.contexts, self.scale)


def weak_notes(examined: Sequence[Examined], learners: Sequence[str]) -> tuple[str, ...]:
    """The notes under a table on learners none of whose policies qualifies, and on those without any weight.

    >>> weak_notes([Examined("POELA", "final")], ["POELA", "PQL"])
    ('no policy with any weight: PQL',)
    """
    missing = [name for name in learners if name not in {item.learner for item in examined}]
    none = (f"no policy with any weight: {', '.join(missing)}",) if missing else ()
    return (*unqualified([item.learner for item in examined if item.least_ess == ANY]), *none)


def unqualified(names: Sequence[str]) -> tuple[str, ...]:
    """The note under a table on learners none of whose policies qualifies.

    >>> unqualified([])
    ()
    """
    if not names:
        return ()
    return (
        "no policy has that effective sample size; chosen among all by validation SNTIS, which the paper's protocol "
        f"would not do: {', '.join(names)}",
    )
