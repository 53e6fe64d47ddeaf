"""What the default study hands back on tumor logs, beside the truth.

    OMP_NUM_THREADS=1 python benchmarks/default_study.py --episodes 1000 --data-sets 5 [--min-ess 30] [--markov]

Values are normalised: uniform random treatment 0, the best common schedule found 100.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from poela.evaluation.rollouts import true_value
from poela.simulators.registry import simulate
from poela.simulators.tumor import TumorBehavior, TumorGrowth, normalised
from poela.studies.learning import learn
from poela.studies.selection import DEFAULT_SELECTION

ROLL_OUTS = 5000


def main() -> None:
    """Print one line for each data set, and the means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--data-sets", type=int, default=5)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--min-ess", type=float, nargs="+", default=[0.0])
    parser.add_argument("--markov", action="store_true")
    parser.add_argument("--learners", type=lambda text: text.split(","))
    parser.add_argument("--jobs", type=int)
    asked = parser.parse_args()
    simulator = TumorGrowth(asked.markov)
    logging = normalised(true_value(TumorBehavior(), simulator, ROLL_OUTS).value)
    values: dict[float, list[float]] = {}
    inside: dict[float, list[bool]] = {}
    with tempfile.TemporaryDirectory() as home:
        for data_set in range(asked.first, asked.first + asked.data_sets):
            logs = simulate("tumor", episodes=asked.episodes, seed=data_set, markov=asked.markov)
            for min_ess in asked.min_ess:
                study = learn(
                    logs,
                    learners=asked.learners,
                    selection=replace(DEFAULT_SELECTION, min_ess=min_ess),
                    jobs=asked.jobs,
                    out=Path(home) / str(data_set),
                    resume=True,
                )
                truth = true_value(study.policy, simulator, ROLL_OUTS).value
                estimate = study.estimate
                covers = (
                    estimate.low is not None and estimate.high is not None and estimate.low <= truth <= estimate.high
                )
                values.setdefault(min_ess, []).append(normalised(truth))
                inside.setdefault(min_ess, []).append(covers)
                low, high = (
                    None if end is None else round(normalised(end), 1) for end in (estimate.low, estimate.high)
                )
                print(
                    f"data set {data_set}, min ESS {min_ess:g}: true {normalised(truth):.1f} (logging {logging:.1f}), "
                    f"estimate {normalised(estimate.value):.1f} [{low}, {high}] "
                    f"{'contains' if covers else 'misses'} it, ESS {estimate.ess:.1f}, {estimate.verdict}; "
                    f"{study.chosen_name}",
                    flush=True,
                )
    for min_ess, found in values.items():
        print(
            f"min ESS {min_ess:g}: mean {np.mean(found):.1f}, lowest {min(found):.1f}, "
            f"interval contains the truth in {sum(inside[min_ess])} of {len(found)}"
        )


if __name__ == "__main__":
    main()
