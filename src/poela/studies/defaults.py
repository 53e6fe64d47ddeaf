"""What a study tries when nobody says otherwise."""

from collections.abc import Sequence

from poela.core.errors import InputError
from poela.core.typed import shown
from poela.core.validation import expect_list
from poela.learners.registry import LEARNERS
from poela.studies.candidates import Candidate, grid

# In the order in which they are tried: under a time budget the quick ones come first.
DEFAULT_LEARNERS = ("fittedq", "clone", "poela", "pocrm", "bcq", "pql")


def default_candidates(learners: Sequence[str] | None = None) -> list[Candidate]:
    """The usual grid of each learner (or of these learners).

    >>> [str(candidate) for candidate in default_candidates(["pocrm"])]
    ['pocrm variance_penalty=0.1', 'pocrm variance_penalty=1']
    """
    names = DEFAULT_LEARNERS if learners is None else expect_list("learners", learners)
    unknown = [name for name in names if not isinstance(name, str) or name not in LEARNERS]
    if unknown:
        raise InputError([f"there is no learner {shown(name)}: choose from {', '.join(LEARNERS)}" for name in unknown])
    return [candidate for name in names for candidate in _grid(name)]


def _grid(learner: str) -> list[Candidate]:
    penalties = [0.1, 1.0]
    grids: dict[str, list[Candidate]] = {
        "poela": grid("poela", radius=["q75", "q90", "q97"], variance_penalty=penalties),
        "pomu": grid("pomu", minimum_probability=[0.01, 0.05], variance_penalty=penalties),
        "pocrm": grid("pocrm", variance_penalty=penalties),
        "bcq": grid("bcq", threshold=[0.1, 0.3]),
        "pql": grid("pql", threshold=[0.1, 0.3], density=["nearest"]),
        "fittedq": grid("fittedq", history=[0, 2], backup=["max", "soft"]),
    }
    return grids.get(learner, [Candidate(learner)])


def is_random(candidate: Candidate) -> bool:
    """Whether restarts of the candidate can differ at all.

    >>> is_random(Candidate("poela")), is_random(Candidate("fittedq"))
    (True, False)
    """
    return candidate.learner != "fittedq" or candidate.settings.get("regressor", "ridge") != "ridge"
