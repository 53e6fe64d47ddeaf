"""What the choice of regressions is worth to FittedQ: ridge values beside those that its training episodes choose.

    OMP_NUM_THREADS=1 python benchmarks/values_kinds.py [--logs 4]

Four processes: a ward with six categorical variables, eight actions and up to twenty steps; single decisions whose
effect has the sign of the parity of two codes, or is linear; and the tumor clinic. For each: the squared error of
returns to go in a fresh log, and that of the effects of actions there (less what no effect at all would give; see
`chosen_kind`), the true gain of the policy in the middle of the path and of the greedy one, and processor seconds.
The seeds are not those by which anything was chosen (below 400).
"""

import argparse
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from poela.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from poela.core.policy import Memoryless
from poela.core.ragged import returns_to_go
from poela.data.trajectories import Trajectories
from poela.evaluation.rollouts import compare
from poela.learners.fitted_q import FittedQ
from poela.simulators.episodes import Noise, run
from poela.simulators.tumor import TumorBehavior, TumorGrowth

FIRST_SEED, TEST_SEED = 900, 990
MIDDLE = 6  # of the path: half of the mild temperature
NORMAL = np.array([1, 1, 1, 2])


@dataclass(frozen=True, eq=False)
class WardState:
    """heart, pressure, oxygen, sugar, what was given last, diabetic: codes [n, 6]."""

    codes: IntArray


class Ward:
    """Three treatments, given or not; death at three abnormal signs, home with none and without treatment."""

    feature_names = ("heart", "pressure", "oxygen", "sugar", "given", "diabetic")
    action_names = tuple(range(8))
    horizon = 20

    def reset(self, n: int, noise: Noise) -> WardState:
        """New patients, alive."""
        u = noise.uniform(6)
        cuts = ((0.1, 0.5), (0.35, 0.75), (0.2,), (0.02, 0.1, 0.8, 0.95))
        signs = [np.searchsorted(cut, u[:, column]) for column, cut in enumerate(cuts)]
        codes = np.stack([*signs, np.zeros(n, np.int64), (u[:, 5] < 0.25).astype(np.int64)], axis=1)
        for sign in (2, 3):
            codes[_abnormal(codes) > 2, sign] = NORMAL[sign]
        return WardState(codes)

    def contexts(self, state: WardState) -> Float32Array:
        """The codes."""
        return state.codes.astype(np.float32)

    def step(self, state: WardState, actions: IntArray, noise: Noise) -> tuple[WardState, FloatArray, BoolArray]:
        """One decision."""
        u = noise.uniform(10)
        heart, pressure, oxygen, sugar, given, diabetic = state.codes.T
        now, before = [(code >> np.arange(3)[:, None] & 1).astype(bool) for code in (actions, given)]
        stopped = before & ~now
        antibiotic, pressor, ventilation = now
        next_heart = np.where(antibiotic & (heart == 2), 1 + (u[:, 1] >= 0.5), _drift(heart, u[:, 0], 2, 0.05))
        next_heart = np.where(stopped[0] & (heart == 1) & (u[:, 1] < 0.1), 2, next_heart)
        next_pressure = np.where(antibiotic & (pressure == 2) & (u[:, 3] < 0.5), 1, _drift(pressure, u[:, 2], 2, 0.05))
        strong = np.where(pressure == 0, (u[:, 4] >= 0.1) * 1 + (u[:, 4] >= 0.6), pressure + (u[:, 4] < 0.9))
        raised = np.minimum(np.where(diabetic == 1, strong, pressure + (u[:, 4] < 0.7)), 2)
        next_pressure = np.where(pressor, raised, next_pressure)
        next_pressure = np.where(stopped[1] & (u[:, 5] < 0.1), np.maximum(pressure - 1, 0), next_pressure)
        next_oxygen = np.where(u[:, 6] < 0.05, 1 - oxygen, oxygen)
        next_oxygen = np.where(ventilation, np.maximum(oxygen, u[:, 7] < 0.7), next_oxygen)
        next_oxygen = np.where(stopped[2] & (oxygen == 1) & (u[:, 7] < 0.1), 0, next_oxygen)
        next_sugar = _drift(sugar, u[:, 8], 4, np.where(diabetic == 1, 0.15, 0.04))
        next_sugar = np.where(pressor & (diabetic == 1) & (u[:, 9] < 0.5), np.minimum(sugar + 1, 4), next_sugar)
        codes = np.stack([next_heart, next_pressure, next_oxygen, next_sugar, actions, diabetic], axis=1)
        dead, home = _abnormal(codes) >= 3, (_abnormal(codes) == 0) & (actions == 0)
        return WardState(codes), home * 1.0 - dead, dead | home


def _abnormal(codes: IntArray) -> IntArray:
    return np.asarray((codes[:, :4] != NORMAL).sum(axis=1))


def _drift(code: IntArray, u: FloatArray, highest: int, chance: Any) -> IntArray:
    return np.asarray(np.clip(code - (u < chance) + (u > 1 - chance), 0, highest))


class Practice(Memoryless):
    """Treats what is abnormal, more often than not."""

    def probabilities(self, contexts: Any) -> FloatArray:
        """[n, 8]."""
        codes = np.asarray(contexts).round().astype(int)
        treats = np.stack(
            [
                np.where((codes[:, 0] == 2) | (codes[:, 1] == 2), 0.75, 0.25),
                np.where(codes[:, 1] == 0, 0.75, 0.2),
                np.where(codes[:, 2] == 0, 0.8, 0.25),
            ]
        )
        given = np.arange(8)[:, None] >> np.arange(3) & 1
        chances = np.where(given[:, :, None], treats, 1 - treats).prod(axis=1).T
        return np.asarray(0.8 * chances + 0.2 / 8)


class Single:
    """Single decisions between two actions, whose effect is the parity of two codes, or linear."""

    feature_names = tuple("abcde")
    action_names = (0, 1)
    horizon = 1

    def __init__(self, parity: bool) -> None:
        self._parity = parity

    def reset(self, n: int, noise: Noise) -> Float32Array:
        """Five codes, or five normal numbers."""
        numbers = np.floor(4 * noise.uniform(5)) if self._parity else noise.normal(5)
        return numbers.astype(np.float32)

    def contexts(self, state: Float32Array) -> Float32Array:
        """As they are."""
        return state

    def step(self, state: Float32Array, actions: IntArray, noise: Noise) -> tuple[Float32Array, FloatArray, BoolArray]:
        """The return."""
        effect = np.where((state[:, 0] + state[:, 1]) % 2 == 0, 0.5, -0.5) if self._parity else 0.5 * state[:, 0]
        rewards = 0.5 * state[:, 2] + effect * (actions - 0.5) + noise.normal(1)[:, 0]
        return state, rewards, np.ones(len(state), np.bool_)


class Coin(Memoryless):
    """Either action."""

    def probabilities(self, contexts: Any) -> FloatArray:
        """[n, 2]."""
        return np.full((len(contexts), 2), 0.5)


# Simulator, who logs, episodes, history.
PROCESSES: dict[str, tuple[Any, Any, int, int]] = {
    "ward": (Ward(), Practice(), 1000, 0),
    "ward, 400": (Ward(), Practice(), 400, 0),
    "parity": (Single(parity=True), Coin(), 2000, 0),
    "linear": (Single(parity=False), Coin(), 500, 0),
    "tumor": (TumorGrowth(), TumorBehavior(), 400, 0),
    "tumor, history": (TumorGrowth(), TumorBehavior(), 400, 2),
}


def measured(process: str, regressor: Any, seed: int) -> tuple[FloatArray, str]:
    """Both errors, both gains and seconds, and the kind of regression that was taken."""
    simulator, practice, episodes, history = PROCESSES[process]
    logs, test = run(simulator, practice, episodes, seed), run(simulator, practice, 2000, TEST_SEED)
    learner = FittedQ(regressor=regressor, history=history, backup="soft")
    started = time.process_time()
    path = [point.policy for point in learner.fit_path(logs, behavior=practice)]
    seconds = time.process_time() - started
    values = compare({"now": practice, "middle": path[MIDDLE], "greedy": path[-1]}, simulator, 2000, seed=TEST_SEED)
    gains = [values.difference(name, "now").value for name in ("middle", "greedy")]
    # The mildest policy's Q is nearly that of practice.
    seen = test if path[0].history is None else test.with_history(history, initial=True)
    errors = _errors(path[0].values.q(seen), test)
    return np.array([*errors, *gains, seconds]), learner.kind(logs, practice.along(logs))


def _errors(q: FloatArray, test: Trajectories) -> tuple[float, float]:
    assert test.propensities is not None
    returns = returns_to_go(test.rewards, test.offsets)
    taken = q[np.arange(len(q)), test.actions]
    mean = (q * test.propensities).sum(axis=1)
    effects = np.square(returns - taken).mean() - np.square(returns - mean).mean()
    return float(np.square(returns - taken).mean()), float(effects)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=4)
    parser.add_argument("--processes", nargs="*", default=list(PROCESSES), choices=list(PROCESSES))
    given = parser.parse_args()
    run(Ward(), Practice(), 5)  # imports are not timed
    print(f"{'process':15} {'values':6} {'error':>8} {'effects':>9} {'middle':>7} {'greedy':>7} {'cpu s':>6}  taken")
    for process in given.processes:
        for regressor in ("ridge", "auto"):
            found = [measured(process, regressor, FIRST_SEED + number) for number in range(given.logs)]
            error, effects, middle, greedy, seconds = np.mean([figures for figures, _ in found], axis=0)
            taken = ", ".join(f"{kind} {count}" for kind, count in Counter(kind for _, kind in found).items())
            print(
                f"{process:15} {regressor:6} {error:8.4f} {effects:+9.5f} {middle:+7.3f} {greedy:+7.3f} {seconds:6.2f}"
                f"  {taken}",
                flush=True,
            )


if __name__ == "__main__":
    main()
