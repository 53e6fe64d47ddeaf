"""`Estimate`: a value with everything that is needed to believe it, or not."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from poela.core.readable import between, effective, readable
from poela.core.typed import Count, Unknowable, from_plain, to_plain
from poela.evaluation.cap import Beyond
from poela.stats.diagnostics import Diagnostics
from poela.stats.gain import Gain


@dataclass(frozen=True)
class Estimate:
    """The value of a policy, its gain over the logging policy, their intervals, and whether to believe them.

    `low`, `high`, `level` and `interval` are None where no interval was asked for, or none could be computed; `gain` is
    None where the value is that of the logging policy itself, or is no number.
    """

    value: Unknowable  # mean return of an episode under the policy
    low: float | None  # lower end of the interval
    high: float | None  # upper end of the interval
    level: float | None  # of the interval, such as 0.95
    estimator: str  # its name
    interval: str | None  # its name; None: none was asked for
    n_episodes: Count  # episodes behind it
    ess: Unknowable  # effective sample size, in episodes
    standard_error: Unknowable  # of the value
    diagnostics: Diagnostics  # of the weights, and what they warn of
    gain: Gain | None = None  # over the logging policy, with its own interval
    verdict: str = ""  # trust, caution or do not trust
    reasons: tuple[str, ...] = ()  # for the verdict, the gravest first
    advice: str = ""  # what to do next
    warnings: tuple[str, ...] = ()  # what went wrong, and the reasons unless the verdict is trust
    beyond: Beyond | None = None  # the cap of returns that all of this is about, and what it hides; None: there is none

    def __str__(self) -> str:
        error = self.standard_error
        interval = ""
        if self.low is not None and self.high is not None and self.level is not None:
            interval = f" {between(self.low, self.high, error)} ({100 * self.level:g}% {self.interval})"
        lines = [
            f"{readable(self.value, error)}{interval}{self.about}, {self.estimator}, ESS {effective(self.ess)} of "
            + self.units,
            *([f"new - current = {self.gain}"] if self.gain is not None else []),
            *([f"verdict: {self.verdict}"] if self.verdict else []),
            *(f"- {sentence}" for sentence in dict.fromkeys((*self.reasons, *self.warnings))),
            *([f"next: {self.advice}"] if self.advice else []),
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from poela.core.html import facts

        error, level = self.standard_error, "" if self.level is None else f" ({100 * self.level:g}%)"
        known = {
            "value": f"{readable(self.value, error)} {between(self.low, self.high, error)}{level}{self.about}",
            "new − current": "" if self.gain is None else str(self.gain),
            "verdict": self.verdict,
            "why": "; ".join(dict.fromkeys((*self.reasons, *self.warnings))),
            "next": self.advice,
            "effective cases": f"{effective(self.ess)} of {self.units}",
        }
        return facts(f"Estimate by {self.estimator}", known)

    @property
    def about(self) -> str:
        """What the value is one of, where that is not the return: for headlines."""
        return "" if self.beyond is None else f" ({self.beyond.cap.in_words})"

    @property
    def units(self) -> str:
        """How many independent units there are, in words where these are clusters."""
        return self.diagnostics.units

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what is not a finite number becomes null."""
        result: dict[str, Any] = to_plain(self)
        return result

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> "Estimate":
        """The estimate that `to_dict` described; numbers that were not finite come back as NaN."""
        return from_plain(cls, document, "the estimate")
