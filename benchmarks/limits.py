"""The page of measured limits: what is written below, with tables made of the stored rows.

python benchmarks/limits.py > docs/results/limits.md
python benchmarks/limits.py --table docs/results/limits
"""

import argparse
from pathlib import Path

import censoring
import forbidden
import guards
import spend
from stored_rows import rows_in

PAGE = """# Limits: how often they are kept

What [limits](../guides/limits.md) and [missing outcomes](../guides/missing.md) promise, measured where the truth is
known. Every row of every log is stored beside this page, with its commit and its processor time.

## Guardrails

{guards_about}

{guards}

## Gain against spend

{spend_about}

{spend}

## Outcomes that were not seen

{censoring_about}

{censoring}

## Forbidden actions

{forbidden_about}

{forbidden}
"""
ABOUT = {
    "guards": """*False clearance*: a policy is recommended that truly raises harm by more than the guardrail
allows (0.02 per decision, of the worse ward where each ward is guarded); *recommended*, where harm is `safe`,
is power. Every treatment raises the rate of harm by 0.15 in the kinds `harmful`, by 0.05 in `moderate` (to
treat everybody is then just beyond the limit), in `ward` by 0.15 in one ward of two. `-1`: 800 cases of one
decision, `-3`: 400 episodes of three. Five folds beside one split in halves (`python benchmarks/guards.py`).""",
    "spend": """The process "map" of the package maq, one study for each log, ten policies of the hull walk
in each, by ridge values. *Above the truth*: logs in which any of the ten gains that are shown (95%, all
together) is above the true one. *Spend above its bound*: logs in which any true spend is. *Alone*: policies
whose own 95% bound is above the truth: a bound of independent folds, for one policy, without what folds
share, of which nothing is claimed. The ten policies of a log are nearly one, and miss together. In brackets:
what so many logs leave open (95%, Clopper–Pearson) (`python benchmarks/spend.py`).""",
    "censoring": """Informative loss in three processes, of one step and of four, 1,000 episodes in each log:
*weighted* are intervals (95%) with the estimated chances of having been seen, *complete* those of the cases
that were seen, as if they were all. The truth is a mean of a million episodes in which nobody is lost
(`python benchmarks/censoring.py`).""",
    "forbidden": """Random and odd cases, decided by policies of every learner (by itself and blended with
practice, under the usual rule and none, propensities logged or estimated), by every door. What is forbidden
is worked out from the raw cells, without the library (`python benchmarks/forbidden.py`).""",
}
TABLES = {"guards": guards.table, "spend": spend.table, "censoring": censoring.table, "forbidden": forbidden.table}


def page(folder: Path) -> str:
    """The whole page."""
    tables = {name: table(rows_in(folder / name)) for name, table in TABLES.items()}
    return PAGE.format(**tables, **{f"{name}_about": text for name, text in ABOUT.items()})


def main() -> None:
    """Print it, or the tables alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=Path, metavar="FOLDER", help="the tables alone")
    asked = parser.parse_args()
    if asked.table is None:
        print(page(Path("docs/results/limits")), end="")
        return
    for name, table in TABLES.items():
        print(table(rows_in(asked.table / name)))


if __name__ == "__main__":
    main()
