"""The scenarios by name: KIND:PROPENSITIES, or KIND:PROPENSITIES:dN with N features, such as `half:own:d20`."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from poela.core.arrays import BoolArray, FloatArray
from poela.core.errors import InputError
from poela.data.trajectories import Trajectories

from .processes import USUAL, OneStep, Process, Steps, normals, usual_practice

MONTHS, WARDS = 24, 6
PROPENSITIES = ("all", "own", "none")  # of every action, of the one that was taken, hidden
# What the claims on this page rest on; chosen before anything was measured.
MUST = (
    *(f"{kind}:{known}" for kind in ("half", "corner", "pocket") for known in PROPENSITIES),
    *("ward:none", "stopped:own", "steps4:all"),
)

Place = Callable[[FloatArray], BoolArray]


@dataclass(frozen=True)
class Scenario:
    """A process, and which propensities its logs tell."""

    name: str
    process: Process
    propensities: str

    def logs(self, n: int, seed: int) -> Trajectories:
        """Logged episodes."""
        full = self.process.simulate(n, seed)
        if self.propensities == "all":
            return full
        return full.with_propensities(None if self.propensities == "none" else full.logged_propensities)


def scenario(name: str) -> Scenario:
    """The scenario of a name.

    >>> scenario("ward:none").logs(50, seed=0)
    Trajectories(50 episodes, 50 steps, 10 features, 3 actions, no propensities)
    >>> scenario("half:own:d20").logs(50, seed=0)
    Trajectories(50 episodes, 50 steps, 20 features, 3 actions, logged propensities)
    """
    kind, _, rest = name.partition(":")
    known, _, width = rest.partition(":")
    features = int(width[1:]) if width[:1] == "d" and width[1:].isdecimal() else 0 if width else 4
    if kind not in KINDS or known not in PROPENSITIES or features < 4:
        raise InputError(
            f"there is no scenario {name!r}: say KIND:PROPENSITIES or KIND:PROPENSITIES:dN with N features, at least "
            f"4, of the kinds {', '.join(KINDS)} and the propensities {', '.join(PROPENSITIES)}"
        )
    if features != 4 and kind.startswith("steps"):
        raise InputError(f"there is no scenario {name!r}: those of several steps have 4 features")
    return Scenario(name, KINDS[kind](features), known)


def half(x: FloatArray) -> BoolArray:
    """A half-space."""
    return np.asarray(x[:, 0] > 1)


def corner(x: FloatArray) -> BoolArray:
    """A corner."""
    return np.asarray((x[:, 0] > 0.3) & (x[:, 1] > 0.3))


def edge(x: FloatArray) -> BoolArray:
    """The few with the highest value of one feature, one case in 44."""
    return np.asarray(x[:, 0] > 2.0)


def pocket(x: FloatArray) -> BoolArray:
    """A pocket, with others on all sides of it."""
    return np.asarray((np.abs(x[:, 0] - 0.8) < 0.4) & (np.abs(x[:, 1]) < 1))


def smooth_practice(x: FloatArray) -> FloatArray:
    """[n, A]: the third action for 0.6 of cases at x₁ = −2, and for 0.05 of them at x₁ = 2.

    >>> smooth_practice(np.array([[-2.0], [2.0]])).round(3)
    array([[0.2  , 0.2  , 0.6  ],
           [0.475, 0.475, 0.05 ]])
    """
    low, high = np.log(0.05 / 0.95), np.log(0.6 / 0.4)
    third = 1 / (1 + np.exp((high - low) / 4 * x[:, 0] - (high + low) / 2))
    return np.stack([(1 - third) / 2, (1 - third) / 2, third], axis=1)


def _plain(hole: Place, features: int) -> OneStep:
    """Standard normal features, with a hole somewhere."""
    names = tuple(f"x{number + 1}" for number in range(features))
    return OneStep(names, normals, features, hole, lambda x: usual_practice(hole(x)))


def _no_hole(features: int) -> OneStep:
    """Rewards as with the half-space, but everybody gets the third action as often."""
    return replace(_plain(half, features), practice=lambda x: np.tile(USUAL, (len(x), 1)), hole=False)


def _smooth(features: int) -> OneStep:
    """The third action is better for everybody, and rare for some: a rule can only cost."""
    return replace(_plain(half, features), practice=smooth_practice, hole=False, harm=1.0)


def _with_column(names: tuple[str, ...], made: Callable[[FloatArray], FloatArray], hole: Place, n: int) -> OneStep:
    """Standard normal features, and columns made of one more uniform number [n], on which the hole depends."""

    def contexts(uniform: FloatArray) -> FloatArray:
        return np.column_stack([normals(uniform[:, :-1]), made(uniform[:, -1])])

    plain = _plain(hole, n)
    return replace(plain, names=(*plain.names, *names), contexts=contexts, columns=n + 1)


def _protocol(hole: Place, features: int) -> OneStep:
    return _with_column(("month",), lambda uniform: np.floor(MONTHS * uniform), hole, features)


def _ward(features: int) -> OneStep:
    """Ward 3 of 6 has no device for the third action."""
    names = tuple(f"ward {number + 1}" for number in range(WARDS))
    third_ward = features + 2
    return _with_column(
        names,
        lambda uniform: np.eye(WARDS)[np.floor(WARDS * uniform).astype(np.int64)],
        lambda x: np.asarray(x[:, third_ward] == 1),
        features,
    )


def _stopped(features: int) -> OneStep:
    """The last fifth of the time does without the third action."""
    return _with_column(
        ("day",), lambda uniform: uniform.astype(np.float32), lambda x: np.asarray(x[:, -1] > 0.8), features
    )


def _steps(steps: int, hole: bool, features: int) -> Steps:
    return Steps(steps, hole)


KINDS: dict[str, Callable[[int], Process]] = {
    "half": partial(_plain, half),
    "corner": partial(_plain, corner),
    "pocket": partial(_plain, pocket),
    "edge": partial(_plain, edge),
    "protocol-first": partial(_protocol, lambda x: np.asarray(x[:, -1] < MONTHS / 3)),
    "protocol-last": partial(_protocol, lambda x: np.asarray(x[:, -1] >= 2 * MONTHS / 3)),
    "ward": _ward,
    "stopped": _stopped,
    "steps4": partial(_steps, 4, True),
    "steps8": partial(_steps, 8, True),
    "nohole": _no_hole,
    "smooth": _smooth,
    "steps4-nohole": partial(_steps, 4, False),
}
