"""A million contexts asked about a million logged ones with 25 actions, on a GPU, and whether the answer is exact.

    PYTHONPATH=src python benchmarks/gpu_neighbours.py [--rows 1000000]

Needs NumPy, SciPy and torch only. Some of the answers are compared with those of the processor, bit by bit.
"""

import argparse
import time

import numpy as np

from poela.neighbours import search as neighbours
from poela.neighbours.search import Neighbours
from poela.neighbours.tensors import device_for_search

FEATURES, ACTIONS = 44, 25


def main() -> None:
    """Search, time, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--checked", type=int, default=500, help="contexts that the processor is asked about, too")
    asked = parser.parse_args()
    rng = np.random.default_rng(0)
    common = rng.normal(size=(asked.rows, 12)) @ rng.normal(size=(12, FEATURES)) / np.sqrt(12)
    contexts = (0.7 * common + 0.7 * rng.normal(size=(asked.rows, FEATURES))).astype(np.float32).astype(np.float64)
    actions = rng.integers(ACTIONS, size=asked.rows)
    device = device_for_search()
    Neighbours(contexts[:20_000]).nearest(contexts[:20_000])  # whatever is slow the first time
    print(f"{asked.rows:,} x {asked.rows:,} contexts, {FEATURES} features, {ACTIONS} actions on {device}", flush=True)
    started = time.perf_counter()
    searches = [Neighbours(contexts[actions == action]) for action in range(ACTIONS)]
    print(f"prepared in {time.perf_counter() - started:.1f} s", flush=True)
    found = [search.nearest(contexts) for search in searches]
    print(f"in all {time.perf_counter() - started:.1f} s", flush=True)
    neighbours.MANY_PAIRS = 1 << 62  # from here on by the processor
    some = rng.choice(asked.rows, asked.checked, replace=False)
    for (rows, squared), search in zip(found, searches, strict=True):
        true_rows, true_squared = search.nearest(contexts[some])
        assert np.array_equal(rows[some], true_rows), "other neighbours"
        assert np.array_equal(squared[some], true_squared), "other distances"
    print(f"{asked.checked} contexts x {ACTIONS} actions: the same bits on the processor")


if __name__ == "__main__":
    main()
