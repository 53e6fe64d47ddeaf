"""How a policy is watched, declared at the first look, and every look that was taken."""

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammainc, gammaln, lambertw, ndtr, ndtri

from poela.core.arrays import FloatArray
from poela.core.draws import text_of
from poela.core.errors import InputError
from poela.core.paths import is_there, place
from poela.core.records import read_record, write_record
from poela.core.temporary import locked_folder
from poela.core.typed import Count, Share, Whole, one_of
from poela.data.trajectories import Trajectories

# Bounds that hold at every look: confidence sequences, and boundaries for looks that were planned.
# All but the mixture work on the scale of z values, and hold for the mean of n independent units. They also hold for
# its difference from a mean that was estimated before (of other units): its error is shared by all looks, which makes
# these more alike than those of independent increments, and the more alike they are the rarer one of them crosses
# (Slepian).

DESIGNS = ("obrien-fleming", "pocock")
GRID = 401  # points of the numerical integration over the last look
WIDEST = 8.0  # standard deviations that it covers
HIGHEST, NOTHING = 24.0, 1e-14  # a z value that is never reached, and the error that it stands for


def sequence_boundary(n: float, error: float, horizon: float) -> float:
    """How many standard errors a mean of n units may be off at any n, with this error (two-sided) over all of them.

    The asymptotic confidence sequence of Waudby-Smith et al. (arXiv 2103.06476), tightest at `horizon` units.

    >>> round(sequence_boundary(1000, 0.05, 1000), 2)
    3.04
    """
    spread = (-float(lambertw(-(error**2) / np.e, -1).real) - 1) / horizon  # ρ²
    scaled = n * spread
    return float(np.sqrt(2 * (scaled + 1) / scaled * np.log(np.sqrt(scaled + 1) / error)))


def spent(design: str, share: float, error: float) -> float:
    """How much of a one-sided error is spent up to this share of the planned looks (Lan & DeMets 1983).

    >>> [round(spent(design, 1.0, 0.025), 6) for design in DESIGNS]
    [0.025, 0.025]
    """
    if design == "obrien-fleming":
        return float(2 * (1 - ndtr(ndtri(1 - error / 2) / np.sqrt(share))))
    if design == "pocock":
        return float(error * np.log1p((np.e - 1) * share))
    raise InputError(f"there is no design {design!r}: choose from {', '.join(DESIGNS)}")


def planned_boundaries(design: str, looks: int, sizes: Sequence[float], error: float) -> list[float]:
    """The z value at each look so far that is crossed with no more than the error (one-sided) over all looks.

    `sizes` are the units at each look so far; how much error a look may spend goes by its number alone. The density of
    z values that have not crossed is carried from look to look (Armitage, McPherson & Rowe 1969).

    >>> [round(z, 2) for z in planned_boundaries("obrien-fleming", 2, [50, 100], 0.025)]
    [2.96, 1.97]
    """
    return list(_boundaries(design, looks, tuple(sizes), error))


@lru_cache(maxsize=1000)
def _boundaries(design: str, looks: int, sizes: tuple[float, ...], error: float) -> tuple[float, ...]:
    if len(sizes) > looks:
        raise InputError(f"all {looks} planned looks are used: nothing more can be claimed at this error level")
    boundaries: list[float] = []
    going = _Going(np.zeros(1), np.ones(1), 0.0)
    for number, size in enumerate(sizes, start=1):
        if size <= going.size:
            raise InputError("each look needs more cases than the one before: wait for new outcomes")
        earlier = spent(design, (number - 1) / looks, error) if number > 1 else 0.0
        boundaries.append(going.boundary(size, spent(design, number / looks, error) - earlier))
        going = going.beyond(size, boundaries[-1])
    return tuple(boundaries)


@dataclass(frozen=True, eq=False)
class _Going:
    """The distribution of a sum that has crossed no boundary yet, on a grid, after so many units."""

    places: FloatArray
    chances: FloatArray
    size: float

    def boundary(self, size: float, error: float) -> float:
        """The z value at the next look that is crossed with this probability."""
        if error < NOTHING:
            return HIGHEST

        def too_likely(z: float) -> float:
            crossing = ndtr((self.places - z * np.sqrt(size)) / np.sqrt(size - self.size))
            return float((self.chances * crossing).sum()) - error

        return float(brentq(too_likely, -HIGHEST, HIGHEST))

    def beyond(self, size: float, z: float) -> "_Going":
        """The same after the next look, of sums that did not cross there."""
        root, step = np.sqrt(size), np.sqrt(size - self.size)
        places = np.linspace(-WIDEST * root, min(z, WIDEST) * root, GRID)
        distances = (places[:, None] - self.places[None, :]) / step
        heights = (self.chances * np.exp(-0.5 * distances**2)).sum(axis=1) / (np.sqrt(2 * np.pi) * step)
        widths = np.full(GRID, places[1] - places[0])
        widths[[0, -1]] /= 2
        return _Going(places, heights * widths, size)


def mixture_bounds(
    weights: FloatArray, rewards: FloatArray, low: float, high: float, error: float
) -> tuple[float, float]:
    """Bounds of E[weight · reward] that hold at every n, for rewards within bounds and weights of mean 1; no normality.

    A gamma–exponential mixture over bets (Howard et al. 2021; Karampatziakis, Mineiro & Ramdas 2021).

    >>> numbers = np.arange(1, 101)
    >>> ends = mixture_bounds(np.array([0.5, 1, 2, 0.5])[numbers % 4], (numbers % 3 == 0) * 1.0, 0.0, 1.0, 0.05)
    >>> [round(end, 6) for end in ends]
    [0.097308, 0.593686]
    """
    scale = high - low
    if scale <= 0:
        return low, high
    up = _lower_end(weights * (rewards - low) / scale, error / 2)
    down = _lower_end(weights * (high - rewards) / scale, error / 2)
    return low + scale * up, high - scale * down


def _lower_end(values: FloatArray, error: float) -> float:
    """A lower bound of the mean of values ≥ 0 at every n, with this error."""
    n, total = len(values), float(values.sum())
    earlier = np.concatenate([[0.0], np.cumsum(values)[:-1]])
    guesses = (earlier + 0.5) / (np.arange(n) + 1)  # of each value, by those before it
    variance = float(np.square(values - guesses).sum())

    def wealth(mean: float) -> float:
        return _log_wealth(total - n * mean, variance) + float(np.log(error))

    highest = min(1.0, total / n)
    if wealth(0.0) <= 0:
        return 0.0
    return highest if wealth(highest) >= 0 else float(brentq(wealth, 0.0, highest, xtol=1e-13))


def _log_wealth(gained: float, variance: float, prior: float = 1.0) -> float:
    """The log of what all bets together have won: the integral over a gamma prior of exp(λ·gained − ψ(λ)·variance)."""

    def log_lower_gamma(shape: float, end: float) -> float:
        return float(np.log(gammainc(shape, end)) + gammaln(shape))

    own, all_ = variance + prior, gained + variance + prior
    if all_ <= 0:
        return -np.inf
    start = prior * np.log(prior) - log_lower_gamma(prior, prior)
    return float(gained + variance + start - own * np.log(all_) + log_lower_gamma(own, all_))


# Whether each look holds the cases of those before it: bounds over all looks are about one log that grows.

DIGITS = 8  # hexadecimal, of a case: two of 10,000 cases are taken for one with a chance of 1%, which does no harm
MOST_GONE = 0.05  # of the cases of earlier looks: a few may be withdrawn


def case_hashes(logs: Trajectories) -> tuple[str, ...]:
    """A short hash of each case: what was known and done, and its name where it has one; outcomes may be corrected.

    >>> logs = Trajectories([[0.0], [1.0]], [0, 1], [0.0, 1.0], [0, 1, 2])
    >>> case_hashes(logs)[1] == case_hashes(logs.take([1]))[0]
    True
    """
    ids = logs.episode_ids
    assert ids is not None
    named = not np.issubdtype(ids.dtype, np.integer)  # numbers may be those of rows, which change from file to file
    contexts, actions = np.ascontiguousarray(logs.contexts), np.ascontiguousarray(logs.actions)
    found = []
    for number, (start, end) in enumerate(zip(logs.offsets[:-1], logs.offsets[1:], strict=True)):
        digest = hashlib.blake2b(text_of(ids[number]).encode() if named else b"", digest_size=DIGITS // 2)
        digest.update(contexts[start:end].data)
        digest.update(actions[start:end].data)
        found.append(digest.hexdigest())
    return tuple(found)


@dataclass(frozen=True)
class Grown:
    """What became of the cases of earlier looks: how many are gone, and how many came in before others of these."""

    gone: int
    late: int

    @property
    def notes(self) -> list[str]:
        """What is said of that."""
        notes = []
        if self.gone:
            notes.append(f"{self.gone:,} cases of earlier looks are gone from these logs, or were changed")
        if self.late:
            notes.append(
                f"the outcomes of {self.late:,} cases came late: these cases ended before others of an earlier look, "
                "and count from now on; where bad outcomes come later than good ones, looks are too favourable until "
                "all are in"
            )
        return notes


def grown(earlier: Sequence[str], now: Sequence[str]) -> Grown:
    """Compare the cases of earlier looks with those of this one, in the order in which they end.

    >>> grown(["a", "b"], ["a", "c", "b", "d"])
    Grown(gone=0, late=1)
    """
    left, late, new = Counter(earlier), 0, 0
    for one in now:
        if left[one] > 0:
            left[one] -= 1
            late, new = late + new, 0
        else:
            new += 1
    gone = sum(left.values())
    if gone > MOST_GONE * len(earlier):
        raise InputError(
            f"{gone:,} of the {len(earlier):,} cases of earlier looks are not in these logs: bounds hold over all "
            "looks only if each has all cases so far, so give the whole log since the policy began"
        )
    return Grown(gone, late)


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
