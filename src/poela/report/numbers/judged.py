"""Every policy that was judged: the ladder from cautious to bold, and value against effective sample size."""

from dataclasses import dataclass

from poela.studies.study import Study
from poela.studies.words import Row, changed_in_words, thinned, where_on_path, without_rule


@dataclass(frozen=True)
class JudgedPolicy:
    """A policy as pictures and tables show it."""

    name: str  # in a few words
    candidate: str  # with its settings
    learner: str
    value: float | None
    value_error: float | None
    gain: float | None
    shown: float | None  # by how much it is at least better, for all policies together
    ess: float | None
    departure: float | None  # share of decisions that change, or by how much real-valued ones do
    changed: str  # the same in words
    verdict: str
    chosen: bool
    outside: float | None = None  # share of decisions that were never made in like cases
    leaving: float | None = None  # share of its episodes with any such decision
    best: bool = False  # no other beats it in both value and effective sample size


def _judged(row: Row, best: bool = False) -> JudgedPolicy:
    return JudgedPolicy(
        row["name"],
        f"{without_rule(row['candidate'])}, restart {row['restart']}, {where_on_path(row)}",
        row["learner"],
        row["sntis"],
        row["sntis_error"],
        row["gain"],
        row["shown"],
        row["ess"],
        row["change_sd"] if row["departure"] is None else row["departure"],
        changed_in_words(row),
        row["verdict"],
        row["chosen"],
        row["outside"],
        row["leaving"],
        best,
    )


@dataclass(frozen=True)
class Frontier:
    """Value against effective sample size."""

    points: tuple[JudgedPolicy, ...]
    units: float  # episodes that judged, or clusters; effective ones where outcomes were lost
    called: str  # what the chosen one is
    current: float  # what the logging policy achieved
    current_error: float

    @property
    def line(self) -> tuple[JudgedPolicy, ...]:
        """Those that no other beats, best supported first."""
        return tuple(sorted((point for point in self.points if point.best), key=lambda point: -(point.ess or 0.0)))


def frontier_of(study: Study) -> Frontier:
    """All judged policies that have an estimate, and which of them no other beats."""
    key = ("path", "note", "step")
    best = {tuple(row[name] for name in key) for row in study.frontier().to_pylist()}
    rows = [row for row in study.table().to_pylist() if row["sntis"] is not None and row["ess"]]
    points = tuple(_judged(row, tuple(row[name] for name in key) in best) for row in rows)
    current, result = study.record.logging_policy, study.result
    units = study.record.data.validation_episodes if result is None else result.estimate.diagnostics.n_units
    called = "" if result is None else study.answer.called
    return Frontier(points, current.ess or units, called, current.value, current.standard_error)


def ladder_of(study: Study) -> tuple[JudgedPolicy, ...]:
    """A few rungs from cautious to bold, with the chosen one; where an estimate decides, those of the frontier."""
    by_gain = study.settings.selection.by == "gain"
    rows = (study.ladder() if by_gain else study.frontier()).to_pylist()
    return tuple(map(_judged, thinned(rows)))


def all_judged(study: Study) -> tuple[JudgedPolicy, ...]:
    """Every policy, in the order of the study."""
    return tuple(map(_judged, study.table().to_pylist()))
