"""Policies of a study in words: short names that people can say, and what it says of them."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from poela.core.readable import plain, readable, share_in_words
from poela.data.schema import TableSchema
from poela.data.words import counted
from poela.evaluation.outside import LEAST_OUTSIDE
from poela.stats.verdict import TrustThresholds
from poela.studies.selection import Point

if TYPE_CHECKING:
    from poela.studies.study import Study

# What a study says of its policies, in words that the command line and the page share.

MOST_RUNGS, MOST_BEYOND = 8, 3
NO_CHANGE = 1e-6  # in deviations of what was logged
Row = dict[str, Any]  # of a study's table


def where_on_path(row: Row) -> str:
    """Where on its path a policy is, with numbers cut short.

    >>> where_on_path({"note": "temperature 8.4933", "step": 3})
    'temperature 8.49'
    >>> where_on_path({"note": "temperature 999.7", "step": 3})
    'temperature 1000'
    """
    note = row["note"] or f"step {row['step']}"
    return re.sub(r"\d+\.\d+", lambda found: plain(float(f"{float(found[0]):.3g}")), note)


def changed_in_words(metrics: Mapping[str, Any]) -> str:
    """How many decisions change or, where these are amounts, by how much on average; empty where that is not known.

    >>> changed_in_words({"departure": 0.25}), changed_in_words({"change": 1.234, "change_sd": 0.5})
    ('25%', '1.23 (0.50 SD)')
    >>> changed_in_words({"change": 3e-17, "change_sd": 1e-17})
    '0 (0.00 SD)'
    """
    departure, change, deviations = (metrics.get(name) for name in ("departure", "change", "change_sd"))
    if departure is not None:
        return f"{departure:.0%}"
    if deviations is None:
        return ""
    return f"{deviations:.2f} SD" if change is None else f"{_amount(change, deviations)} ({deviations:.2f} SD)"


def _amount(change: float, deviations: float) -> str:
    """An amount; none where it is but the rounding of one."""
    return readable(0.0 if deviations < NO_CHANGE else change)


def outside_in_words(outside: float | None, leaving: float | None, least: float = LEAST_OUTSIDE) -> str:
    """How much of what a policy does was never done in like cases; empty where that is not known, or below `least`.

    >>> outside_in_words(0.032, 0.05)
    '3% of its decisions were never made in similar cases; 5% of its episodes have such a decision'
    >>> outside_in_words(0.032, 0.032), outside_in_words(0.0, 0.0), outside_in_words(0.0, 0.0, least=0.0)
    ('3% of its decisions were never made in similar cases', '', '0% of its decisions were never made in similar cases')
    """
    if outside is None or leaving is None or not outside >= least:
        return ""
    words = f"{share_in_words(outside)} of its decisions were never made in similar cases"
    if share_in_words(leaving) == share_in_words(outside):  # episodes of one decision
        return words
    return f"{words}; {share_in_words(leaving)} of its episodes have such a decision"


def kept_by_support(points: Iterable[Point]) -> str:
    """How many policies have no claim since they do what was never done; empty where there is none.

    >>> kept_by_support([Point("a", 0, True, {"outside": 0.2, "shown": None}), Point("a", 1, True, {"outside": 0.0})])
    '1 bolder policy is not judged: more than 1% of its decisions were never made in similar cases.'
    """
    limit = TrustThresholds().outside_share[0]
    kept = sum((point.metrics.get("outside") or 0.0) > limit and point.metrics.get("shown") is None for point in points)
    if not kept:
        return ""
    policies, whose = ("policy is", "its") if kept == 1 else ("policies are", "their")
    never = f"more than {share_in_words(limit)} of {whose} decisions were never made in similar cases"
    return f"{kept:,} bolder {policies} not judged: {never}."


def lacks_support(points: Iterable[Point]) -> bool:
    """Whether every policy does too much that was never done in like cases for anything to be claimed of it.

    >>> lacks_support([Point("a", 0, True, {"outside": 0.2})]), lacks_support([Point("a", 1, True, {"outside": 0.0})])
    (True, False)
    """
    limit, shares = TrustThresholds().outside_share[0], [point.metrics.get("outside") or 0.0 for point in points]
    return bool(shares) and min(shares) > limit


def without_rule(candidate: str) -> str:
    """The rule is told apart.

    >>> without_rule("fittedq history=2 rule=(radius=q100 scale=standard) backup=soft")
    'fittedq history=2 backup=soft'
    """
    return re.sub(r" rule=\([^)]*\)", "", candidate)


def thinned(rows: list[Row]) -> list[Row]:
    """A few of those that can be verified and of those that cannot, with the ends of both and the chosen one."""
    shown, beyond = ([row for row in rows if (row["shown"] is None) == unknown] for unknown in (False, True))
    return [*_spread(shown, MOST_RUNGS), *_spread(beyond, MOST_BEYOND)]


def _spread(rows: list[Row], most: int) -> list[Row]:
    step = max((len(rows) - 1) / (most - 1), 1.0)
    kept = {round(place * step) for place in range(most)}
    return [row for place, row in enumerate(rows) if place in kept or row["chosen"] or row.get("role")]


def sentence(text: str) -> str:
    """With a capital and a full stop.

    >>> sentence("as logged")
    'As logged.'
    """
    return f"{text[:1].upper()}{text[1:]}."


def gaps_in_words(schema: TableSchema | None) -> str:
    """What became of the empty cells of a log.

    >>> gaps_in_words(None)
    'no column has empty cells.'
    """
    filled = [] if schema is None else [one for one in schema.variables if one.indicated or one.carried]
    if not filled:
        return "no column has empty cells."
    carried = sum(one.carried for one in filled)
    last = f" (in {counted(carried, 'column')} only before the first value of an episode)" if carried else ""
    return f"{counted(len(filled), 'column')} with empty cells: filled with the median and marked by a feature{last}."


# What learners make, in a word or by the name that the field knows.
FAMILIES: Mapping[str, str] = {
    "fittedq": "tilt",  # practice, tilted towards what values favour
    "hullwalk": "value for money",
    "consensus": "consensus",
    "poela": "POELA",
    "pomu": "PO-mu",
    "pocrm": "PO-CRM",
    "bcq": "BCQ",
    "pql": "PQL",
    "cql": "CQL",
    "clone": "clone",
    "spibb": "SPIBB",
    "softspibb": "soft SPIBB",
    "dprl": "DPRL",
    "continuouspoela": "dose POELA",
    "continuousclone": "dose clone",
    "iql": "dose IQL",
}
STRENGTHS = ("mild", "medium", "bold")  # thirds of a path from cautious to bold

Key = tuple[str, int]  # the path of a policy, and its number there


@dataclass(frozen=True)
class Origin:
    """Where a policy comes from: its path and number there, the learner, what its learner calls it."""

    path_id: str
    number: int
    learner: str
    note: str
    plain: bool  # whether the note can be said: "never none", "rule 2"


def named(origins: Sequence[Origin], variants: Mapping[str, Sequence[str]], *, walks: bool) -> dict[Key, str]:
    """A name for each policy; no two are the same.

    `variants` has the paths of each learner, one for each of its settings and restarts, in order; `walks` says whether
    paths go from cautious to bold (else they are checkpoints of training).

    >>> tilts = [Origin(path, number, "fittedq", "", False) for path in ("a", "b") for number in range(3)]
    >>> list(named(tilts, {"fittedq": ["a", "b"]}, walks=True).values())
    ['mild tilt A1', 'medium tilt A2', 'bold tilt A3', 'mild tilt B1', 'medium tilt B2', 'bold tilt B3']
    >>> rules = [Origin("c", 0, "rules", "never none", True), Origin("c", 1, "rules", "rule 1", True)]
    >>> list(named([*tilts[:3], *rules], {"fittedq": ["a"], "rules": ["c"]}, walks=True).values())
    ['mild tilt 1', 'medium tilt 2', 'bold tilt 3', 'never none', 'rule 1']
    """
    lengths = Counter(one.path_id for one in origins)
    names = {}
    for one in origins:
        paths = variants.get(one.learner, (one.path_id,))
        letter = letters(paths.index(one.path_id)) if len(paths) > 1 and one.path_id in paths else ""
        names[one.path_id, one.number] = _name(one, letter, lengths[one.path_id], walks)
    return _told_apart(names)


def names_of(study: "Study", points: Sequence[Point]) -> dict[Key, str]:
    """The names of all points of a study."""
    origins = []
    for point in points:
        task, checkpoint = study.origin(point)
        sayable = point.metrics.get("plainness") is not None
        origins.append(Origin(point.path_id, point.number, task.candidate.learner, checkpoint.note, sayable))
    places = {candidate.key: place for place, candidate in enumerate(study.settings.candidates)}
    variants: dict[str, list[str]] = {}
    for task in sorted(study.tasks, key=lambda task: (places[task.candidate.key], task.restart)):
        paths = variants.setdefault(task.candidate.learner, [])
        if task.path_id not in paths:
            paths.append(task.path_id)
    return named(origins, variants, walks=study.settings.path == "ambition")


def _name(one: Origin, letter: str, length: int, walks: bool) -> str:
    if one.plain:
        return f"{one.note} ({letter})" if letter else one.note
    family, place = FAMILIES.get(one.learner, one.learner), f"{letter}{one.number + 1}"
    if not walks:
        return " ".join(filter(None, (family, letter, f"checkpoint {one.number + 1}" if length > 1 else "")))
    if length == 1:
        return " ".join(filter(None, (family, letter)))
    strength = STRENGTHS[min(one.number * len(STRENGTHS) // length, len(STRENGTHS) - 1)]
    return f"{strength} {family} {place}"


def _told_apart(names: Mapping[Key, str]) -> dict[Key, str]:
    """With a number after names that occur more than once."""
    often, seen = Counter(names.values()), Counter[str]()
    found = {}
    for key, name in names.items():
        seen[name] += 1
        found[key] = name if often[name] == 1 else f"{name} ({seen[name]})"
    return found


def letters(place: int) -> str:
    """A, B, …, Z, AA, AB, …

    >>> [letters(place) for place in (0, 25, 26, 27)]
    ['A', 'Z', 'AA', 'AB']
    """
    tail = chr(ord("A") + place % 26)
    return tail if place < 26 else letters(place // 26 - 1) + tail
