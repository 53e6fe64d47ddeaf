"""The settings of a study: everything that its results depend on, beside the logs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np

from poela.core.errors import InputError
from poela.learners.learner import Learner
from poela.studies.candidates import Candidate, checked_candidates
from poela.studies.scoring import Scoring
from poela.studies.selection import Selection

# What may differ when a study is resumed: new candidates are added work, and choosing anew needs no fitting.
MAY_CHANGE = ("candidates", "restarts", "selection")


@dataclass(frozen=True)
class StudySettings:
    """Candidates, restarts, splitting, scoring, choosing."""

    candidates: tuple[Candidate, ...]
    restarts: int = 2
    seed: int = 0
    shares: tuple[float, float, float] = (0.5, 0.3, 0.2)  # train, validation, test
    selection: Selection = field(default_factory=Selection)
    scoring: Scoring = field(default_factory=Scoring)
    behavior: str = "auto"  # the model of the logging policy, where the logs carry no propensities
    level: float = 0.95  # of the final interval

    @classmethod
    def checked(cls, candidates: Sequence[Candidate | Learner], **settings: Any) -> "StudySettings":
        """Settings that can be carried out, or all that is wrong with them."""
        found = cls(checked_candidates(candidates), **settings)
        problems = []
        if found.restarts < 1:
            problems.append(f"restarts is {found.restarts}: at least 1 is needed")
        if found.seed < 0:
            problems.append(f"seed is {found.seed}: it must be 0 or more")
        if len(found.shares) != 3 or min(found.shares) <= 0 or sum(found.shares) > 1 + 1e-9:
            problems.append(f"the shares {found.shares} must be three positive numbers that sum to at most 1")
        if not 0 < found.level < 1:
            problems.append(f"level is {found.level}: it must lie between 0 and 1, for example 0.95")
        if problems:
            raise InputError(problems)
        return found

    def restart_seed(self, restart: int) -> int:
        """The seed of a restart, the same for all candidates."""
        return int(np.random.SeedSequence((self.seed, restart)).generate_state(1)[0])

    def to_plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            **{item.name: getattr(self, item.name) for item in fields(self)},
            "candidates": [candidate.to_plain() for candidate in self.candidates],
            "shares": list(self.shares),
            "selection": asdict(self.selection),
            "scoring": asdict(self.scoring),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "StudySettings":
        """The inverse of `to_plain`."""
        return cls(
            **{
                **plain,
                "candidates": tuple(map(Candidate.from_plain, plain["candidates"])),
                "shares": tuple(plain["shares"]),
                "selection": Selection(**plain["selection"]),
                "scoring": Scoring(**plain["scoring"]),
            }
        )

    def continuing(self, earlier: "StudySettings") -> "StudySettings":
        """The same, with everything scored that the earlier study scored."""
        model = self.scoring.value_model or earlier.scoring.value_model
        return replace(self, scoring=replace(self.scoring, value_model=model))

    def conflicts_with(self, earlier: "StudySettings") -> list[str]:
        """Why these settings cannot continue an earlier study, each as one sentence."""
        now, then = self.to_plain(), earlier.to_plain()
        if self.scoring.value_model and not earlier.scoring.value_model:
            return [
                f"policies of this study were scored by sntis alone, so none can be chosen by {self.selection.by}: "
                "choose by sntis, or begin another study"
            ]
        return [
            f"{name} was {then[name]!r} and is now {now[name]!r}: resume with the same, or choose another directory"
            for name in now
            if name not in MAY_CHANGE and now[name] != then[name]
        ]
