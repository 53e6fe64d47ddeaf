"""What a study tries when nobody says otherwise."""

from collections.abc import Sequence

from poela.core.errors import InputError
from poela.learners.registry import LEARNERS
from poela.studies.candidates import Candidate, grid

DEFAULT_LEARNERS = ("poela", "pocrm")


def default_candidates(learners: Sequence[str] | None = None) -> list[Candidate]:
    """The usual grid of each learner (or of these learners).

    >>> [str(candidate) for candidate in default_candidates(["pocrm"])]
    ['pocrm variance_penalty=0.01', 'pocrm variance_penalty=0.1', 'pocrm variance_penalty=1']
    """
    names = tuple(learners) if learners is not None else tuple(n for n in DEFAULT_LEARNERS if n in LEARNERS)
    unknown = [name for name in names if name not in LEARNERS]
    if unknown:
        raise InputError([f"there is no learner {name!r}: choose from {', '.join(LEARNERS)}" for name in unknown])
    return [candidate for name in names for candidate in _grid(name)]


def _grid(learner: str) -> list[Candidate]:
    penalties = [0.01, 0.1, 1.0]
    grids: dict[str, list[Candidate]] = {
        "poela": grid("poela", radius=["q25", "q50", "q75"], variance_penalty=penalties),
        "pomu": grid("pomu", minimum_probability=[0.01, 0.05], variance_penalty=penalties),
        "pocrm": grid("pocrm", variance_penalty=penalties),
    }
    return grids.get(learner, [Candidate(learner)])
