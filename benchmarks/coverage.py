"""How often our intervals hold the truth, and what the words of the verdict are worth, on logs with a known truth.

    python benchmarks/coverage.py [--full] [--out docs/results]
    python benchmarks/coverage.py --page docs/intervals.md
    python benchmarks/coverage.py --words docs/results
    python benchmarks/coverage.py --gains docs/results/gain-coverage --logs 100 --jobs 16 --minutes 5

The first measures and writes tables (after an interruption it continues; hours with `--full`, minutes without, and
`--shard` and `--join` share it between machines). The second fills the page on intervals from the results beside it;
the third prints what the words of the verdict separate, from stored results. The last measures the gain beside the
value, from mild tilts to far ones; rows go to the folder as they are made, those that are there are not made again.
Limits of the verdict were set on one set of processes; the other had no part in anything.
"""

import argparse
import sys
from pathlib import Path

from coverage_of_intervals import gains
from coverage_of_intervals.measurement import NAME, Measurement, coverage, size_of
from coverage_of_intervals.page import fill_page, words_table
from stored_rows import carry_out, rows_in

from poela.core.errors import PoelaError
from poela.core.progress import progress_in_lines
from poela.studies.options import Execution
from poela_experiments.frame.shards import Shard, ShardDone

PIECE = 25  # logs that are measured together


def options_of(arguments: list[str]) -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(description="Measure how often our intervals hold the truth.")
    parser.add_argument("--full", action="store_true", help="all of it, rather than a small version")
    parser.add_argument("--quick", dest="full", action="store_false", help="a small version (the default)")
    parser.add_argument("--out", type=Path, default=Path(NAME), help="directory for results [default: coverage]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, help="processes side by side [default: all cores]")
    parser.add_argument("--shard", type=Shard.parsed, help="make only this share of the cells, such as 2/8")
    parser.add_argument("--join", type=Path, action="append", default=[], help="a folder where a shard left its cells")
    parser.add_argument("--page", type=Path, help="measure nothing: fill this page from the results beside it")
    parser.add_argument("--words", type=Path, help="measure nothing: print what the words of the verdict separate")
    parser.add_argument("--gains", type=Path, metavar="FOLDER", help="measure gains beside values, into this folder")
    parser.add_argument("--logs", type=int, default=100, help="of each process and tilt, with --gains")
    parser.add_argument("--only", nargs="+", default=[], help="only these processes, with --gains")
    parser.add_argument("--minutes", type=float, help="begin no further cell after so long, with --gains")
    return parser.parse_args(arguments)


def measure_gains(options: argparse.Namespace) -> None:
    """Measure what has no row yet, in pieces of 25 logs, and print the table."""
    each = min(options.logs, PIECE)
    wanted = gains.tasks(each, -(-options.logs // each), options.seed, options.only)
    for _ in carry_out(wanted, gains.measured, options.gains, "0/1", options.jobs or 1, options.minutes):
        pass
    print(gains.table(rows_in(options.gains)))


def main(arguments: list[str]) -> None:
    """Measure and print, or fill the page."""
    options = options_of(arguments)
    if options.page:
        fill_page(options.page)
        return
    if options.words:
        print(words_table(options.words))
        return
    if options.gains:
        measure_gains(options)
        return
    size, how = size_of("full" if options.full else "quick"), Execution("local", options.jobs)
    run = Measurement(NAME, options.out, size, options.seed, how, options.shard, options.join)
    try:
        with progress_in_lines():
            print(coverage(run))
    except ShardDone as done:
        print(f"{done} in {options.out}; give this folder to --join, with those of the other shards")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except PoelaError as problem:
        sys.exit(f"error: {problem}")
