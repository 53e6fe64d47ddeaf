"""Which policy of a learner a table shows, and what it promises and holds.

By the paper's choice or, where none qualifies, one among all, marked. What was found is kept beside the studies; the
truth of a simulator is looked at last, and only to be printed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from poela.data.trajectories import Trajectories
from poela.evaluation.estimate import Estimate
from poela.evaluation.evaluate import evaluate
from poela.policies.storage import load_object
from poela.studies.candidates import Candidate
from poela.studies.fold_data import read_behavior
from poela.studies.selection import Point, Selection, choose
from poela.studies.study import Study
from poela_experiments.frame.candidates import name_of
from poela_experiments.frame.published import NO_PENALTY, Number
from poela_experiments.frame.run import Run

ANY = "any"  # the least effective sample size of a learner none of whose policies has that of the paper
LEVEL = 0.90  # between the paper's two bounds, the 5% and 95% quantiles


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

    def chosen(self, items: Sequence[Point], protocol: str, n_episodes: int) -> tuple[Point | None, str]:
        """The choice, and the least effective sample size that a policy had to have: the paper's, or else any.

        >>> weak = Point("a", 0, True, {"sntis": 5.0, "ess": 2.0})
        >>> strong = Point("b", 0, True, {"sntis": 4.0, "ess": 31.0})
        >>> paper = Choosing(30 / 248)
        >>> paper.chosen([weak, strong], "final", 248)[1], paper.chosen([weak], "final", 248)[1]
        ('12.1%', 'any')
        """
        qualified = choose(items, self.selections[protocol], n_episodes).chosen
        if qualified is not None:
            return qualified, self.least_ess
        return choose(items, Selection("sntis", protocol), n_episodes).chosen, ANY


UNLIMITED = Choosing(0.0)


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


@dataclass(frozen=True, eq=False, repr=False)
class Source:
    """The study of one data set: its policies, each learner's own choice, and what is found out of them.

    Every study has a directory of its own, so several processes can work on different ones under the same `--out`.
    """

    run: Run
    directory: str
    seed: int  # of the logs, the study and the roll-outs: with the directory and the size, all that numbers depend on
    make_logs: Callable[[], Sequence[Trajectories]]  # to learn from, to choose by and, mostly, to test with
    candidates: Sequence[Candidate]
    behavior_model: str  # of the study, by its name there
    truth: Callable[[Any], Truth]
    choosing: Choosing = UNLIMITED
    protocol: str = "final"  # of the study's own choice
    contexts: str = ""  # what contexts are, in a word
    scale: float = 1.0  # of the tables, for what estimates say
    logging_policy: Any = None  # where tables show its truth

    def __repr__(self) -> str:
        return f"Source({self.run.experiment!r}, {self.directory!r}, seed={self.seed}, size={self.run.size!r})"

    @cached_property
    def logs(self) -> Sequence[Trajectories]:
        """Made once."""
        return self.make_logs()

    @cached_property
    def study(self) -> Study:
        """Carried out, continued or, where it is finished, opened."""
        return self.run.study(
            self.logs[0],
            self.directory,
            validation=self.logs[1],
            candidates=self.candidates,
            restarts=self.run.size.restarts,
            seed=self.seed,
            selection=self.choosing.selections[self.protocol],
            behavior=self.behavior_model,
        )

    @cached_property
    def by_learner(self) -> dict[str, list[Point]]:
        """The policies of each learner, and those of POELA without a variance penalty."""
        found: dict[str, list[Point]] = {}
        for item in self.study.points:
            candidate = self.candidate(item)
            found.setdefault(name_of(candidate), []).append(item)
            if candidate.learner == "poela" and candidate.settings["variance_penalty"] == 0:
                found.setdefault(NO_PENALTY, []).append(item)
        return found

    def candidate(self, item: Point) -> Candidate:
        """What a policy was learned with."""
        return self.study.runs[item.run_id].task.candidate

    def policy(self, item: Point) -> Any:
        """The policy of a checkpoint."""
        return load_object(self.study.store.policy(item.run_id, item.number))

    def choice(
        self, items: Sequence[Point], protocol: str, choosing: Choosing | None = None
    ) -> tuple[Point | None, str]:
        """The best of these policies on the validation logs, and the least effective sample size it had to have."""
        return (choosing or self.choosing).chosen(items, protocol, self.study.record.data.validation_episodes)

    def choices(self, protocol: str) -> Iterator[tuple[str, Point, str]]:
        """Each learner's own choice; where none of its policies has the least effective sample size, of all of them."""
        for name, items in self.by_learner.items():
            chosen, least = self.choice(items, protocol)
            if chosen is not None:
                yield name, chosen, least

    def weighted(self, logs: Trajectories) -> Trajectories:
        """The logs with propensities: their own or, where they have none, those of the study's model."""
        if logs.propensities is not None:
            return logs
        found: Trajectories = read_behavior(self.study.directory / "behavior").annotation(logs).trajectories
        return found

    @cached_property
    def test(self) -> Trajectories | None:
        """The test logs with propensities, where there are any."""
        return self.weighted(self.logs[2]) if len(self.logs) > 2 else None

    def examined(self, item: Point, learner: str, protocol: str, least_ess: str = "") -> Examined:
        """What a policy promises and holds; found out once, whichever table asks."""
        smoothing = item.metrics["smoothing"] or 0.0
        name = f"{self.directory} {item.run_id} {item.number}"
        found = self.run.kept(name, Source.look_at, self, item.run_id, item.number, smoothing)
        return self._read(found, learner, protocol, self.study.name_of(item), least_ess, item.metrics["sntis"])

    def look_at(self, run_id: str, number: int, smoothing: float) -> dict[str, Any]:
        """The estimate and the truth of a policy, in plain."""
        policy = load_object(self.study.store.policy(run_id, number))
        estimate = None
        if self.test is not None:
            estimate = evaluate(policy, self.test, interval="bca", level=LEVEL, smoothing=smoothing).to_dict()
        return {"estimate": estimate, "truth": list(self.truth(policy))}

    def logging(self, name: str, protocol: str) -> Examined:
        """The logging policy itself, under this name."""
        found = self.run.kept(f"{self.directory} logging", Source.look_at_logging, self)
        return self._read(found, name, protocol)

    def look_at_logging(self) -> dict[str, Any]:
        """The mean return of the test logs and, where it is known, the truth of the logging policy."""
        assert self.test is not None, "there are no test logs"
        mean = evaluate(None, self.test, estimator="behavior", interval="bca", level=LEVEL)
        truth = None if self.logging_policy is None else list(self.truth(self.logging_policy))
        return {"estimate": mean.to_dict(), "truth": truth}

    def _read(self, found: dict[str, Any], learner: str, protocol: str, *chosen: Any) -> Examined:
        estimate = None if found["estimate"] is None else Estimate.from_dict(found["estimate"])
        truth = None if found["truth"] is None else Truth(*found["truth"])
        return Examined(learner, protocol, estimate, truth, self.contexts, self.scale, *chosen)


def weak_notes(examined: Sequence[Examined], learners: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The notes under a table on learners none of whose policies qualifies, and on those without any weight.

    >>> weak_notes([Examined("POELA", "final")], ["POELA", "PQL"])
    ((), ('no policy with any weight: PQL',))
    """
    missing = [name for name in learners if name not in {item.learner for item in examined}]
    none = (f"no policy with any weight: {', '.join(missing)}",) if missing else ()
    return unqualified([item.learner for item in examined if item.least_ess == ANY]), none


def unqualified(names: Sequence[str]) -> tuple[str, ...]:
    """The note under a table on learners none of whose policies qualifies.

    >>> unqualified([])
    ()
    """
    if not names:
        return ()
    return (
        "no policy has that effective sample size; chosen among all by validation SNTIS, which the paper's protocol "
        f"would not do, and therefore not judged: {', '.join(names)}",
    )
