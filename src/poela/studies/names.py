"""Short names for the policies of a study, which people can say: "mild tilt 5", "rule 2", "never none".

A name says how bold the policy is on its path, what kind of policy it is, and its number on the path. Where a study
tries several settings of a kind, a letter stands for the settings: "bold tilt B12". Settings themselves are details.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from poela.studies.selection import Point

if TYPE_CHECKING:
    from poela.studies.study import Study

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
