"""Candidates: learners by name with plain settings, so that they can be written down, compared and sent anywhere."""

import dataclasses
import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from poela.core.errors import InputError
from poela.core.live import resolved
from poela.core.paths import regular_file
from poela.core.policy import AnyPolicy
from poela.core.references import described, description, is_reference, reference
from poela.core.typed import from_plain, to_plain
from poela.core.validation import expect_list
from poela.data.trajectories import Trajectories
from poela.eligibility.rules import Eligibility
from poela.learners.learner import Learner, TaughtLearner, refuse_no_learner
from poela.learners.registry import LEARNERS
from poela.networks.modules import device_of

MOST = 10_000
OBJECT = "object"  # the setting of a candidate that is somebody's object


class Learns(Protocol):
    """Somebody's learner."""

    def fit(self, train: Trajectories) -> AnyPolicy:
        """The policy that these logs teach; it may take a `seed` and the logging policy (`behavior`) by name, too."""


# Our own learner or somebody's, a function from logs to a policy, or a policy.
AnyLearner = Learner | Learns | Callable[[Trajectories], AnyPolicy] | AnyPolicy


@dataclass(frozen=True, eq=False)
class Candidate:
    """A learner's name and those of its settings that differ from its defaults; all as plain as JSON.

    A rule of eligible actions is a mapping of the fields of `Eligibility`: `{"rule": {"radius": 0.1}}`.

    >>> candidate = Candidate("poela", {"radius": "q50", "hidden": (32, 32)})
    >>> print(candidate)
    poela radius=q50 hidden=32,32
    >>> candidate == Candidate("poela", {"hidden": [32, 32], "radius": "q50"})
    True
    """

    learner: str  # its name
    settings: Mapping[str, Any] = field(default_factory=dict)  # that differ from its defaults

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", MappingProxyType(_frozen_all(self.settings)))

    @classmethod
    def of(cls, learner: "Candidate | AnyLearner") -> "Candidate":
        """The candidate that describes a learner object; one that is not in the table is referred to."""
        if isinstance(learner, Candidate):
            return learner
        name = LEARNERS.name_of(type(learner))
        if name is not None:
            return cls(name, _changed(learner))
        refuse_no_learner(learner)
        return cls(_name_of(learner), {OBJECT: reference(learner)})

    @property
    def is_foreign(self) -> bool:
        """Whether it is an object that is not in the table of learners."""
        return is_reference(self.settings.get(OBJECT))

    @property
    def kind(self) -> type[Learner]:
        """The class of the learner."""
        return TaughtLearner if self.is_foreign else LEARNERS[self.learner]

    @cached_property
    def key(self) -> str:
        """A short name that depends on nothing but the learner and its settings."""
        return hashlib.sha256(json.dumps(to_plain(self), sort_keys=True).encode()).hexdigest()[:12]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Candidate) and to_plain(self) == to_plain(other)

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        if self.is_foreign:
            return described(self.settings[OBJECT])
        return " ".join([self.learner, *(f"{name}={setting_text(value)}" for name, value in self.settings.items())])

    def build(self) -> Learner:
        """The learner itself, or all that is wrong with its settings."""
        return from_plain(self.kind, resolved(to_plain(self.settings)), f"learner {self.learner!r}")


def grid(learner: str, **choices: Sequence[Any]) -> list[Candidate]:
    """Every combination of the given settings.

    >>> [str(candidate) for candidate in grid("poela", radius=[0.1, "q50"], variance_penalty=[0.1])]
    ['poela radius=0.1 variance_penalty=0.1', 'poela radius=q50 variance_penalty=0.1']
    """
    return [Candidate(learner, dict(zip(choices, values, strict=True))) for values in product(*choices.values())]


def checked_candidates(candidates: Sequence[Candidate | AnyLearner]) -> tuple[Candidate, ...]:
    """Each candidate once, in order, after checking that learners and settings exist."""
    checked = tuple(dict.fromkeys(Candidate.of(candidate) for candidate in expect_list("candidates", candidates)))
    if len(checked) > MOST:
        raise InputError(f"there are {len(checked)} candidates: try at most {MOST} in one study")
    if not checked:
        raise InputError("there are no candidates: name at least one learner")
    problems = list(dict.fromkeys(problem for candidate in checked for problem in _problems(candidate)))
    if problems:
        raise InputError(problems)
    return checked


def _problems(candidate: Candidate) -> list[str]:
    name: Any = candidate.learner
    if not isinstance(name, str) or (name not in LEARNERS and not candidate.is_foreign):
        return [f"there is no learner {name!r}: choose from {', '.join(LEARNERS)}"]
    known = [item.name for item in dataclasses.fields(candidate.kind)]  # type: ignore[arg-type]
    unknown = [name for name in candidate.settings if name not in known]
    if unknown:
        return [f"learner {candidate.learner!r} has no setting {unknown[0]!r}: it has {', '.join(sorted(known))}"]
    try:
        device_of(getattr(candidate.build(), "device", "cpu"))
    except InputError as error:
        return list(error.problems)
    return []


def setting_text(value: Any) -> str:
    """A setting as a table shows it.

    >>> setting_text(0.1), setting_text((32, 32)), setting_text(()), setting_text(True)
    ('0.1', '32,32', 'none', 'True')
    """
    if isinstance(value, Mapping):
        return "(" + " ".join(f"{name}={setting_text(item)}" for name, item in value.items()) + ")"
    if isinstance(value, tuple | list):
        return ",".join(map(setting_text, value)) or "none"
    return f"{value:.4g}" if isinstance(value, float) else described(str(value))


def _frozen_all(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting, read-only; nan is refused, since plain files would turn it into nothing, and so into a default."""
    for name, value in settings.items():
        if isinstance(value, float) and value != value:
            raise InputError(f"{name} is nan: give a number")
    return {name: _frozen(value) for name, value in settings.items()}


def _frozen(value: Any) -> Any:
    if isinstance(value, Eligibility):
        value = _changed(value)
    if isinstance(value, Mapping):
        return MappingProxyType(_frozen_all(value))
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    # Numbers of NumPy have `tolist`; what else is not plain can only be referred to.
    plain = value is None or isinstance(value, str | bool | int | float) or hasattr(value, "tolist")
    return value if plain else reference(value)


def _name_of(learner: Any) -> str:
    """What the files of a foreign learner's runs are called."""
    words = re.sub(r"[^0-9A-Za-z]+", "", description(learner).partition("(")[0])[:40] or type(learner).__name__
    return f"own{words}" if words in LEARNERS else words


def _changed(settings: Any) -> dict[str, Any]:
    """Those fields of a dataclass that differ from their defaults."""
    values = {item.name: (getattr(settings, item.name), item.default) for item in dataclasses.fields(settings)}
    return {name: value for name, (value, default) in values.items() if value != default}


# Grids of candidates in a TOML file.
# [[grid]] learner = "poela" radius = [0.1, "q50"] # a list holds alternatives variance_penalty = [0.1, 1.0] hidden =
# [[64, 64]] # one alternative, itself a list steps = 1000 # anything else is the same for all
# [[grid]] learner = "bcq" rule.radius = ["q25", "q75"] # a setting of a rule


def candidates_in(path: Path) -> list[Candidate]:
    """The candidates that a file describes."""
    try:
        document = tomllib.loads(regular_file(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as TOML: {error}") from None
    return grids_in(document, str(path))


def grids_in(document: Mapping[str, Any], where: str) -> list[Candidate]:
    """The candidates of a parsed document.

    >>> [str(c) for c in grids_in({"grid": [{"learner": "poela", "radius": [0.1, "q50"], "steps": 9}]}, "here")]
    ['poela radius=0.1 steps=9', 'poela radius=q50 steps=9']
    """
    grids = document.get("grid")
    unknown = [name for name in document if name != "grid"]
    if not isinstance(grids, list) or not grids or unknown or not all(isinstance(entry, dict) for entry in grids):
        raise InputError(f"{where} must hold tables called [[grid]], and nothing else")
    nameless = sum(not isinstance(entry.get("learner"), str) for entry in grids)
    if nameless:
        raise InputError(f'{nameless} of {len(grids)} grids in {where} name no learner: add learner = "poela"')
    return [candidate for entry in grids for candidate in _grid(entry)]


def _grid(entry: Mapping[str, Any]) -> list[Candidate]:
    choices = {name: _alternatives(value) for name, value in entry.items() if name != "learner"}
    return grid(entry["learner"], **choices)


def _alternatives(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [dict(candidate.settings) for candidate in grid("", **{k: _alternatives(v) for k, v in value.items()})]
    return value if isinstance(value, list) else [value]
