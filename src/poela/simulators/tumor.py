"""Growth of low-grade glioma under treatment, month by month: the model of Ribba et al. (2012), as the paper uses it.

A drug of concentration C acts on proliferative tissue P and quiescent tissue Q; hit quiescent tissue becomes damaged
(D), which dies or recovers. Each month the doctor treats or does not.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.policy import Memoryless
from poela.simulators.episodes import Noise

MONTHS = 30
SPREAD = 0.03  # of the logarithm of each parameter, between patients

# Our own measurement (20,000 episodes each, PCV): uniform random treatment, and the best common schedule found
# (wait a month, then treat for five) as far above it. The paper's normalised values have the same two ends.
VALUE_OF_UNIFORM = -19.75
RANGE_OF_VALUES = 22.70


@dataclass(frozen=True, eq=False)
class Patients:
    """The parameters of n patients, each an array [n]."""

    proliferative: FloatArray  # P at the start
    quiescent: FloatArray  # Q at the start
    growth: FloatArray  # λ_P
    resting: FloatArray  # k_PQ: proliferative to quiescent
    recovery: FloatArray  # k_QpP: damaged to proliferative
    death: FloatArray  # δ_Qp: of damaged tissue
    potency: FloatArray  # γ: damage by the drug
    elimination: FloatArray  # KDE: of the drug
    capacity: FloatArray  # K: the largest size

    @classmethod
    def drawn(cls, means: ArrayLike, n: int, noise: Noise) -> "Patients":
        """Means in the order of the fields, times log-normal differences between patients."""
        drawn = np.asarray(means, np.float64) * np.exp(SPREAD * noise.normal(9))
        return cls(*np.ascontiguousarray(drawn.T))


# Mean parameters in the order of `Patients`; estimates of Ribba et al. (2012), capacity 100.
MEANS = {
    "PCV": (7.13, 41.2, 0.121, 0.0295, 0.0031, 0.00867, 0.729, 0.24, 100.0),
    "TMZ": (0.924, 42.3, 0.114, 0.0226, 0.0045, 0.0214, 0.842, 0.32, 100.0),
    "RT": (3.89, 40.3, 0.138, 0.0249, 0.0, 0.0125, 1.71, 0.317, 100.0),
}


@dataclass(frozen=True, eq=False)
class TumorState:
    """n patients and where they are now, each an array [n]; the month is common to all."""

    patients: Patients
    concentration: FloatArray
    proliferative: FloatArray
    quiescent: FloatArray
    damaged: FloatArray
    month: int

    @classmethod
    def start(cls, patients: Patients) -> "TumorState":
        """Untreated, with the patients' own amounts of tissue."""
        none = np.zeros_like(patients.proliferative)
        return cls(patients, none, patients.proliferative, patients.quiescent, none, 0)

    @property
    def size(self) -> FloatArray:
        """All tissue together."""
        return self.proliferative + self.quiescent + self.damaged

    def after_month(self, treated: IntArray, *, lingers: bool) -> "TumorState":
        """One month on; each amount of tissue is updated with the new values of those before it.

        Under steady radiotherapy the monthly steps overshoot: tissue may fall a little below zero (by up to 0.03).
        """
        who = self.patients
        dose = np.asarray(treated, np.float64)
        concentration = (self.concentration + dose) * (1 - who.elimination) if lingers else dose
        kill = who.potency * concentration * who.elimination
        proliferative = self.proliferative + (
            who.growth * self.proliferative * (1 - self.size / who.capacity)
            + who.recovery * self.damaged
            - who.resting * self.proliferative
            - kill * self.proliferative
        )
        quiescent = self.quiescent + who.resting * proliferative - kill * self.quiescent
        damaged = self.damaged + kill * quiescent - (who.recovery + who.death) * self.damaged
        return replace(
            self,
            concentration=concentration,
            proliferative=proliferative,
            quiescent=quiescent,
            damaged=damaged,
            month=self.month + 1,
        )


@dataclass(frozen=True)
class TumorGrowth:
    """Thirty months of treating or not; the return is the shrinkage of the tumor less the drug carried each month.

    The plain variant shows concentration, size and month, and pays the shrinkage at the end. The Markov variant shows
    all tissues and pays the shrinkage month by month: the returns are the same.

    >>> from poela.simulators.episodes import run
    >>> plain = run(TumorGrowth(), TumorBehavior(), episodes=100, seed=0)
    >>> markov = run(TumorGrowth(markov=True), TumorBehavior(), episodes=100, seed=0)
    >>> bool(np.allclose(plain.returns(), markov.returns()))
    True
    """

    markov: bool = False  # whether contexts tell the whole state
    drug: str = "PCV"  # the set of parameters

    action_names: ClassVar[tuple[str, ...]] = ("wait", "treat")
    horizon: ClassVar[int] = MONTHS

    def __post_init__(self) -> None:
        if self.drug not in MEANS:
            raise InputError(f"drug {self.drug!r} is unknown: choose one of {', '.join(MEANS)}")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """What a context shows."""
        tissues = ("proliferative", "quiescent", "damaged") if self.markov else ("size",)
        return ("concentration", *tissues, "month")

    def reset(self, n: int, noise: Noise) -> TumorState:
        """n new patients."""
        return TumorState.start(Patients.drawn(MEANS[self.drug], n, noise))

    def contexts(self, state: TumorState) -> Float32Array:
        """What is observed, [n, d]."""
        tissues = (state.proliferative, state.quiescent, state.damaged) if self.markov else (state.size,)
        month = np.full_like(state.concentration, state.month)
        return np.stack([state.concentration, *tissues, month], axis=1).astype(np.float32)

    def step(
        self, state: TumorState, actions: IntArray, noise: Noise | None = None
    ) -> tuple[TumorState, FloatArray, BoolArray]:
        """One month; after the draw of the patients nothing is left to chance."""
        # Temozolomide is modelled as gone within the month, so its concentration is the current dose.
        after = state.after_month(actions, lingers=self.drug != "TMZ")
        last = after.month == MONTHS
        if self.markov:
            shrinkage = state.size - after.size
        else:
            start = state.patients.proliferative + state.patients.quiescent
            shrinkage = start - after.size if last else np.zeros_like(after.size)
        return after, shrinkage - after.concentration, np.full(len(actions), last)


@dataclass(frozen=True)
class Schedule(Memoryless):
    """Treats with a probability that depends on the month (the last feature) alone.

    >>> Schedule.first_months(5).probabilities([[0.0, 48.0, 4], [0.7, 40.0, 5]])
    array([[0., 1.],
           [1., 0.]])
    """

    chances: tuple[float, ...]  # of treatment, for each month

    @classmethod
    def uniform(cls) -> "Schedule":
        """Treats or waits with equal probability."""
        return cls((0.5,) * MONTHS)

    @classmethod
    def first_months(cls, months: int, skip: int = 0) -> "Schedule":
        """Waits for `skip` months, treats for `months`, and no more."""
        return cls(tuple(float(skip <= month < skip + months) for month in range(MONTHS)))

    @classmethod
    def never(cls) -> "Schedule":
        """Never treats."""
        return cls.first_months(0)

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """[N, 2]."""
        month = np.rint(np.asarray(contexts, np.float64)[:, -1]).astype(np.int64)
        treat = np.take(np.asarray(self.chances, np.float64), month, mode="clip")
        return np.stack([1 - treat, treat], axis=1)


@dataclass(frozen=True)
class TumorBehavior(Memoryless):
    """The logging policy of the paper: with probability 0.7 treat in the first nine months only, else at random.

    The paper's own logs always treat in month 0, yet give this action the probability 0.85. With `as_published=True`
    the policy acts as in those logs, and `simulate("tumor", as_published=True)` writes their propensities too.

    >>> TumorBehavior().probabilities([[0.0, 48.0, 0], [0.7, 40.0, 9]])
    array([[0.15, 0.85],
           [0.85, 0.15]])
    """

    as_published: bool = False  # month 0 always treats, as in the published logs

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """[N, 2]."""
        first = 1.0 if self.as_published else 0.85
        return Schedule((first, *(0.85,) * 8, *(0.15,) * (MONTHS - 9))).probabilities(contexts)


def normalised(value: float) -> float:
    """A value of the PCV task where uniform random treatment is 0 and the best common schedule found is 100.

    >>> normalised(-19.75), round(normalised(2.95), 6)
    (0.0, 100.0)
    """
    return 100 * (value - VALUE_OF_UNIFORM) / RANGE_OF_VALUES
