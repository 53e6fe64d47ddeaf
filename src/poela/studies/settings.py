"""The settings of a study: everything that its results depend on, beside the logs."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Annotated, Any

import numpy as np

from poela.core.errors import InputError
from poela.core.options import options_of
from poela.core.references import described, is_reference
from poela.core.typed import Range, one_of, refuse_problems, shown, to_plain
from poela.data.trajectories import Trajectories
from poela.evaluation.cap import Cap
from poela.evaluation.options import ScoringOptions
from poela.evaluation.scoring import Scoring
from poela.stats.bounds import Bounds
from poela.studies.candidates import AnyLearner, Candidate, checked_candidates
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
    def checked(cls, candidates: Sequence[Candidate | AnyLearner], **settings: Any) -> "StudySettings":
        """Settings that can be carried out, or all that is wrong with them."""
        return cls(checked_candidates(candidates), **settings)

    @property
    def estimators(self) -> tuple[str, ...]:
        """Beside SNTIS, what every policy is judged by."""
        return ("wdr", "guarded") if self.by_model else ()

    def taught(self, logs: Trajectories) -> Trajectories:
        """Episodes as learners see them: where each is one step, with capped rewards, if returns are to be capped."""
        return self.scoring.capped(logs) if logs.n_steps == logs.n_episodes else logs

    def restart_seed(self, restart: int) -> int:
        """The seed of a restart, the same for all candidates."""
        return int(np.random.SeedSequence((self.seed, restart)).generate_state(1)[0])

    def continuing(self, earlier: "StudySettings") -> "StudySettings":
        """The same, with everything scored that the earlier study scored, along the paths that it walked."""
        return replace(self, by_model=self.by_model or earlier.by_model, path=earlier.path)

    def conflicts_with(self, earlier: "StudySettings") -> list[str]:
        """Why these settings cannot continue an earlier study, each as one sentence."""
        if self.by_model and not earlier.by_model:
            return [
                f"policies of this study were scored by sntis alone, so none can be chosen by {self.selection.by}: "
                "choose by sntis, or begin another study"
            ]
        now, then = self._by_name(), earlier._by_name()
        return [
            f"{name} was {_in_words(then[name])} and is now {_in_words(now[name])}: keep it, or choose another folder"
            for name in now
            if to_plain(now[name]) != to_plain(then[name])
        ]

    def _by_name(self) -> dict[str, Any]:
        """What may not change, by the names that people give it."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        offered = {offered_one.field: offered_one.name for offered_one in options_of(ScoringOptions()).values()}
        scored = {
            offered.get(field.name, f"{field.name} of the scoring"): getattr(self.scoring, field.name)
            for field in fields(self.scoring)
        }
        if isinstance(scored["cap"], Cap):
            scored["cap"] = str(scored["cap"])  # as asked for: quantiles of other logs are for their hash to tell
        return {name: value for name, value in own.items() if name not in (*MAY_CHANGE, "scoring")} | scored


def _in_words(value: Any) -> str:
    """A setting as people would say it.

    >>> _in_words(None), _in_words((0.5, 0.3, 0.2)), _in_words("auto")
    ('not given', '0.5, 0.3, 0.2', "'auto'")
    """
    if value is None:
        return "not given"
    if isinstance(value, Bounds):
        return str(value)
    if is_dataclass(value):
        return ", ".join(f"{field.name} {_in_words(getattr(value, field.name))}" for field in fields(value))
    if isinstance(value, list | tuple):
        return ", ".join(map(_in_words, value))
    return described(value) if is_reference(value) else shown(value)
