"""Real-valued doses with a known truth: one dose for each patient (dosing), or ten adjustments (titration).

    python examples/doses.py doses.csv --problem dosing --patients 500 --seed 1

Writes the log of a clinic, with the log density that each dose had when it was chosen.
"""

import argparse

from pyarrow.csv import write_csv

from poela.simulators.doses import Dosing, Titration
from poela.simulators.episodes import run

PROBLEMS = {"dosing": Dosing(), "titration": Titration()}
NAMES = {"episode": "patient", "step": "visit", "reward": "benefit"}


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--problem", choices=sorted(PROBLEMS), default="dosing")
    parser.add_argument("--patients", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    clinic = PROBLEMS[asked.problem]
    table = run(clinic, clinic.behavior, asked.patients, asked.seed).to_table()
    write_csv(table.rename_columns([NAMES.get(name, name) for name in table.column_names]), asked.out)


if __name__ == "__main__":
    main()
