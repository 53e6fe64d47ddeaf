"""Why a real-valued action is eligible or barred at a context, with the nearest logged pairs, in words."""

from dataclasses import asdict, dataclass
from typing import Any

from poela.core.readable import readable
from poela.data.action_space import ActionName


@dataclass(frozen=True)
class LoggedPair:
    """A logged context and action near the ones in question."""

    episode: ActionName | None  # None where ids were left out
    action: tuple[float, ...]
    context_distance: float
    distance: float

    def __str__(self) -> str:
        episode = "a logged case" if self.episode is None else f"episode {self.episode}"
        return f"{episode} did {', '.join(map(readable, self.action))} at {readable(self.distance)}"


@dataclass(frozen=True)
class PairExplanation:
    """Whether one action may be taken at one context.

    >>> print(PairExplanation((0.5,), False, 0.1, (LoggedPair(7, (0.9,), 0.0, 0.4),)))
    0.500: barred, since the nearest logged case is 0.400 away and the radius is 0.100
      episode 7 did 0.900 at 0.400
    """

    action: tuple[float, ...]
    eligible: bool
    radius: float
    cases: tuple[LoggedPair, ...]

    @property
    def why(self) -> str:
        """The reason, in words."""
        if not self.cases:
            return "no logged case was looked at"
        nearest = self.cases[0].distance
        stranded = self.eligible and nearest > self.radius
        near = f"the nearest logged case is {readable(nearest)} away and the radius is {readable(self.radius)}"
        return f"{near}; nothing else was logged near this context" if stranded else near

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, dictionaries and numbers, for JSON."""
        return {**asdict(self), "why": self.why}

    def __str__(self) -> str:
        word = "eligible" if self.eligible else "barred"
        first = f"{', '.join(map(readable, self.action))}: {word}, since {self.why}"
        return "\n".join([first, *(f"  {case}" for case in self.cases)])
