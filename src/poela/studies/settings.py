"""The settings of a study: everything that its results depend on, beside the logs."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np

from poela.core.errors import InputError
from poela.core.typed import Range, one_of, refuse_problems, shown, to_plain
from poela.evaluation.scoring import Scoring
from poela.learners.learner import Learner
from poela.studies.candidates import Candidate, checked_candidates
from poela.studies.options import StudyOptions
from poela.studies.selection import Selection

# What may differ when a study is resumed: new candidates are added work, and choosing anew needs no fitting.
MAY_CHANGE = ("candidates", "restarts", "selection")


@dataclass(frozen=True)
class StudySettings(StudyOptions):
    """Candidates, restarts, splitting, scoring, choosing."""

    candidates: tuple[Candidate, ...]
    test_share: Annotated[float, Range(least=0, below=1)] = 0.0  # of episodes kept from the folds for a last look
    path: Annotated[str, one_of("ambition", "training")] = "ambition"  # which policies of a run are judged
    by_model: bool = True  # whether values of a model are estimated too
    selection: Selection = field(default_factory=Selection)
    scoring: Scoring = field(default_factory=lambda: Scoring(smoothing=0.01))

    def __post_init__(self) -> None:
        refuse_problems(self)
        if self.shares is not None and sum(self.shares) > 1 + 1e-9:
            raise InputError(f"shares is {shown(self.shares)}: they must sum to at most 1")
        if self.shares is not None and self.test_share:
            raise InputError(
                f"test is {self.test_share:g}, but in one split shares says which part is for the test: say it there, "
                "or give other logs"
            )

    @classmethod
    def checked(cls, candidates: Sequence[Candidate | Learner], **settings: Any) -> "StudySettings":
        """Settings that can be carried out, or all that is wrong with them."""
        return cls(checked_candidates(candidates), **settings)

    @property
    def estimators(self) -> tuple[str, ...]:
        """Beside SNTIS, what every policy is judged by."""
        return ("wdr", "guarded") if self.by_model else ()

    def restart_seed(self, restart: int) -> int:
        """The seed of a restart, the same for all candidates."""
        return int(np.random.SeedSequence((self.seed, restart)).generate_state(1)[0])

    def continuing(self, earlier: "StudySettings") -> "StudySettings":
        """The same, with everything scored that the earlier study scored, along the paths that it walked."""
        return replace(self, by_model=self.by_model or earlier.by_model, path=earlier.path)

    def conflicts_with(self, earlier: "StudySettings") -> list[str]:
        """Why these settings cannot continue an earlier study, each as one sentence."""
        now, then = to_plain(self), to_plain(earlier)
        if self.by_model and not earlier.by_model:
            return [
                f"policies of this study were scored by sntis alone, so none can be chosen by {self.selection.by}: "
                "choose by sntis, or begin another study"
            ]
        return [
            f"{name} was {shown(then[name])} and is now {shown(now[name])}: keep it, or choose another folder"
            for name in now
            if name not in MAY_CHANGE and now[name] != then[name]
        ]
