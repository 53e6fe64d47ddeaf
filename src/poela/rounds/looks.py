"""How a policy is watched, declared at the first look, and every look that was taken."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from poela.core.errors import InputError
from poela.core.locks import locked_folder
from poela.core.paths import is_there, place
from poela.core.records import read_record, write_record
from poela.core.typed import Count, Share, Whole, one_of
from poela.rounds.sequences import DESIGNS, planned_boundaries, sequence_boundary

FILE, FORMAT, VERSION = "watch.json", "poela-watch", 1
SEQUENCE, EXACT = "sequence", "exact"
METHODS = (SEQUENCE, EXACT, *DESIGNS)


@dataclass(frozen=True)
class WatchPlan:
    """How bounds are made, the same at every look.

    "sequence" and "exact" hold however often one looks (the second for returns within known bounds, without normal
    theory); "obrien-fleming" and "pocock" hold for `looks` planned looks, and show more. The error, 1 − `level`, is
    shared by both sides. Sequences are tightest at about `horizon` cases.
    """

    method: Annotated[str, one_of(*METHODS)] = SEQUENCE  # valid at every look, or planned looks
    level: Share = 0.95  # confidence of both sides together
    looks: Whole = 0  # how many are planned
    horizon: Count = 1000  # cases after which it is to be sharpest

    def __post_init__(self) -> None:
        if (self.looks > 0) != (self.method in DESIGNS):
            raise InputError("looks= goes with the designs obrien-fleming and pocock: name how many are planned")

    @property
    def in_words(self) -> str:
        """How bounds are made."""
        if self.method in DESIGNS:
            return f"{self.looks} planned looks, {self.method}"
        return "valid at every look" + (", exact for bounded returns" if self.method == EXACT else "")

    def boundary(self, units: float, sizes: tuple[int, ...], error: float | None = None) -> float:
        """How many standard errors a mean may be off at this look; `sizes` are the units of all looks so far."""
        error = 1 - self.level if error is None else error
        if self.method in DESIGNS:
            return planned_boundaries(self.method, self.looks, sizes, error / 2)[-1]
        return sequence_boundary(units, error, self.horizon)


@dataclass(frozen=True)
class Look:
    """One look: what was seen of which cases."""

    data: str  # the hash of the logs
    units: Count
    when: str
    value: float  # new − before
    low: float | None
    high: float | None
    stop: bool


@dataclass(frozen=True)
class Looks:
    """The plan, and all looks so far."""

    plan: WatchPlan
    policy: str  # its hash
    looks: tuple[Look, ...] = field(default_factory=tuple)
    cases: tuple[str, ...] = ()  # hashes of those of the last look, in the order in which they end


class LookBook:
    """Where looks at a study's policy are written down: in its folder or, where that cannot be, beside it."""

    def __init__(self, directory: Path) -> None:
        inside = os.access(directory, os.W_OK)
        self.path = directory / FILE if inside else directory.parent / f"{directory.resolve().name}.{FILE}"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One look at a time."""
        with locked_folder(self.path.parent):
            yield

    def read(self) -> Looks | None:
        """What is written down; None before the first look."""
        if not is_there(self.path):
            return None
        return read_record(Looks, self.path, file_format=FORMAT, version=VERSION)

    def write(self, looks: Looks) -> None:
        """Write it down."""
        write_record(self.path, looks, file_format=FORMAT, version=VERSION)

    def opened(self, policy: str, said: dict[str, Any]) -> Looks:
        """The looks so far; the plan of the first holds for all, so other settings are refused."""
        known = self.read()
        if known is None:
            return Looks(WatchPlan(**said), policy)
        if known.policy != policy:
            raise InputError(f"{place(self.path)} tells of looks at another policy: move it away to watch this one")
        other = [name for name, value in said.items() if value != getattr(known.plan, name)]
        if other:
            raise InputError(
                f"the first look was taken with another {' and '.join(other)} ({known.plan.in_words}, level "
                f"{known.plan.level:g}, horizon {known.plan.horizon}): a plan that changes after a look holds no error "
                "level, so keep to it"
            )
        return known
