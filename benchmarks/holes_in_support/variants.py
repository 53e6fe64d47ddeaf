"""The variants of a study that are compared: what it tries, as settings of `learn`."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from poela.core.errors import InputError
from poela.eligibility.rules import Eligibility
from poela.learners.registry import LEARNERS
from poela.studies.candidates import Candidate
from poela.studies.defaults import DEFAULT_LEARNERS, default_candidates

RADII = ("q95", "q99")  # of POELA under the paper's rule
RULES: dict[str, Mapping[str, Any]] = {
    "radius": {"radius": "q95", "scale": "standard"},
    "support": {"support": 0.02},
    "soft": {"support": 0.02, "price": 1.0},
}
VARIANTS = ("default", "norule", *RULES)


def settings_of(variant: str, learners: Sequence[str] | None = None) -> dict[str, Any]:
    """What `learn` is asked for.

    >>> settings_of("norule", ["fittedq"])
    {'learners': ['fittedq'], 'no_rule': True}
    >>> print(*settings_of("radius", ["poela", "bcq"])["candidates"], sep=chr(10))
    poela radius=q95 scale=standard support=None variance_penalty=0.1 least_ess=100
    poela radius=q99 scale=standard support=None variance_penalty=0.1 least_ess=100
    bcq threshold=0.3 rule=(radius=q95 scale=standard)
    """
    if variant not in VARIANTS:
        raise InputError(f"there is no variant {variant!r}: choose from {', '.join(VARIANTS)}")
    if variant not in RULES:
        asked = {} if learners is None else {"learners": [*learners]}
        return asked | ({"no_rule": True} if variant == "norule" else {})
    rule = RULES[variant]
    unknown = [name for name in rule if name not in {field.name for field in fields(Eligibility)}]
    if unknown:
        raise InputError(f"the variant {variant!r} needs a rule with {unknown[0]!r}, which this version does not have")
    usual = default_candidates(learners or DEFAULT_LEARNERS, ruled=False)
    candidates = dict.fromkeys(ruled for one in usual for ruled in _under(one, rule))
    if not candidates:
        raise InputError(f"the variant {variant!r} leaves no learner: of those asked for, none takes such a rule")
    for candidate in candidates:
        candidate.build()  # which refuses what cannot be
    return {"candidates": [*candidates]}


def _under(candidate: Candidate, rule: Mapping[str, Any]) -> list[Candidate]:
    """A usual candidate under another rule; none where its learner takes none (PO-CRM, which then is POELA)."""
    own = {name: value for name, value in candidate.settings.items() if name not in ("rule", "radius", "scale", *rule)}
    known = {field.name for field in fields(LEARNERS[candidate.learner])}  # type: ignore[arg-type]
    if "rule" in known:
        return [Candidate(candidate.learner, own | {"rule": rule})]
    if not known.issuperset(rule):
        return []
    radii = RADII if "radius" in rule else (None,)  # None: no radius beside the other rule
    return [Candidate(candidate.learner, {**rule, "radius": radius, **own}) for radius in radii]
