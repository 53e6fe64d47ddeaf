"""Our estimators beside SCOPE-RL's and OBP's, where those are right: fixed horizon, moderate weights.

The peers are installed into an environment of their own, in a temporary directory (needs a package index):

python benchmarks/compare_scope_rl.py
"""

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import numpy as np

from poela.core.arrays import FloatArray
from poela.data.trajectories import Trajectories
from poela.evaluation.estimators import ESTIMATORS
from poela.evaluation.evidence import Evidence, ModelValues
from poela.evaluation.weights import weights_of

# Their pinned dependencies (OBP's do not install on Python 3.11) are not what is compared, hence --no-deps.
PEERS = ("scope-rl==0.2.1", "obp==0.4.1")
NEEDED = ("numpy", "scipy", "scikit-learn", "pandas")
EPISODES, HORIZON, ACTIONS, DISCOUNT = 500, 6, 4, 0.95
TOLERANCE = 1e-6


def problem() -> tuple[Trajectories, FloatArray, FloatArray]:
    """Random logs of a fixed horizon, the probabilities of a target policy along them, and any Q."""
    rng = np.random.default_rng(0)
    steps = EPISODES * HORIZON
    logging, target = rng.dirichlet(np.full(ACTIONS, 8.0), steps), rng.dirichlet(np.full(ACTIONS, 8.0), steps)
    actions = (np.cumsum(logging, axis=1) < rng.random((steps, 1))).sum(axis=1)
    rewards = rng.normal(size=steps) + actions
    offsets = np.arange(0, steps + 1, HORIZON)
    logs = Trajectories(np.zeros((steps, 1)), actions, rewards, offsets, propensities=logging)
    return logs, target, rng.normal(size=(steps, ACTIONS)) + np.arange(ACTIONS)


def peers(logs: Trajectories, target: FloatArray, q: FloatArray) -> dict[str, dict[str, float]]:
    """What the peers answer, from an environment that is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin" / "python")
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, *NEEDED], check=True)
        subprocess.run([*install, "--no-deps", *PEERS], check=True)
        arrays = Path(folder) / "logs.npz"
        np.savez(
            arrays,
            actions=logs.actions,
            rewards=logs.rewards,
            logged_propensities=logs.logged_propensities,
            probabilities=target,
            q=q,
            horizon=HORIZON,
            discount=DISCOUNT,
        )
        script = str(Path(__file__).with_name("peer_estimates.py"))
        answer = subprocess.run([python, script, str(arrays)], check=True, capture_output=True, text=True)
    result: dict[str, dict[str, float]] = json.loads(answer.stdout)
    return result


def main() -> None:
    """Print each pair of estimates; the exit code is 1 where one differs by more than the tolerance."""
    logs, target, q = problem()
    one_step = Trajectories(
        logs.contexts[::HORIZON],
        logs.actions[::HORIZON],
        logs.rewards[::HORIZON],
        np.arange(EPISODES + 1),
        propensities=None if logs.propensities is None else logs.propensities[::HORIZON],
    )
    cases = {
        "scope_rl": (logs, target, q, DISCOUNT),
        "obp": (one_step, target[::HORIZON], q[::HORIZON], 1.0),
    }
    worst = 0.0
    for peer, estimates in peers(logs, target, q).items():
        of_logs, of_target, of_q, discount = cases[peer]
        model = ModelValues.under(of_target, of_q, of_logs.actions)
        evidence = Evidence(weights_of(of_target, of_logs), of_logs, discount, values=model)
        for name, theirs in estimates.items():
            ours = ESTIMATORS[name].function(evidence).value
            worst = max(worst, abs(ours - theirs))
            print(f"{peer:9} {name:7} theirs {theirs:.9f}, ours {ours:.9f}, difference {abs(ours - theirs):.1e}")
    print(f"largest difference {worst:.1e}, allowed {TOLERANCE:.0e}")
    sys.exit(int(worst > TOLERANCE))


if __name__ == "__main__":
    main()
