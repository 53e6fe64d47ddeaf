"""Real-valued doses with a known truth: one dose for each patient (dosing), or ten adjustments (titration).

    python examples/doses.py make doses.csv --problem dosing --patients 500 --seed 1
    python examples/doses.py truth study/ --problem dosing

`make` writes the log of a clinic, with the log density that each dose had when it was chosen. `truth` rolls the policy
that a study recommends out in the same clinic, and puts its true gain beside what the study says.
"""

import argparse

from pyarrow.csv import write_csv

from poela import Study, true_value
from poela.simulators.doses import Dosing, Titration
from poela.simulators.episodes import run

PROBLEMS = {"dosing": Dosing(), "titration": Titration()}
NAMES = {"episode": "patient", "step": "visit", "reward": "benefit"}


def make(out: str, problem: str, patients: int, seed: int) -> None:
    """Write the log."""
    simulator = PROBLEMS[problem]
    table = run(simulator, simulator.behavior, patients, seed).to_table()
    write_csv(table.rename_columns([NAMES.get(name, name) for name in table.column_names]), out)


def truth(directory: str, problem: str) -> None:
    """Print what the study says and what is true."""
    simulator, study = PROBLEMS[problem], Study.open(directory)
    now = simulator.value(simulator.behavior)  # in closed form
    print(f"what is done now is truly worth {now:.3f}")
    if study.keeps_logging_policy:
        print("the study recommends to carry on as before")
        return
    found = true_value(study.policy, simulator, episodes=20_000)
    print(f"shown: at least {study.gain.low:+.3f}; estimated: {study.gain.value:+.3f}")
    print(f"true:  {found.value - now:+.3f} ± {found.standard_error:.3f}, by {found.n_episodes:,} roll-outs")


def main() -> None:
    """One of both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "truth"])
    parser.add_argument("where", help="the file of the log, or the folder of the study")
    parser.add_argument("--problem", choices=sorted(PROBLEMS), default="dosing")
    parser.add_argument("--patients", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    if asked.what == "make":
        make(asked.where, asked.problem, asked.patients, asked.seed)
    else:
        truth(asked.where, asked.problem)


if __name__ == "__main__":
    main()
