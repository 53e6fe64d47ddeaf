"""Chosen sepsis policies on test logs and in the simulator; what was found is kept beside the studies."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from poela.core.storage import read_json, write_json
from poela.data.trajectories import Trajectories
from poela.evaluation.estimate import Estimate
from poela.evaluation.evaluate import evaluate
from poela.experiments.published.records import Number
from poela.experiments.sepsis_studies import ANY, SepsisStudy, Size
from poela.policies.storage import load_object
from poela.simulators.sepsis import Sepsis, SepsisBehavior
from poela.simulators.sepsis_truth import SepsisTruth, sepsis_value
from poela.studies.material import read_behavior
from poela.studies.selection import Scored

LOGGING = "clinicians"  # the logging policy, as the paper names its column
LEVEL = 0.90  # between the paper's two bounds, the 5% and 95% quantiles


@dataclass(frozen=True)
class Examined:
    """A policy on the test logs and in the simulator."""

    learner: str
    protocol: str
    chosen: str
    estimate: Estimate
    truth: SepsisTruth
    least_ess: str = ""  # that it had to have on the validation logs

    def numbers(self) -> Iterator[Number]:
        """As the paper's tables have them, and the truth."""
        estimate = self.estimate
        # The paper would not have chosen a policy of any size: it is set beside the paper's number, but not judged.
        error = None if self.least_ess == ANY else estimate.standard_error
        yield Number(self.learner, "", "SNTIS", estimate.value, error)
        for quantity, value in (("upper bound", estimate.high), ("lower bound", estimate.low)):
            if value is not None:
                yield Number(self.learner, "", quantity, value)
        yield Number(self.learner, "", "ESS", estimate.ess)
        yield Number(self.learner, "", "true value", self.truth.value, self.truth.standard_error)

    def beyond(self, other: "Examined") -> float:
        """By how many standard errors the truth is above another's.

        >>> estimate = evaluate(None, Trajectories([[0.0]] * 2, [0, 0], [1, 3], [0, 1, 2]), estimator="behavior")
        >>> above, below = (Examined("", "", "", estimate, SepsisTruth(value, 0.3)) for value in (79.0, 78.0))
        >>> round(above.beyond(below), 2)
        2.36
        """
        error = math.hypot(self.truth.standard_error, other.truth.standard_error)
        return (self.truth.value - other.truth.value) / error


class Examiner:
    """Examines the policies of one study; each once, whichever table asks."""

    def __init__(self, own: SepsisStudy, out: Path) -> None:
        self.own, self._kept = own, out / "examined" / own.task.directory

    @cached_property
    def test(self) -> Trajectories:
        """The test logs, with propensities by the task's model of the logging policy."""
        _, _, test = self.own.task.weighted_logs(self.own.size)
        if test.propensities is not None:
            return test
        annotated: Trajectories = read_behavior(self.own.study.directory / "behavior").annotation(test).trajectories
        return annotated

    def policy(self, item: Scored) -> Any:
        """The policy of a checkpoint."""
        return load_object(self.own.study.store.policy(item.run_id, item.number))

    def examined(self, item: Scored, learner: str, protocol: str, least_ess: str = "") -> Examined:
        """What a policy promises and holds."""
        path = self._kept / f"{item.run_id}-{item.number}.json"
        if not path.exists():
            policy = self.policy(item)
            smoothing = item.metrics["smoothing"] or 0.0
            estimate = evaluate(policy, self.test, interval="bca", level=LEVEL, smoothing=smoothing)
            write_json(path, _plain(estimate, self._truth(policy)))
        return Examined(learner, protocol, self.own.study.name_of(item), *_read(path), least_ess)

    def chosen(self, protocol: str) -> Iterator[tuple[str, Scored, str]]:
        """Each learner's own choice; where none of its policies has the least effective sample size, of all of them."""
        for name, items in self.own.own.items():
            chosen, least = self.own.chosen_or_any(items, protocol)
            if chosen is not None:
                yield name, chosen, least

    def logging(self, protocol: str = "") -> Examined:
        """The logging policy itself."""
        path = self._kept / "logging.json"
        if not path.exists():
            mean = evaluate(None, self.test, estimator="behavior", interval="bca", level=LEVEL)
            write_json(path, _plain(mean, logging_truth(self.own.task.variant, self.own.size, self.own.task.seed)))
        return Examined(LOGGING, protocol, "", *_read(path))

    def _truth(self, policy: Any) -> SepsisTruth:
        return sepsis_value(policy, self.own.task.simulator, self.own.size.roll_outs, self.own.task.seed)


def logging_truth(variant: str, size: Size, seed: int) -> SepsisTruth:
    """What the logging policy is worth; the luck of patients cancels out, so this is nearly exact."""
    return sepsis_value(SepsisBehavior(), Sepsis(variant), size.roll_outs, seed)


def _plain(estimate: Estimate, truth: SepsisTruth) -> dict[str, Any]:
    return {"estimate": estimate.to_dict(), "truth": truth._asdict()}


def _read(path: Path) -> tuple[Estimate, SepsisTruth]:
    found = read_json(path)
    return Estimate.from_dict(found["estimate"]), SepsisTruth(**found["truth"])
