"""A made-up click log: one decision a row, 34 articles, few clicks, and the probability with which each was shown.

    python examples/clicks.py clicks.csv.gz --rows 20000 --seed 0

There is no column of episodes or steps: each row stands for itself. The front page draws articles at random, some more
often than others; who clicks on what depends on the reader's topic and on the device.
"""

import argparse
import csv
import gzip
from pathlib import Path
from random import Random

ARTICLES = tuple(f"article {number:02d}" for number in range(34))
TOPICS = ("sport", "science", "travel", "food")
DEVICES = ("phone", "laptop", "tablet")
COLUMNS = ("topic", "device", "hour", "visits", "article", "chance", "clicked")


def rate(topic: str, device: str, article: int) -> float:
    """The chance of a click: articles of the reader's topic are clicked most, long ones seldom on a phone."""
    fits = article % len(TOPICS) == TOPICS.index(topic)
    long = article % 5 == 0
    return 0.01 + 0.07 * fits - 0.006 * (long and device == "phone")


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rng = Random(asked.seed)
    liking = [0.5 + rng.random() for _ in ARTICLES]
    total = sum(liking)
    with gzip.open(asked.out, "wt", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for _ in range(asked.rows):
            topic, device = rng.choice(TOPICS), rng.choices(DEVICES, (6, 3, 1))[0]
            article = rng.choices(range(len(ARTICLES)), liking)[0]
            clicked = int(rng.random() < rate(topic, device, article))
            chance = f"{liking[article] / total:.5f}"
            writer.writerow((topic, device, rng.randrange(24), rng.randrange(50), ARTICLES[article], chance, clicked))


if __name__ == "__main__":
    main()
