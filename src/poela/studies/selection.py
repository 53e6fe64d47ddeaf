"""Choosing a policy by its validation metrics: the protocols of the paper, and safer ones."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from poela.core.errors import InputError

SCORES = ("sntis", "lower_bound")
CHECKPOINTS = ("final", "best")


@dataclass(frozen=True)
class Selection:
    """How the policy is chosen.

    `by` names the score; `checkpoints` says whether only each run's final policy takes part or every checkpoint;
    `min_ess` is the least effective sample size on the validation logs: a number of episodes, or below 1 a share of
    them. The paper's protocols are `Selection("sntis", "final")` and `Selection("sntis", "best", min_ess=200)`.
    """

    by: str = "sntis"
    checkpoints: str = "final"
    min_ess: float = 0.0
    level: float = 0.95  # of the lower bound

    def __post_init__(self) -> None:
        problems = []
        if self.by not in SCORES:
            problems.append(f"policies cannot be chosen by {self.by!r}: choose by {' or '.join(SCORES)}")
        if self.checkpoints not in CHECKPOINTS:
            problems.append(f"checkpoints is {self.checkpoints!r}: choose {' or '.join(CHECKPOINTS)}")
        if not self.min_ess >= 0:
            problems.append(f"min_ess is {self.min_ess}: it must be 0 or more")
        if not 0 < self.level < 1:
            problems.append(f"level is {self.level}: it must lie between 0 and 1")
        if problems:
            raise InputError(problems)

    def least_ess(self, n_episodes: int) -> float:
        """The least effective sample size, in episodes.

        >>> Selection(min_ess=0.1).least_ess(200), Selection(min_ess=30).least_ess(200)
        (20.0, 30)
        """
        return self.min_ess * n_episodes if self.min_ess < 1 else self.min_ess


@dataclass(frozen=True)
class Scored:
    """One checkpoint of one run, as selection sees it."""

    run_id: str
    number: int  # of the checkpoint within the run
    final: bool
    metrics: Mapping[str, float | None]


@dataclass(frozen=True)
class Choice:
    """The chosen checkpoint (None: the logging policy), its score, and why."""

    chosen: Scored | None
    score: float | None
    reason: str


def choose(checkpoints: Sequence[Scored], selection: Selection, n_episodes: int) -> Choice:
    """The best qualified checkpoint; of equals the one with more effective episodes, then the one listed first.

    >>> weak = Scored("a", 0, True, {"sntis": 5.0, "ess": 2.0})
    >>> strong = Scored("b", 0, True, {"sntis": 4.0, "ess": 90.0})
    >>> choose([weak, strong], Selection(min_ess=30), n_episodes=100).chosen.run_id
    'b'
    >>> choose([weak], Selection(min_ess=30), n_episodes=100).reason
    'none of 1 policies has an effective sample size of 30 or more on the validation logs: the logging policy is kept'
    """
    entered = [item for item in checkpoints if item.final or selection.checkpoints == "best"]
    least = selection.least_ess(n_episodes)
    qualified = [item for item in entered if (item.metrics.get("ess") or 0.0) >= max(least, math.ulp(0.0))]
    scored = [(value, item) for item in qualified if (value := score_of(item.metrics, selection)) is not None]
    if not scored:
        return Choice(None, None, _why_none(len(entered), least, selection))
    # max keeps the first of equals, so the order of candidates decides last.
    value, best = max(scored, key=lambda pair: (pair[0], pair[1].metrics.get("ess") or 0.0))
    return Choice(
        best, value, f"the best {_words(selection)} of {len(scored)} qualified policies ({len(entered)} tried)"
    )


def score_of(metrics: Mapping[str, float | None], selection: Selection) -> float | None:
    """What the selection maximises; None where it cannot be computed."""
    value = metrics.get("sntis")
    if selection.by == "sntis" or value is None:
        return value
    error = metrics.get("sntis_error")
    return None if error is None else value - _z(selection.level) * error


def _z(level: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf(level)


def _words(selection: Selection) -> str:
    what = {"sntis": "validation SNTIS", "lower_bound": f"{100 * selection.level:g}% lower bound on validation"}[
        selection.by
    ]
    return f"{what} ({selection.checkpoints} checkpoints)"


def _why_none(entered: int, least: float, selection: Selection) -> str:
    if not entered:
        return "no run has finished with a policy: the logging policy is kept"
    return (
        f"none of {entered} policies has an effective sample size of {least:g} or more on the validation logs: "
        "the logging policy is kept"
    )
