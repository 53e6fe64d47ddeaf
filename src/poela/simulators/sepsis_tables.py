"""The decision process that the public package `icu-sepsis` (MIT licence) was estimated with from MIMIC-III.

Only its data files are read: importing the package would import the abandoned `gym`.
"""

import importlib.util
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poela.core.arrays import BoolArray, FloatArray, IntArray, readonly
from poela.core.errors import PoelaError
from poela.data.cohorts import DOSES, VARIABLES

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
