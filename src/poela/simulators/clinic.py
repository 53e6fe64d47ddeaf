"""A clinic: up to eight visits, sixteen treatments, a disease that is hidden, and episodes that end early.

Patients have one of four diseases, which look alike: what is seen are symptom scores with noise. Those who do well are
soon in remission and leave; those who do badly stay for long, and some drop out. So short episodes are lucky ones, and
a policy that differs from the logging policy keeps most of its weight on them: a hard case for importance sampling.
All numbers are made up.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.policy import Memoryless
from poela.simulators.episodes import Noise

VISITS = 8
DRUGS, DOSES = ("A", "B", "C", "D"), ("low", "medium", "high", "maximal")
REMISSION, DROPOUT = 100.0, -20.0  # what they pay
SHARES = np.array([0.35, 0.3, 0.2, 0.15])  # of the diseases
# How strongly each disease (row) shows in each symptom, and how well each drug works against it.
SHOWS = np.array(
    [
        [1.0, 0.6, 0.2, 0.1, 0.4],
        [0.5, 1.0, 0.3, 0.2, 0.2],
        [0.3, 0.2, 1.0, 0.6, 0.3],
        [0.2, 0.4, 0.5, 1.0, 0.1],
    ]
)
WORKS = np.array(
    [
        [1.2, 0.3, -0.1, 0.2],
        [0.2, 1.1, 0.3, -0.3],
        [-0.3, 0.2, 1.2, 0.4],
        [0.3, -0.2, 0.2, 1.3],
    ]
)
STRENGTHS = np.array([0.4, 0.8, 1.1, 1.3])  # of the doses
BURDENS = np.array([0.0, 0.3, 0.8, 1.6])  # of the doses: side effects
# What clinicians make of the symptoms: how each of them speaks for each drug.
HABITS = np.array(
    [
        [0.5, 0.3, 0.0, 0.1],
        [0.2, 0.5, 0.1, 0.1],
        [0.1, 0.1, 0.4, 0.3],
        [0.0, 0.1, 0.3, 0.5],
        [0.2, 0.1, 0.1, 0.0],
    ]
)
DOSE_HABITS = np.array([0.6, 0.5, 0.0, -0.6])  # higher doses are rarer, the more so the milder the symptoms are


@dataclass(frozen=True, eq=False)
class ClinicState:
    """n patients: disease, severity and side effects [n], how they always and now look [n, symptoms]; the visit."""

    disease: IntArray
    appearance: FloatArray
    severity: FloatArray
    burden: FloatArray
    symptoms: FloatArray
    visit: int


@dataclass(frozen=True)
class Clinic:
    """Sixteen treatments (four drugs in four doses) at up to eight visits.

    Remission pays 100 and ends the episode; dropout costs 20 and ends it too; each visit costs its side effects. With
    `effect=0` treatments do nothing, so that all policies are worth the same.

    >>> from poela.simulators.episodes import run
    >>> run(Clinic(), ClinicBehavior(), episodes=10, seed=0).lengths.max() <= 8
    np.True_
    """

    effect: float = 1.0

    feature_names: ClassVar[tuple[str, ...]] = ("pain", "fatigue", "fever", "rash", "sleep", "side effects", "visit")
    action_names: ClassVar[tuple[str, ...]] = tuple(f"{drug} {dose}" for drug in DRUGS for dose in DOSES)
    horizon: ClassVar[int] = VISITS

    def __post_init__(self) -> None:
        if not 0 <= self.effect <= 10:
            raise InputError(f"effect must lie in [0, 10], not {self.effect}")

    def reset(self, n: int, noise: Noise) -> ClinicState:
        """n new patients."""
        disease = np.searchsorted(np.cumsum(SHARES)[:-1], noise.uniform(1)[:, 0], side="right")
        drawn = noise.normal(1 + SHOWS.shape[1])
        severity = 3.6 * np.exp(0.25 * drawn[:, 0])
        appearance = 0.6 * drawn[:, 1:]
        symptoms = _symptoms(disease, severity, appearance, noise)
        return ClinicState(disease, appearance, severity, np.zeros(n), symptoms, 0)

    def contexts(self, state: ClinicState) -> Float32Array:
        """What is observed, [n, 7]."""
        visit = np.full(len(state.severity), float(state.visit))
        return np.column_stack([state.symptoms, state.burden, visit]).astype(np.float32)

    def step(self, state: ClinicState, actions: IntArray, noise: Noise) -> tuple[ClinicState, FloatArray, BoolArray]:
        """From one visit to the next."""
        drug, dose = np.divmod(np.asarray(actions), len(DOSES))
        luck, chance = noise.normal(1)[:, 0], noise.uniform(2)
        works = self.effect * WORKS[state.disease, drug] * STRENGTHS[dose]
        burden = 0.5 * state.burden + self.effect * BURDENS[dose]
        severity = np.maximum(state.severity + 0.35 - works + 0.5 * luck, 0.0)
        healed = chance[:, 0] < _logistic(1.2 - 1.3 * severity)
        lost = ~healed & (chance[:, 1] < _logistic(-6.0 + 0.3 * severity + 0.5 * burden + 0.4 * state.visit))
        symptoms = _symptoms(state.disease, severity, state.appearance, noise)
        after = ClinicState(state.disease, state.appearance, severity, burden, symptoms, state.visit + 1)
        rewards = REMISSION * healed + DROPOUT * lost - self.effect * BURDENS[dose]
        return after, rewards, healed | lost | (after.visit == VISITS)


@dataclass(frozen=True)
class ClinicBehavior(Memoryless):
    """The logging policy: a softmax of the symptoms, in which each of them speaks for some drugs.

    >>> ClinicBehavior().probabilities(np.zeros((1, 7))).shape
    (1, 16)
    """

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """[N, 16]."""
        symptoms = np.asarray(contexts, np.float64)[:, : len(HABITS)]
        for_drug = np.einsum("ij,jk->ik", symptoms, HABITS)
        overall = symptoms.mean(axis=1, keepdims=True)
        for_dose = DOSE_HABITS + 0.2 * (overall - 1.5) * np.arange(len(DOSES))
        scores = (for_drug[:, :, None] + for_dose[:, None, :]).reshape(len(symptoms), -1)
        scores -= scores.max(axis=1, keepdims=True)
        chances = np.exp(scores)
        return np.asarray(chances / chances.sum(axis=1, keepdims=True))


def _symptoms(disease: IntArray, severity: FloatArray, appearance: FloatArray, noise: Noise) -> FloatArray:
    """Scores from 0 on, [n, symptoms]: the disease's, by its severity, with what is the patient's and the day's."""
    shown = severity[:, None] * SHOWS[disease] + appearance + 0.6 * noise.normal(SHOWS.shape[1])
    return np.asarray(np.maximum(shown, 0.0))


def _logistic(scores: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-scores)))
