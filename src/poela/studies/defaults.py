"""What a study tries when nobody says otherwise."""

from collections.abc import Mapping, Sequence
from typing import Any

from poela.core.errors import InputError
from poela.core.references import is_reference
from poela.core.typed import shown
from poela.core.validation import expect_list
from poela.data.action_space import Box
from poela.eligibility.rules import USUAL_SUPPORT
from poela.learners.registry import LEARNERS
from poela.studies.candidates import AnyLearner, Candidate, grid

# In the order in which they are tried: under a time budget the quick ones come first.
DEFAULT_LEARNERS = ("fittedq", "consensus", "poela", "bcq", "rules")
DEFAULT_CONTINUOUS = ("continuouspoela", "iql")  # where actions are real numbers
# What cases like this received, by a model of what was done: nothing is barred where every action is taken everywhere.
# And where nobody like this was logged, the decision is left to those who decide.
SUPPORTED = {"support": USUAL_SUPPORT, "scale": "robust", "reach": "auto"}
# Where each case brings its propensities, they say themselves what is done in like cases.
LIKELY = {"relative_probability": 0.01}
MANY_STEPS = 25_000  # from here on, cases like this are looked for in a sample of the log
FULL_STEPS = 50_000  # above so many, each step of a policy gradient sees a part of the log
STEPS_AT_ONCE, TURNS = 10_000, 2000  # about so many; and over several decisions, where ratios multiply, so often
UNRULED = (Box.kind,)  # kinds of actions for which learners from elsewhere are held to no rule
LOGGED = "logged"  # the behavior that stands for these propensities


def default_candidates(
    learners: "Sequence[str | Candidate | AnyLearner] | None" = None, *, ruled: bool = True, behavior: str = "auto"
) -> list[Candidate]:
    """The usual grid of each learner (or of these learners), under a rule of eligible actions unless told otherwise.

    >>> [str(candidate) for candidate in default_candidates(["pocrm"])]
    ['pocrm variance_penalty=0.1 least_ess=100', 'pocrm variance_penalty=1 least_ess=100']
    """
    names = DEFAULT_LEARNERS if learners is None else expect_list("learners", learners)
    unknown = [name for name in names if isinstance(name, str) and name not in LEARNERS]
    if unknown:
        raise InputError([f"there is no learner {shown(name)}: choose from {', '.join(LEARNERS)}" for name in unknown])
    rule: dict[str, Any] = {"rule": [LIKELY if behavior == LOGGED else SUPPORTED]} if ruled else {}
    return [candidate for learner in names for candidate in _candidates(learner, rule)]


def _candidates(learner: str | Candidate | AnyLearner, rule: dict[str, Any]) -> list[Candidate]:
    """Names with their usual grid; objects as they are, and those from elsewhere under the usual rule."""
    if isinstance(learner, str):
        return _grid(learner, rule)
    own = Candidate.of(learner)
    kind = None if not own.is_foreign else getattr(own.build().acts_in, "kind", None)
    if isinstance(learner, Candidate) or not own.is_foreign or kind in UNRULED:
        return [own]
    return grid(own.learner, **{name: [value] for name, value in own.settings.items()}, **rule)


def _grid(learner: str, rule: dict[str, Any]) -> list[Candidate]:
    penalties, verifiable = [0.1, 1.0], [100.0]
    own: dict[str, Any] = {name: [value] for name, value in SUPPORTED.items()} if rule else {"support": [None]}
    near: dict[str, Any] = {"radius": ["q100"]} if rule else {}
    grids: dict[str, list[Candidate]] = {
        "poela": grid("poela", **own, variance_penalty=[0.1], least_ess=verifiable),
        "pomu": grid("pomu", minimum_probability=[0.01, 0.05], variance_penalty=[0.1], least_ess=verifiable),
        "pocrm": grid("pocrm", variance_penalty=penalties, least_ess=verifiable),
        "bcq": grid("bcq", threshold=[0.3], **rule),
        "pql": grid("pql", threshold=[0.3], density=["nearest"], **rule),
        "fittedq": grid("fittedq", history=[0, 2], backup=["max", "soft"], **rule),
        "consensus": grid("consensus", **rule),
        "hullwalk": grid("hullwalk", **rule),
        "rules": grid("rules", **rule),
        "spibb": grid("spibb", **rule),
        "softspibb": grid("softspibb", **rule),
        "dprl": grid("dprl", **rule),
        "continuouspoela": grid("continuouspoela", least_ess=verifiable, hidden=[(), (32, 32)], **near),
        "continuousclone": grid("continuousclone", **near),
        "iql": grid("iql", **near),
    }
    return grids.get(learner, [Candidate(learner)])


def of_one_step(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates for logs of single decisions: there is no history to look at, and nothing follows to back up from.

    >>> [str(one) for one in of_one_step(default_candidates(["fittedq"], ruled=False))]
    ['fittedq history=0']
    """
    without = [{name: value for name, value in one.settings.items() if name != "backup"} for one in candidates]
    single = [own | ({"history": 0} if "history" in own else {}) for own in without]
    return list(dict.fromkeys(Candidate(one.learner, own) for one, own in zip(candidates, single, strict=True)))


def in_parts(candidates: Sequence[Candidate], n_steps: int, n_episodes: int) -> list[Candidate]:
    """Candidates under the usual rule, for a large log: POELA sees a part of it at each step, unless told how much.

    >>> [str(one) for one in in_parts([Candidate("poela", SUPPORTED), Candidate("poela")], 100_000, 20_000)]
    ['poela batch_episodes=2000 steps=2000 support=0.02 scale=robust reach=auto', 'poela']
    """
    if n_steps <= FULL_STEPS:
        return list(candidates)
    part = {"batch_episodes": max(round(STEPS_AT_ONCE * n_episodes / n_steps), 100)}
    part |= {"steps": TURNS} if n_steps > n_episodes else {}
    usual = [SUPPORTED.items() <= dict(one.settings).items() for one in candidates]  # POELA alone has it as its own
    return [
        Candidate(one.learner, part | dict(one.settings)) if own else one
        for own, one in zip(usual, candidates, strict=True)
    ]


def of_many_steps(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates under the usual rule, for logs of many steps: who is unlike anything logged is asked of a sample.

    >>> [str(one) for one in of_many_steps([Candidate("poela", SUPPORTED), Candidate("poela", {"reach": 2.0})])]
    ['poela support=0.02 scale=robust reach=auto search=sample', 'poela reach=2']
    """
    found = []
    for one in candidates:
        own, rule = dict(one.settings), one.settings.get("rule")
        if isinstance(rule, Mapping) and dict(rule) == SUPPORTED:
            own["rule"] = {**SUPPORTED, "search": "sample"}
        elif SUPPORTED.items() <= own.items() and "search" not in own:
            own["search"] = "sample"
        found.append(Candidate(one.learner, own))
    return found


def is_random(candidate: Candidate) -> bool:
    """Whether restarts of the candidate can differ at all.

    >>> is_random(Candidate("poela")), is_random(Candidate("fittedq"))
    (True, False)
    """
    if candidate.learner == "consensus":
        return False
    if is_reference(candidate.settings.get("regressor")):
        return True
    by_regression = candidate.learner in ("fittedq", "hullwalk", "rules", "spibb", "softspibb", "dprl")
    return not by_regression or candidate.settings.get("regressor") == "boosted"
