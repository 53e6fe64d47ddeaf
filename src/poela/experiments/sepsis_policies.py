"""Chosen sepsis policies on test logs and in the simulator; what was found is kept beside the studies."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from poela.core.files import write_json
from poela.core.storage import read_json
from poela.data.trajectories import Trajectories
from poela.evaluation.estimate import Estimate
from poela.evaluation.evaluate import evaluate
from poela.experiments.chosen_policies import LEVEL, estimated_numbers
from poela.experiments.published.records import Number
from poela.experiments.results import Cell
from poela.experiments.sepsis_studies import SepsisStudy, Size
from poela.policies.storage import load_object
from poela.simulators.sepsis import Sepsis, SepsisBehavior
from poela.simulators.sepsis_truth import SepsisTruth, sepsis_value
from poela.studies.material import read_behavior
from poela.studies.selection import Scored

LOGGING = "clinicians"  # the logging policy, as the paper names its column


@dataclass(frozen=True)
class Examined:
    """A policy on the test logs and in the simulator."""

    learner: str
    protocol: str
    chosen: str
    estimate: Estimate
    truth: SepsisTruth
    least_ess: str = ""  # that it had to have on the validation logs
    validation: float | None = None  # SNTIS there, by which it was chosen

    def numbers(self) -> Iterator[Number]:
        """As the paper's tables have them, and the truth."""
        yield from estimated_numbers(self.learner, "", self.estimate, self.least_ess)
        yield Number(self.learner, "", "true value", self.truth.value, self.truth.standard_error)

    def cells(self) -> dict[str, Cell]:
        """What it promises on the test logs, and what it holds."""
        return {
            "SNTIS": self.estimate.value,
            "lower bound": self.estimate.low,
            "upper bound": self.estimate.high,
            "ESS": self.estimate.ess,
            "verdict": self.estimate.verdict,
            "true value": self.truth.value,
            "its error": self.truth.standard_error,
        }

    def beyond(self, other: "Examined") -> float:
        """By how many standard errors the truth is above another's.

        >>> estimate = evaluate(None, Trajectories([[0.0]] * 2, [0, 0], [1, 3], [0, 1, 2]), estimator="behavior")
        >>> above, below = (Examined("", "", "", estimate, SepsisTruth(value, 0.3)) for value in (79.0, 78.0))
        >>> round(above.beyond(below), 2)
        2.36
        """
        return standard_errors_above(self.truth, other.truth)


class Examiner:
    """Examines the policies of one study; each once, whichever table asks."""

    def __init__(self, source: SepsisStudy, out: Path) -> None:
        self.source, self._kept = source, out / "examined" / source.task.directory

    @cached_property
    def test(self) -> Trajectories:
        """The test logs, with propensities by the task's model of the logging policy."""
        _, _, test = self.source.task.weighted_logs(self.source.size)
        if test.propensities is not None:
            return test
        annotated: Trajectories = read_behavior(self.source.study.directory / "behavior").annotation(test).trajectories
        return annotated

    def policy(self, item: Scored) -> Any:
        """The policy of a checkpoint."""
        return load_object(self.source.study.store.policy(item.run_id, item.number))

    def examined(self, item: Scored, learner: str, protocol: str, least_ess: str = "") -> Examined:
        """What a policy promises and holds."""
        path = self._kept / f"{item.run_id}-{item.number}.json"
        if not path.exists():
            policy = self.policy(item)
            smoothing = item.metrics["smoothing"] or 0.0
            estimate = evaluate(policy, self.test, interval="bca", level=LEVEL, smoothing=smoothing)
            write_json(path, _plain(estimate, self._truth(policy)))
        return Examined(
            learner, protocol, self.source.study.name_of(item), *_read(path), least_ess, item.metrics["sntis"]
        )

    def chosen(self, protocol: str) -> Iterator[tuple[str, Scored, str]]:
        """Each learner's own choice; where none of its policies has the least effective sample size, of all of them."""
        for name, items in self.source.by_learner.items():
            chosen, least = self.source.chosen(items, protocol)
            if chosen is not None:
                yield name, chosen, least

    def logging(self, protocol: str = "") -> Examined:
        """The logging policy itself."""
        path = self._kept / "logging.json"
        if not path.exists():
            mean = evaluate(None, self.test, estimator="behavior", interval="bca", level=LEVEL)
            write_json(
                path, _plain(mean, logging_truth(self.source.task.variant, self.source.size, self.source.task.seed))
            )
        return Examined(LOGGING, protocol, "", *_read(path))

    def _truth(self, policy: Any) -> SepsisTruth:
        return sepsis_value(policy, self.source.task.simulator, self.source.size.roll_outs, self.source.task.seed)


def standard_errors_above(truth: SepsisTruth, other: SepsisTruth) -> float:
    """How far one true value is above another, in standard errors of their difference.

    >>> standard_errors_above(SepsisTruth(79.0, 0.3), SepsisTruth(78.0, 0.4))
    2.0
    """
    return (truth.value - other.value) / math.hypot(truth.standard_error, other.standard_error)


def logging_truth(variant: str, size: Size, seed: int) -> SepsisTruth:
    """What the logging policy is worth; the luck of patients cancels out, so this is nearly exact."""
    return sepsis_value(SepsisBehavior(), Sepsis(variant), size.roll_outs, seed)


def _plain(estimate: Estimate, truth: SepsisTruth) -> dict[str, Any]:
    return {"estimate": estimate.to_dict(), "truth": truth._asdict()}


def _read(path: Path) -> tuple[Estimate, SepsisTruth]:
    found = read_json(path)
    return Estimate.from_dict(found["estimate"]), SepsisTruth(**found["truth"])
