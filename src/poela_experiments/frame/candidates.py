"""What an experiment tries: the grids of its file, in order, and how tables name the learners."""

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from poela.studies.candidates import Candidate, grid
from poela_experiments.frame.settings import Size, described

NAMES = {
    "poela": "POELA",
    "pomu": "PO-mu",
    "pocrm": "PO-CRM",
    "bcq": "BCQ",
    "pql": "PQL",
    "cql": "CQL",
    "fittedq": "FittedQ",
    "clone": "Clone",
}
ABOUT = ("learner", "kind", "for")  # of a grid; everything else in it is a setting with its values


def name_of(candidate: Candidate) -> str:
    """The learner as tables name it: PO-mu that asks for no more than overlap is PO-CRM.

    >>> name_of(Candidate("pomu", {"minimum_probability": 0.0})), name_of(Candidate("pomu"))
    ('PO-CRM', 'PO-mu')
    """
    if candidate.learner == "pomu" and candidate.settings.get("minimum_probability") == 0:
        return NAMES["pocrm"]
    return NAMES[candidate.learner]


def candidates_of(experiment: str, size: Size, which: str = "", **kinds: Mapping[str, Any]) -> list[Candidate]:
    """The grids that are `for` this case, with the size's settings for learners of their kind.

    >>> [len(candidates_of("tumor", Size.of("tumor", "full"), case)) for case in ("known", "BC")]
    [18, 20]
    >>> print(candidates_of("tumor", Size.of("tumor", "quick"), "known")[0])
    poela radius=0.05 variance_penalty=0 checkpoints=5 steps=50 warm_start_steps=50
    """
    settings = {**size.kinds, **kinds}
    found: list[Candidate] = []
    for given in described(experiment)["grids"]:
        if which in given.get("for", (which,)):
            values = {name: choices for name, choices in given.items() if name not in ABOUT}
            common = {name: (value,) for name, value in settings.get(given.get("kind"), {}).items()}
            found += grid(given["learner"], **values, **common)
    fewer = size.settings.get("fewer", 1)
    return [candidate for _, own in groupby(found, key=name_of) for candidate in [*own][::fewer]]


def tried(experiment: str, learner: str, setting: str) -> list[float]:
    """The values of a setting in the first grid of a learner.

    >>> tried("sepsis", "poela", "radius")
    [0.4, 0.6, 0.8, 1.0]
    """
    first = next(given for given in described(experiment)["grids"] if given["learner"] == learner)
    return list(first[setting])
