"""Treatment of sepsis in intensive care, every four hours: the process of `icu-sepsis`, seen through measurements.

The patient's state is hidden. What is seen is its cluster's centroid plus noise, half of whose variance belongs to the
patient and stays, so the contexts are not Markov. The clinicians' policy is hidden, too: they act on the state that the
measurements suggest.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.errors import InputError
from poela.core.policy import Memoryless
from poela.data.cohorts import FEATURES
from poela.simulators.draws import RowDraws
from poela.simulators.episodes import Noise
from poela.simulators.sepsis_tables import LIVE, SepsisModel, sepsis_model

STEPS = 20
SAVED = 100.0  # paid for survival
LASTING = 0.5  # the share of the noise variance that belongs to the patient
FROZEN = [FEATURES.index(name) for name in ("gender", "re_admission", "age", "Weight_kg")]  # measured once
VARYING = [column for column in range(len(FEATURES)) if column not in FROZEN]
VARIANTS = ("harmless", "harmful")
ROWS_AT_ONCE = 8192


@dataclass(frozen=True, eq=False)
class SepsisState:
    """n patients: hidden states [n], lasting deviations and current measurements [n, features], steps so far."""

    states: IntArray
    deviations: FloatArray
    measured: FloatArray
    steps: int


@dataclass(frozen=True)
class Sepsis:
    """Up to twenty decisions on fluids and vasopressors; the return is 100 for survival and 0 for death.

    A patient who still lives after twenty steps is left to the clinicians: survival is drawn with their chances. In the
    harmful variant an action without support in a state acts as the worst supported one, and a share `extra_death`
    (0.02 unless told otherwise; 0 in the harmless variant) of those who get it dies at once.

    >>> from poela.simulators.episodes import run
    >>> run(Sepsis("harmful"), SepsisBehavior(), episodes=10, seed=0)
    Trajectories(10 episodes, 88 steps, 44 features, 25 actions, full propensities)
    """

    variant: str = "harmless"
    extra_death: float | None = None

    feature_names: ClassVar[tuple[str, ...]] = FEATURES
    action_names: ClassVar[tuple[str, ...]] = tuple(f"fluid {i} vasopressor {j}" for i in range(5) for j in range(5))
    horizon: ClassVar[int] = STEPS

    def __post_init__(self) -> None:
        problems = []
        if self.variant not in VARIANTS:
            problems.append(f"variant {self.variant!r} is unknown: choose one of {', '.join(VARIANTS)}")
        if self.extra_death is not None and not 0 <= self.extra_death <= 1:
            problems.append(f"extra_death must lie in [0, 1], not {self.extra_death}")
        if problems:
            raise InputError(problems)

    @property
    def model(self) -> SepsisModel:
        """The decision process behind the measurements."""
        default = 0.02 if self.variant == "harmful" else 0.0
        return sepsis_model(self.variant, default if self.extra_death is None else self.extra_death)

    def reset(self, n: int, noise: Noise) -> SepsisState:
        """n newly admitted patients."""
        model = self.model
        first = RowDraws(model.initial[None])
        states = first(np.zeros(n, np.int64), noise.uniform(1)[:, 0])
        root = _noise_root()
        deviations = np.sqrt(LASTING) * _times(noise.normal(len(FEATURES)), root)
        fleeting = np.sqrt(1 - LASTING) * _times(noise.normal(len(FEATURES)), root)
        return SepsisState(states, deviations, model.centroids[states] + deviations + fleeting, 0)

    def contexts(self, state: SepsisState) -> Float32Array:
        """The measurements, [n, 44], standardised as the centroids are."""
        return state.measured.astype(np.float32)

    def step(self, state: SepsisState, actions: IntArray, noise: Noise) -> tuple[SepsisState, FloatArray, BoolArray]:
        """Four hours."""
        model = self.model
        chance = noise.uniform(2)
        following = _draws(self)(model.row_of[state.states, actions], chance[:, 0])
        lives = following < LIVE
        states, steps = np.where(lives, following, state.states), state.steps + 1
        saved = following == LIVE
        if steps == STEPS:
            saved = saved | (lives & (chance[:, 1] < model.expert_values[states]))
        fleeting = np.sqrt(1 - LASTING) * _times(noise.normal(len(FEATURES)), _noise_root())
        measured = model.centroids[states] + state.deviations + fleeting
        measured[:, FROZEN] = state.measured[:, FROZEN]
        after = SepsisState(states, state.deviations, measured, steps)
        return after, SAVED * saved, ~lives | (steps == STEPS)


class SepsisBehavior(Memoryless):
    """The clinicians' policy at each state, mixed by how likely each state is given the measurements.

    >>> SepsisBehavior().probabilities(np.zeros((1, 44))).shape
    (1, 25)
    """

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """[N, 25]."""
        seen = np.asarray(contexts, np.float64)
        parts = [state_chances(seen[i : i + ROWS_AT_ONCE]) for i in range(0, len(seen), ROWS_AT_ONCE)]
        expert = sepsis_model("harmless", 0.0).expert
        return np.concatenate([part @ expert for part in parts]) if parts else np.empty((0, expert.shape[1]))


def state_chances(contexts: ArrayLike) -> FloatArray:
    """How likely each hidden state is given one measurement of all that varies, [N, states].

    >>> state_chances(np.zeros((1, 44))).sum().round(6)
    np.float64(1.0)
    """
    means, half_norms, whiten, log_prior = _likelihood()
    whitened = np.asarray(contexts, np.float64)[:, VARYING] @ whiten
    scores = whitened @ means.T
    scores += log_prior - half_norms
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores


def sofa_scores(contexts: ArrayLike) -> FloatArray:
    """The SOFA scores [N] that the contexts show, undoing their standardisation.

    >>> sofa_scores(np.zeros((1, 44))).round()
    array([6.])
    """
    model, column = sepsis_model("harmless", 0.0), FEATURES.index("SOFA")
    slope, level = np.polyfit(model.centroids[:, column], model.sofa, 1)
    return np.asarray(slope * np.asarray(contexts, np.float64)[:, column] + level)


@lru_cache(maxsize=8)
def _draws(simulator: Sepsis) -> RowDraws:
    return RowDraws(simulator.model.outcomes)


@lru_cache(maxsize=1)
def _noise_covariance() -> FloatArray:
    """Completes the variance of every column to 1, with the correlations that there are between states."""
    weights, centroids = _weights(), sepsis_model("harmless", 0.0).centroids
    between = np.cov(centroids.T, aweights=weights, ddof=0)
    spread = np.sqrt(np.diag(between))
    within = np.sqrt(1 - spread**2)
    return np.asarray(between * np.outer(within / spread, within / spread))


@lru_cache(maxsize=1)
def _noise_root() -> FloatArray:
    return np.ascontiguousarray(np.linalg.cholesky(_noise_covariance()))


@lru_cache(maxsize=1)
def _weights() -> FloatArray:
    """How often the clinicians' patients are in each state; sums to 1."""
    model = sepsis_model("harmless", 0.0)
    visits = model.visits(model.expert, STEPS)
    return np.asarray(visits / visits.sum())


@lru_cache(maxsize=1)
def _likelihood() -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Whitened means of the states, half their squared norms, the whitening and the logarithm of the prior."""
    root = np.linalg.cholesky(_noise_covariance()[np.ix_(VARYING, VARYING)])
    whiten = np.linalg.inv(root).T
    means = sepsis_model("harmless", 0.0).centroids[:, VARYING] @ whiten
    with np.errstate(divide="ignore"):
        log_prior = np.log(_weights())
    return means, 0.5 * (means**2).sum(axis=1), whiten, log_prior


def _times(normal: FloatArray, root: FloatArray) -> FloatArray:
    # Not a matrix product of BLAS: that may round a row differently in another batch.
    return np.asarray(np.einsum("ij,kj->ik", normal, root))
