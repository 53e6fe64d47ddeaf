"""Every benchmark of speed, one after the other: ours, a named alternative and the floor, growth and peak memory.

    python benchmarks/bench.py [NAME …] [--large] [--rounds 3] [--out build/bench]
    python benchmarks/bench.py --compare OLD NEW          two files or folders of results, of two commits
    python benchmarks/bench.py --page docs/results/speed.md    one page from the results in --out

Times are seconds of the processor, by one thread, each case in a process of its own. A round measures ours, the
alternative and the floor in turn, at every size; told are medians over the rounds, and the range of the ratios.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from measuring import HERE, benchmark

SCRIPTS = (
    "read_logs",
    "nearest_actions",
    "nearest_few_features",
    "knn_behavior",
    "bootstrap",
    "simulate_tumor",
    "simulate_sepsis",
    "study_speed",
    "decide_speed",
    "export_speed",
)
BY_THEMSELVES = ("scoring", "ascent_step")  # scripts that measure and store by themselves: NAME.py --json FILE
COLUMNS = ("size", "ours", "alternative", "alternative / ours", "floor", "ours / floor", "peak MB")
SECONDS = ("ours", "alternative", "floor")


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    import torch

    commit = ["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"]
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "commit": subprocess.run(commit, capture_output=True, text=True).stdout.strip() or "unknown",
    }


def _processor() -> str:
    about = Path("/proc/cpuinfo")
    lines = about.read_text(encoding="utf-8").splitlines() if about.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def table(result: dict[str, Any], seconds: bool = True) -> str:
    """One benchmark in Markdown; pages tell ratios alone, since seconds belong to one machine."""
    columns = [column for column in COLUMNS if seconds or column not in SECONDS]
    head = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    lines = [f"## {result['benchmark']}", ""]
    for case in dict.fromkeys(row["case"] for row in result["rows"]):
        rows = [row for row in result["rows"] if row["case"] == case]
        lines += [f"{case}. Alternative: {rows[0]['alternative_name'] or 'none'}.", ""]
        lines[-2] += f" Floor: {rows[0]['floor_name'] or 'none'}."
        cells = [_cells(row) for row in rows]
        lines += [*head, *(f"| {' | '.join(own[column] for column in columns)} |" for own in cells), ""]
    if result["exponent"] is not None:
        lines += [f"Seconds grow like size^{result['exponent']:.2f}.", ""]
    return "\n".join(lines)


def by_itself(name: str, file: Path) -> dict[str, Any]:
    """What a script that stores its own results found."""
    command = [sys.executable, str(HERE / f"{name}.py"), "--json", str(file)]
    subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL, check=True)
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def merged(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The rounds of one benchmark as one: medians of seconds, the greatest memory, and the ratio of every round.

    >>> ours = [{"benchmark": "b", "exponent": 1.0, "rows": [{"ours": s, "alternative": 4.0, "floor": None,
    ...          "peak_mb": s}]} for s in (1.0, 2.0, 8.0)]
    >>> merged(ours)["rows"]
    [{'ours': 2.0, 'alternative': 4.0, 'floor': None, 'peak_mb': 8.0, 'ratios': [4.0, 2.0, 0.5]}]
    """
    rows = []
    for own in zip(*(one["rows"] for one in rounds), strict=True):
        seconds = {way: None if own[0][way] is None else median(row[way] for row in own) for way in SECONDS}
        ratios = [] if own[0]["alternative"] is None else [row["alternative"] / row["ours"] for row in own]
        rows.append({**own[0], **seconds, "peak_mb": max(row["peak_mb"] for row in own), "ratios": ratios})
    exponents = [one["exponent"] for one in rounds if one["exponent"] is not None]
    return {**rounds[0], "rows": rows, "exponent": median(exponents) if exponents else None}


def _ratio(row: dict[str, Any]) -> str:
    """The median ratio of the rounds and its range, which says so where it cannot tell which way is the faster one.

    >>> _ratio({"ours": 2.0, "alternative": 3.0, "ratios": [1.5, 1.4, 1.6]})
    '1.50 (1.40 to 1.60)'
    >>> _ratio({"ours": 2.0, "alternative": 2.0, "ratios": [1.0, 0.9, 1.2]})
    '1.00 (0.90 to 1.20): no difference shown'
    """
    if row["alternative"] is None:
        return ""
    ratios = row.get("ratios", [])
    if len(ratios) < 2:
        return f"{row['alternative'] / row['ours']:.2f}"
    same = ": no difference shown" if min(ratios) <= 1 <= max(ratios) else ""
    return f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}){same}"


def _cells(row: dict[str, Any]) -> dict[str, str]:
    ours, alternative, floor = row["ours"], row["alternative"], row["floor"]
    cells = [
        f"{row['size']:,}",
        _seconds(ours),
        _seconds(alternative),
        _ratio(row),
        _seconds(floor),
        "" if not floor else f"{ours / floor:.2f}",
        f"{row['peak_mb']:.0f}",
    ]
    return dict(zip(COLUMNS, cells, strict=True))


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3g} s"


def results(path: Path) -> dict[str, Any]:
    """Results by name, from one file or from all files of a folder."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    read = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return {one["benchmark"]: one for one in read if "benchmark" in one}


def compare(old: Path, new: Path) -> str:
    """New seconds over old ones, case by case."""
    before, after = results(old), results(new)
    lines = [f"{'benchmark':22} {'size':>12} {'old':>9} {'new':>9} {'new/old':>8} {'memory':>7}"]
    for name in sorted(before.keys() & after.keys()):
        known = {(row["case"], row["size"]): row for row in before[name]["rows"]}
        for row in after[name]["rows"]:
            was = known.get((row["case"], row["size"]))
            if was is not None:
                times = f"{was['ours']:9.3g} {row['ours']:9.3g} {row['ours'] / was['ours']:8.2f}"
                lines.append(f"{name:22} {row['size']:>12,} {times} {row['peak_mb'] / was['peak_mb']:7.2f}")
    only = sorted(before.keys() ^ after.keys())
    return "\n".join([*lines, *([f"in one of both only: {', '.join(only)}"] if only else [])])


def page(folder: Path) -> str:
    """All results of a folder on one page."""
    found = results(folder)
    about: dict[str, Any] = next((one["machine"] for one in found.values() if "machine" in one), {})
    head = (
        "# Speed\n\n`make bench` measures this in seconds of the processor, by one thread, each case in its own "
        "process.\nTold are ratios: to a named alternative (above 1: we are faster), and to the floor, the least that "
        "any way must do.\nWhere a ratio has a range, it is that of the rounds, which take every way in turn; a range "
        "around 1 shows no difference."
    )
    larger = (HERE / "larger.md").read_text(encoding="utf-8")
    tables = [_section(one, about) for one in found.values()]
    return "\n".join([f"{head}\nMeasured with {_facts(about)}, unless a table says otherwise.\n", larger, *tables])


def _facts(about: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in about.items())


def _section(result: dict[str, Any], about: dict[str, Any]) -> str:
    """A benchmark on the page, with the machine and the commit where they are not those of the page."""
    own = {name: value for name, value in result.get("machine", about).items() if value != about.get(name)}
    return table(result, seconds=False) + (f"\nMeasured with {_facts(own)}.\n" if own else "")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SCRIPTS)}; all of them by default")
    parser.add_argument("--large", action="store_true", help="the sizes that matter, which take long")
    parser.add_argument("--rounds", type=int, default=3, help="how often all is measured, in turn")
    parser.add_argument("--sizes", type=int, nargs="+", default=[], help="other sizes")
    parser.add_argument("--out", type=Path, default=HERE.parent / "build" / "bench")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("OLD", "NEW"))
    parser.add_argument("--page", type=Path)
    asked = parser.parse_args()
    known = (*SCRIPTS, *BY_THEMSELVES)
    if unknown := sorted({*asked.names} - {*known}):
        parser.error(f"no benchmark is called {', '.join(unknown)}: choose from {', '.join(known)}")
    for place in asked.compare or ([asked.out] if asked.page else []):
        if not (place.is_file() or any(place.glob("*.json"))):
            parser.error(f"{place} holds no results: run the benchmarks first")
    if asked.compare:
        print(compare(*asked.compare))
        return
    if asked.page:
        asked.page.write_text(page(asked.out), encoding="utf-8")
        return
    asked.out.mkdir(parents=True, exist_ok=True)
    facts = machine()
    for name in asked.names or known:
        file = asked.out / f"{name}.json"
        alone = name in BY_THEMSELVES
        rounds = [
            by_itself(name, file) if alone else benchmark(name, asked.large, tuple(asked.sizes))
            for _ in range(max(asked.rounds, 1))
        ]
        result = {**merged(rounds), "machine": facts}
        file.write_text(json.dumps(result, indent=1), encoding="utf-8")
        print(table(result), flush=True)


if __name__ == "__main__":
    main()
