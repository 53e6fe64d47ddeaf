"""Costs and disasters: what studies can verify with and without a cap of returns, and what they claim where nothing is.

    python benchmarks/capped.py lognormal --logs 20
    python benchmarks/capped.py --logs 20

Logs have one decision in each row, by chance, 1,000 rows and returns of which a few decide the mean. In half of them
the better action depends on a column; in the others no action matters, so that every claim is false. Printed for each
kind: studies with a policy that can be verified, studies with a claim, the median of what these show, and those that
claim more than the true gain in capped returns of the policy as it was judged.
"""

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import poela
from poela.data.trajectories import Trajectories

FIRST_SEED = 60_000
ROWS, FRESH = 1000, 20_000
Rng = np.random.Generator
Array = NDArray[Any]


def lognormal(rng: Rng, good: Array) -> Array:
    """Revenue with σ = 2."""
    return np.exp(0.6 * good + 2 * rng.normal(size=len(good)))


def costs(rng: Rng, good: Array) -> Array:
    """Costs, most of them 0."""
    return np.where(rng.random(len(good)) < 0.3 - 0.15 * good, -np.exp(3 + 1.5 * rng.normal(size=len(good))), 0.0)


def disasters(rng: Rng, good: Array) -> Array:
    """Ordinary returns, but for five disasters in a thousand."""
    return np.where(rng.random(len(good)) < 0.005, -100.0, 0.5 * good + rng.normal(size=len(good)))


KINDS: dict[str, Callable[[Rng, Array], Array]] = {"lognormal": lognormal, "costs": costs, "disasters": disasters}


def log_of(kind: str, seed: int, effect: float, rows: int = ROWS) -> Trajectories:
    """A log of this kind; `effect` 0: no action matters."""
    rng = np.random.default_rng(seed)
    contexts, actions = rng.normal(size=(rows, 2)), rng.integers(0, 2, rows)
    good = effect * np.where((contexts[:, 0] > 0) == (actions == 1), 1.0, -1.0)
    half = np.full((rows, 2), 0.5)
    return Trajectories(contexts, actions, KINDS[kind](rng, good), np.arange(rows + 1), propensities=half)


def true_gain(study: poela.Study, kind: str, seed: int, effect: float) -> float:
    """The gain in (capped) returns of the policies that the folds learned, on fresh cases: a mean over both actions."""
    fresh = log_of(kind, seed + 1_000_000, effect, FRESH)
    cap = study.settings.scoring.cap
    returns = fresh.returns() if cap is None else cap.clip(fresh.returns())
    weights = study.exact_policy.along(fresh)[np.arange(FRESH), fresh.actions] / 0.5
    return float((weights * returns).mean() - returns.mean())


def row(kind: str, effect: float, cap: float | None, logs: int, first_seed: int) -> str:
    """What studies of some logs come to."""
    verified, claims, shown, above = 0, 0, [], 0
    for seed in range(first_seed, first_seed + logs):
        study = poela.learn(log_of(kind, seed, effect), learners=["fittedq"], backend="inline", cap=cap)
        verified += any(point.metrics["shown"] is not None for point in study.points)
        if not study.keeps_logging_policy:
            assert study.gain is not None
            assert study.gain.low is not None
            claims += 1
            shown.append(study.gain.low)
            above += effect == 0 or study.gain.low > true_gain(study, kind, seed, effect)
    middle = f"{np.median(shown):.3g}" if shown else "-"
    what = "an effect" if effect else "nothing to gain"
    asked = "no cap" if cap is None else f"cap {cap:g}"
    return f"| {kind} | {what} | {asked} | {verified} of {logs} | {claims} of {logs} | {middle} | {above} of {logs} |"


def main() -> None:
    """Print a row for each kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], default=[])
    parser.add_argument("--logs", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| returns | | | with verifiable policies | claims | median shown | false |\n|---|---|---|---|---|---|---|")
    for kind in options.kinds or KINDS:
        for effect, cap in ((1.0, None), (1.0, 0.99), (0.0, None), (0.0, 0.99)):
            print(row(kind, effect, cap, options.logs, options.first_seed), flush=True)


if __name__ == "__main__":
    main()
