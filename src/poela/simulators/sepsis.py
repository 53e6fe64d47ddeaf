"""Treatment of sepsis in intensive care, every four hours: the process of `icu-sepsis`, seen through measurements.

The patient's state is hidden. What is seen is its cluster's centroid plus noise, half of whose variance belongs to the
patient and stays, so the contexts are not Markov. The clinicians' policy is hidden, too: they act on the state that the
measurements suggest.
"""

import importlib.util
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray, readonly
from poela.core.errors import InputError, PoelaError
from poela.core.policy import Memoryless
from poela.data.cohorts import DOSES, FEATURES, VARIABLES
from poela.simulators.episodes import Noise, RowDraws

# The decision process that the public package `icu-sepsis` (MIT licence) was estimated with from MIMIC-III.
# Only its data files are read: importing the package would import the abandoned `gym`.

LIVE, ACTIONS = 713, 25  # states of living patients; actions are 5 · fluid + vasopressor
DEATH, SURVIVAL = 713, 714  # columns of the package's transitions
INSTALL = "pip install --no-deps icu-sepsis"


@dataclass(frozen=True, eq=False)
class SepsisModel:
    """Transitions, by their distinct rows: all actions without support in a state share one."""

    outcomes: FloatArray  # [R, LIVE + 1]: chances of the living states and of survival; what is lacking is death
    row_of: IntArray  # [LIVE, ACTIONS]: the row of a state and an action
    admissible: BoolArray  # [LIVE, ACTIONS]: actions with enough support in the data
    initial: FloatArray  # [LIVE]
    expert: FloatArray  # [LIVE, ACTIONS]: the clinicians' policy
    centroids: FloatArray  # [LIVE, features]: of the 44 features, standardised
    sofa: FloatArray  # [LIVE]

    @cached_property
    def expert_values(self) -> FloatArray:
        """[LIVE]: chances to survive under the clinicians' policy."""
        return self.survival(self.expert)

    @cached_property
    def expert_q(self) -> FloatArray:
        """[LIVE, ACTIONS]: chances to survive when the clinicians take over after one action."""
        return self.q_values(self.expert_values)

    def q_values(self, values: FloatArray) -> FloatArray:
        """[LIVE, ACTIONS]: chances to survive when those after one action are given, [LIVE]."""
        return np.asarray((self.outcomes @ np.append(values, 1.0))[self.row_of])

    def under(self, table: FloatArray) -> FloatArray:
        """[LIVE, LIVE + 1]: chances of the next state under a policy table [LIVE, ACTIONS]."""
        weights = np.zeros((LIVE, len(self.outcomes)))
        np.add.at(weights, (np.arange(LIVE)[:, None], self.row_of), table)
        return np.asarray(weights @ self.outcomes)

    def survival(self, table: FloatArray) -> FloatArray:
        """[LIVE]: chances to survive under a policy table, however long it takes."""
        following = self.under(table)
        return np.asarray(np.linalg.solve(np.eye(LIVE) - following[:, :LIVE], following[:, LIVE]))

    def visits(self, table: FloatArray, steps: int) -> FloatArray:
        """[LIVE]: expected visits within so many steps under a policy table."""
        following, now, total = self.under(table)[:, :LIVE], self.initial, np.zeros(LIVE)
        for _ in range(steps):
            total, now = total + now, now @ following
        return total


@lru_cache(maxsize=8)
def sepsis_model(variant: str, extra_death: float) -> SepsisModel:
    """The estimated process, or a variant of what actions without support do in it.

    As published ("harmless") they act as the mean of the admissible ones; "harmful", as the worst of them (the one
    after which the clinicians save the fewest). Either way, a share `extra_death` of those who get one dies at once.
    """
    published = _published()
    if variant == "harmless" and extra_death == 0:
        return published
    outcomes = published.outcomes.copy()
    shared = np.where(published.admissible, -1, published.row_of).max(axis=1)  # −1 where all actions have support
    which = np.flatnonzero(shared >= 0)
    if variant == "harmful":
        worst = np.where(published.admissible, published.expert_q, np.inf).argmin(axis=1)
        outcomes[shared[which]] = published.outcomes[published.row_of[which, worst[which]]]
    outcomes[shared[which]] *= 1 - extra_death
    return SepsisModel(
        outcomes=readonly(outcomes, np.float64),
        row_of=published.row_of,
        admissible=published.admissible,
        initial=published.initial,
        expert=published.expert,
        centroids=published.centroids,
        sofa=published.sofa,
    )


@lru_cache(maxsize=1)
def _published() -> SepsisModel:
    arrays, admissible = _read(_folder())
    transitions = arrays["tx_mat"][:LIVE]
    rows: list[FloatArray] = []
    row_of = np.empty((LIVE, ACTIONS), np.int64)
    for state in range(LIVE):
        for action in np.flatnonzero(admissible[state]):
            row_of[state, action] = len(rows)
            rows.append(transitions[state, action])
        if not admissible[state].all():
            row_of[state, ~admissible[state]] = len(rows)
            rows.append(transitions[state, np.argmin(admissible[state])])
    columns = [*range(LIVE), SURVIVAL]
    used = [column for column, name in enumerate(VARIABLES) if name not in DOSES]
    return SepsisModel(
        outcomes=readonly(np.stack(rows)[:, columns], np.float64),
        row_of=readonly(row_of, np.int64),
        admissible=readonly(admissible, np.bool_),
        initial=readonly(arrays["d_0"][:LIVE], np.float64),
        expert=readonly(arrays["expert_policy"][:LIVE], np.float64),
        centroids=readonly(arrays["state_cluster_centers"][:LIVE, used], np.float64),
        sofa=readonly(arrays["sofa_scores"][:LIVE], np.float64),
    )


def _folder() -> Path:
    """Where the package keeps its files."""
    package = importlib.util.find_spec("icu_sepsis")
    if package is None or not package.submodule_search_locations:
        raise PoelaError(f"the sepsis simulator needs the data files of the package icu-sepsis: {INSTALL}")
    return Path(package.submodule_search_locations[0]) / "envs" / "assets"


def _read(folder: Path) -> tuple[dict[str, NDArray[Any]], BoolArray]:
    """The package's arrays, and its list of admissible actions: a line of counts, then a line for each state."""
    admissible = np.zeros((LIVE, ACTIONS), np.bool_)
    try:
        with np.load(folder / "dynamics.npz", allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files if name != "r_mat"}
        lines = (folder / "admissible_actions.txt").read_text(encoding="utf-8").splitlines()[1 : LIVE + 1]
        for state, line in enumerate(lines):
            admissible[state, [int(action) for action in line.split()]] = True
        shapes = [arrays[name].shape for name in ("tx_mat", "expert_policy", "state_cluster_centers")]
        complete = admissible.any(axis=1).all() and {"d_0", "sofa_scores"} <= set(arrays)
    except (OSError, ValueError, KeyError, IndexError):
        shapes, complete = [], False
    n_states = LIVE + 3
    if not complete or shapes != [(n_states, ACTIONS, n_states), (n_states, ACTIONS), (n_states, len(VARIABLES))]:
        raise PoelaError(f"the installed icu-sepsis has other data files than version 2.0.1: {INSTALL}==2.0.1")
    return arrays, admissible


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
