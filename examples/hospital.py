"""A made-up table of hospital stays: text, gaps, dates, several stays of a patient, an outcome on the last row alone.

    python examples/hospital.py stays.csv --stays 1200 --seed 0

Every four hours a patient with low blood pressure gets no fluid, a little or a lot. A lot helps those with a high
lactate and harms those whose heart is weak; the ward does not know this well. How decisions were made was recorded
(`chance`), since the ward had a protocol with some freedom.
"""

import argparse
import csv
import math
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

FLUIDS = ("none", "little", "much")
WARDS = ("ICU", "surgery", "general")
COLUMNS = (
    *("patient", "stay", "time", "ward", "age", "heart_failure", "lactate", "systolic", "severity"),
    *("fluid", "chance", "survived", "cost"),
)


def chances(lactate: float, systolic: float) -> list[float]:
    """The protocol: more fluid at low pressure, whatever the heart."""
    want = (0.2, 0.4 + 0.02 * (100 - systolic), 0.3 + 0.03 * (100 - systolic) + 0.05 * lactate)
    exponentials = [math.exp(value) for value in want]
    return [value / sum(exponentials) for value in exponentials]


def stay(rng: Random, patient: int, number: int, weak_heart: bool) -> list[dict[str, object]]:
    """The rows of one stay."""
    start = datetime(2024, 1, 1) + timedelta(hours=rng.randrange(8000))
    age, ward = rng.randint(25, 90), rng.choice(WARDS)
    lactate, systolic, harm = rng.uniform(1, 8), rng.uniform(75, 110), 0.0
    rows: list[dict[str, object]] = []
    length = rng.randint(2, 4)
    for step in range(length):
        shares = chances(lactate, systolic)
        dose = rng.choices(range(3), shares)[0]
        severity = "low" if lactate < 3 else "middle" if lactate < 5 else "high"
        rows.append(
            {
                "patient": f"P{patient:04d}",
                "stay": f"S{number:05d}",
                "time": (start + timedelta(hours=4 * step)).isoformat(sep=" "),
                "ward": ward,
                "age": age,
                "heart_failure": "yes" if weak_heart else "no",
                "lactate": "" if rng.random() < 0.15 else f"{lactate:.1f}",
                "systolic": f"{systolic:.0f}",
                "severity": severity,
                "fluid": FLUIDS[dose],
                "chance": f"{shares[dose]:.4f}",
                "survived": "",
                "cost": f"{1.0 + 0.5 * dose:.1f}",
            }
        )
        harm += 0.9 * dose * weak_heart + 0.12 * max(lactate - 2.0, 0.0) * (2 - dose) * (not weak_heart)
        lactate = max(lactate - 0.4 * dose + rng.gauss(0, 0.4), 0.5)
        systolic += 3.0 * dose + rng.gauss(0, 3)
    survives = rng.random() < 1 / (1 + math.exp(-(3.2 - 0.02 * (age - 60) - 1.1 * harm)))
    rows[-1]["survived"] = int(survives)
    return rows


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--stays", type=int, default=1200)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rng = Random(asked.seed)
    number, patient = 0, 0
    with asked.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, delimiter=";")
        writer.writeheader()
        while number < asked.stays:
            patient, weak_heart = patient + 1, rng.random() < 0.4
            for _ in range(min(rng.choice((1, 1, 1, 2, 3)), asked.stays - number)):
                number += 1
                writer.writerows(stay(rng, patient, number, weak_heart))


if __name__ == "__main__":
    main()
