"""`Estimate`: a value with everything that is needed to believe it, or not."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from poela.evaluation.diagnostics import Diagnostics

_NUMBERS = ("value", "ess", "standard_error")


@dataclass(frozen=True)
class Estimate:
    """The value of a policy, its interval, and the diagnostics, verdict and warnings that belong to it.

    `low`, `high`, `level` and `interval` are None where no interval was asked for, or none could be computed.
    """

    value: float
    low: float | None
    high: float | None
    level: float | None
    estimator: str
    interval: str | None
    n_episodes: int
    ess: float
    standard_error: float
    diagnostics: Diagnostics
    verdict: str = ""  # trust, caution or do not trust
    reasons: tuple[str, ...] = ()  # for the verdict, the gravest first
    warnings: tuple[str, ...] = ()  # what went wrong, and the reasons unless the verdict is trust

    def __str__(self) -> str:
        interval = ""
        if self.low is not None and self.high is not None and self.level is not None:
            interval = f" [{_short(self.low)}, {_short(self.high)}] ({100 * self.level:g}% {self.interval})"
        lines = [
            f"{_short(self.value)}{interval}, {self.estimator}, ESS {_short(self.ess)} of {self.n_episodes}",
            *([f"verdict: {self.verdict}"] if self.verdict else []),
            *(f"- {sentence}" for sentence in dict.fromkeys((*self.reasons, *self.warnings))),
        ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what is not a finite number becomes null."""
        result: dict[str, Any] = plain(self)
        return result

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> "Estimate":
        """The estimate that `to_dict` described; numbers that were not finite come back as NaN."""
        parts: dict[str, Any] = dict(document)
        parts |= {name: math.nan for name in _NUMBERS if parts[name] is None}
        parts |= {name: tuple(parts.get(name, ())) for name in ("reasons", "warnings")}
        parts["diagnostics"] = Diagnostics.from_dict(parts["diagnostics"])
        return cls(**parts)


def plain(value: Any) -> Any:
    """Dataclasses, arrays and numbers as JSON can hold them.

    >>> plain({"a": float("nan"), "b": (1, 2.5)})
    {'a': None, 'b': [1, 2.5]}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _short(number: float) -> str:
    return f"{number:.4g}"
