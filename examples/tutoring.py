"""A made-up tutoring log with tabs: rows of a session in their order, and a test score after the last exercise.

    python examples/tutoring.py tutoring.tsv --sessions 1500 --seed 0

At each of five exercises the program gives a hint, shows a worked example or lets the student try alone. Beginners
learn most from worked examples, the advanced from trying; the program drew at random, and noted how.
"""

import argparse
import csv
from pathlib import Path
from random import Random

HELPS = ("hint", "worked example", "alone")
TOPICS = ("fractions", "equations", "geometry")
COLUMNS = ("student", "session", "topic", "last_answer", "streak", "seconds", "help", "chance", "score")
EXERCISES = 5


def session(rng: Random, student: int, number: int, skill: float) -> list[list[object]]:
    """The rows of one session, in the order of its exercises."""
    rows: list[list[object]] = []
    answer, streak, topic = "none yet", 0, rng.choice(TOPICS)
    learned = 0.0
    for _ in range(EXERCISES):
        shares = (0.5, 0.25, 0.25) if answer == "wrong" else (0.3, 0.3, 0.4)
        choice = rng.choices(range(3), shares)[0]
        now = skill + learned
        learned += (0.10, 0.30 - 0.25 * now, 0.05 + 0.25 * now)[choice]
        seconds = rng.gauss(60 - 25 * now, 8)
        rows.append(
            [
                *(f"U{student:04d}", f"T{number:05d}", topic, answer, streak, f"{seconds:.0f}", HELPS[choice]),
                *(f"{shares[choice]:.2f}", ""),
            ]
        )
        right = rng.random() < 0.25 + 0.55 * min(skill + learned, 1.2)
        answer, streak = ("right", streak + 1) if right else ("wrong", 0)
    rows[-1][-1] = f"{100 * min(max(skill + learned + rng.gauss(0, 0.15), 0), 2) / 2:.0f}"
    return rows


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--sessions", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rng = Random(asked.seed)
    number, student = 0, 0
    with asked.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerow(COLUMNS)
        while number < asked.sessions:
            student, skill = student + 1, rng.random()
            for _ in range(min(rng.randint(1, 3), asked.sessions - number)):
                number += 1
                writer.writerows(session(rng, student, number, skill))


if __name__ == "__main__":
    main()
