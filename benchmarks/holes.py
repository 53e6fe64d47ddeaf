"""Studies of logs with holes in support: what they claim, whether it is true, and whom it would harm.

    python benchmarks/holes.py half:own pocket:none --logs 8 --out holes/
    python benchmarks/holes.py --must --size 1500 --logs 60 --jobs 2 --out holes/
    python benchmarks/holes.py --compare --size 1500 --logs 10 --jobs 16 --minutes 25 --out docs/results/holes/compare
    python benchmarks/holes.py --table holes/
    python benchmarks/holes.py --page docs/results/holes.md
    python benchmarks/holes.py --list

In a hole, some never get an action, which would harm them and is better for all others. Each log is studied whole,
through `poela.learn`, and its row appended to a file of OUT; a run goes on where there are rows. Seeds begin at 30000.
PYTHONPATH says which version of the package is measured, and each row which code that was.
"""

import argparse
import sys
from pathlib import Path

from holes_in_support import compare
from holes_in_support.compare import comparison
from holes_in_support.rows import carry_out, read_rows
from holes_in_support.scenarios import KINDS, MUST, PROPENSITIES, scenario
from holes_in_support.studies import Task, tasks_of
from holes_in_support.tables import fill_page, table
from holes_in_support.variants import VARIANTS, settings_of
from stored_rows import made_by

from poela.core.errors import InputError, PoelaError
from poela_experiments.frame.shards import Shard

FIRST_SEED = 30_000


def options_of(arguments: list[str]) -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="such as half:own or corner:all:d20")
    parser.add_argument("--must", action="store_true", help="the twelve scenarios that claims rest on")
    parser.add_argument("--compare", action="store_true", help="each learner alone, under each rule that it takes")
    parser.add_argument("--list", action="store_true", help="print the kinds of scenarios, and the twelve")
    parser.add_argument("--size", type=int, default=1500, help="cases (episodes) in each log")
    parser.add_argument("--logs", type=int, default=60, help="of each scenario")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--variant", choices=VARIANTS, default="default")
    parser.add_argument("--learners", help="only these, separated by commas")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--shard", type=Shard.parsed, help="only this share of the logs, such as 2/8")
    parser.add_argument("--minutes", type=float, help="begin no further log after so long")
    parser.add_argument("--out", type=Path, help="folder for rows")
    parser.add_argument("--table", type=Path, metavar="DIR", help="measure nothing: print the table of the rows there")
    parser.add_argument(
        "--page", type=Path, help="measure nothing: fill this page from the rows in the folder beside it"
    )
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    """Measure, or print what was."""
    options = options_of(arguments)
    if options.list:
        print(f"kinds: {' '.join(KINDS)}\npropensities: {' '.join(PROPENSITIES)}\nthe twelve: {' '.join(MUST)}")
        return
    if options.table:
        print((comparison if options.compare else table)(read_rows(options.table)))
        return
    if options.page:
        fill_page(options.page)
        return
    names = [*dict.fromkeys([*(MUST if options.must else ()), *options.scenarios])]
    if options.compare and not names:
        names = [*compare.SCENARIOS]
    if not names or options.out is None:
        raise InputError("say which scenarios (or --must), and --out; --list names them")
    for name in names:
        scenario(name)
    seeds = [*range(options.first_seed, options.first_seed + options.logs)]
    if options.shard:  # of all scenarios alike, so that shards take as long
        seeds = [*options.shard.share({str(seed): seed for seed in seeds}).values()]
    tasks = _tasks(options, names, seeds)
    for row in carry_out(tasks, options.out, options.jobs, options.minutes, beside=made_by()):
        outcome = row.get("error") or f"shown {row['shown']}, true {row.get('true')}"
        kind = f"{row['scenario']} {row['variant']} {row['learners']}"
        print(f"{kind} {row['seed']}: {outcome} ({row['seconds']} s)", flush=True)
    print((comparison if options.compare else table)(read_rows(options.out)))


def _tasks(options: argparse.Namespace, names: list[str], seeds: list[int]) -> list[Task]:
    """Those of one variant, or of all that are compared."""
    learners = tuple(filter(None, (options.learners or "").split(",")))
    if options.compare:
        return compare.tasks(names, options.size, seeds, learners)
    settings_of(options.variant, learners or None)  # which refuses what cannot be, before anything is begun
    return tasks_of(names, options.size, options.variant, learners, seeds)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except PoelaError as problem:
        sys.exit(f"error: {problem}")
