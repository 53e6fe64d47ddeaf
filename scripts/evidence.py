"""What the measured pages rest on: commit, date, command, machine, whether their code has changed since, and the cost.

    python scripts/evidence.py                  # as `make evidence`
    python scripts/evidence.py --follow         # also: do the pages' tables follow from their stored rows?
    python scripts/evidence.py --record PAGE …  # after rows were made: note commit, machine, cost and code again

What belongs to which page is told in docs/results/evidence.toml; what was noted is in evidence.json beside it. The
commit is the oldest that current rows (or the page) name, else the last one that touched them. A page is current while
the modules that its command runs through do what they did at that commit (`code_behind.py`). Cost: minutes of one
processor, as rows tell.
"""

import argparse
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]  # where it runs as a script

from scripts.code_behind import fingerprint, sources_at, sources_here  # noqa: E402

RESULTS = ROOT / "docs" / "results"
TOLD = RESULTS / "evidence.toml"
NOTED = RESULTS / "evidence.json"
MINUTES_OF = ("cpu", "seconds")  # what rows call their processor time


@dataclass(frozen=True, kw_only=True)
class Told:
    """A page's entry in evidence.toml, whose head says what is what."""

    command: str
    current: tuple[str, ...] = ()
    history: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    commit: str = ""
    machine: str = ""
    minutes: float | None = None

    def entries(self) -> list[str]:
        """The modules (and settings) that the command starts from."""
        words = self.command.split()
        if words[:2] == ["poela", "reproduce"]:
            from poela_experiments.registry import EXPERIMENTS

            module = EXPERIMENTS[words[2]].place.partition(":")[0]
            return [f"poela_experiments.{module}", f"poela_experiments.data.{words[2]}", *self.also]
        return [".".join(Path(words[1]).with_suffix("").parts[1:]), *self.also]


@dataclass(frozen=True, kw_only=True)
class Noted:
    """What was noted of a page's current rows."""

    commit: str
    date: str
    machine: str
    minutes: float | None
    code: str


@cache
def told() -> dict[str, Told]:
    """Every page's entry."""
    entries = tomllib.loads(TOLD.read_text(encoding="utf-8"))
    return {page: Told(**{name: _frozen(value) for name, value in one.items()}) for page, one in entries.items()}


def noted() -> dict[str, Noted]:
    """What was noted of every page."""
    return {page: Noted(**one) for page, one in json.loads(NOTED.read_text(encoding="utf-8")).items()}


@cache
def code_now(page: str) -> str:
    """The fingerprint of the page's code as it is."""
    return fingerprint(told()[page].entries(), _here())


@cache
def _here() -> Mapping[str, str]:
    return sources_here(ROOT)


def is_current(page: str) -> bool:
    """Whether the code that made the page's numbers still does the same."""
    return noted()[page].code == code_now(page)


def state_line(page: str) -> str:
    """What the site says under the title of a page."""
    one, of = told()[page], noted()[page]
    state = "Current: its code has not changed since." if is_current(page) else "Made by earlier code."
    cost = "" if of.minutes is None else f", {_cost(of.minutes)} of one processor"
    older = f" {len(one.history)} older tables are kept as history." if one.history else ""
    return f"**{state}** Commit `{of.commit}` of {of.date}, {of.machine}{cost}: `{one.command}`.{older}"


def evidence_page() -> str:
    """All pages in one table, for the site."""
    head = "| page | state | commit | date | machine | a rerun costs | command |\n|---|---|---|---|---|---|---|\n"
    rows = []
    for page, one in told().items():
        of, state = noted()[page], "current" if is_current(page) else "earlier code"
        cost = "not known" if of.minutes is None else _cost(of.minutes)
        rows.append(
            f"| [{page.removeprefix('../')}]({page}.md) | {state} | `{of.commit}` | {of.date} | {of.machine} | {cost} "
            f"| `{one.command}` |\n"
        )
    return (
        "# What the measured pages rest on\n\n"
        "*Current*: the modules that the command runs through do what they did when the rows were made (comments and "
        "docstrings aside). *Earlier code*: some of them have changed since, so a rerun may give other numbers. Costs "
        f"are of one processor. The commit is the oldest of the rows that the page rests on.\n\n{head}{''.join(rows)}\n"
        "`make evidence` prints this, and checks that the tables of pages follow from their stored rows.\n"
    )


def rows_of(places: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """Stored rows, where they are lines of JSON or a list named `rows`."""
    for place in places:
        whole = RESULTS / place
        for file in sorted(whole.glob("*.json*")) if whole.is_dir() else [whole]:
            if file.suffix == ".jsonl":
                yield from map(json.loads, file.read_text(encoding="utf-8").splitlines())
            elif file.suffix == ".json":
                read = json.loads(file.read_text(encoding="utf-8"))
                yield from read.get("rows", ())


def minutes_of(rows: Iterable[Mapping[str, Any]]) -> float | None:
    """Of one processor; None where no row tells."""
    times = [next((row[name] for name in MINUTES_OF if name in row), None) for row in rows]
    known = [float(one) for one in times if one is not None]
    return round(sum(known) / 60, 1) if known else None


def record(page: str) -> Noted:
    """What there is to note of a page, by its rows and git."""
    one = told()[page]
    rows = list(rows_of(one.current))
    named = sorted({str(row["commit"]) for row in rows if row.get("commit")} | ({one.commit} - {""}))
    commit = (
        min(named, key=lambda name: int(_git("log", "-1", "--format=%ct", name))) if named else _touched(one.current)
    )
    return Noted(
        commit=commit,
        date=_git("log", "-1", "--format=%cs", commit),
        machine=one.machine or ", ".join(_machines(one.current, rows)) or "machine not noted",
        minutes=one.minutes if one.minutes is not None else minutes_of(rows),
        code=fingerprint(one.entries(), _at(commit)),
    )


@cache
def _at(commit: str) -> Mapping[str, str]:
    return sources_at(ROOT, commit)


def _time_of(commit: str) -> int:
    return int(_git("log", "-1", "--format=%ct", commit))


def _touched(places: Iterable[str]) -> str:
    """The last commit that changed rows (pictures beside them are drawn again for less)."""
    files = [f":(glob)docs/results/{place}/**/*.{end}" for place in places for end in ("parquet", "json", "jsonl")]
    files += [f"docs/results/{place}" for place in places if (RESULTS / place).is_file()]
    return _git("log", "-1", "--format=%h", "--", *files)


def _machines(places: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """As rows tell, or the record beside the tables of an experiment."""
    found = {str(row["machine"]) for row in rows if row.get("machine")}
    for made in (RESULTS / place / "made.json" for place in places):
        if made.exists():
            found |= {str(one["machine"]["device"]) for one in json.loads(made.read_text(encoding="utf-8"))["made"]}
    return iter(sorted(found))


def unfounded(page: str) -> list[str]:
    """Rows of the tables that stored rows give and the page does not have."""
    text = (RESULTS / f"{page}.md").read_text(encoding="utf-8")
    missing = []
    for command in told()[page].follows:
        script, *rest = shlex.split(command)
        words = [word if word.startswith("-") else str(RESULTS / word) for word in rest]
        done = subprocess.run(
            [sys.executable, f"benchmarks/{script}", *words], cwd=ROOT, capture_output=True, text=True
        )
        if done.returncode or "| " not in done.stdout:
            return [f"{command}: {done.stderr[-300:] or 'no table'}"]
        missing += [line for line in done.stdout.splitlines() if line.startswith("| ") and line not in text]
    return missing


def is_live(command: str) -> bool:
    """Whether there is such a script or experiment.

    >>> is_live("poela reproduce tumor --full"), is_live("poela reproduce coverage --full")
    (True, False)
    """
    from poela_experiments.registry import EXPERIMENTS

    if experiment := re.match(r"poela reproduce ([\w-]+)", command):
        return experiment[1] in EXPERIMENTS or experiment[1] == "list"
    script = re.match(r"python ((?:benchmarks|scripts|tests)/[\w/]+\.py)", command)
    return script is not None and (ROOT / script[1]).exists()


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _cost(minutes: float) -> str:
    """Minutes, or hours.

    >>> _cost(44.8), _cost(150.0)
    ('45 minutes', '2.5 hours')
    """
    return f"{minutes:.0f} minutes" if minutes < 90 else f"{minutes / 60:.1f} hours"


def _note(pages: Iterable[str]) -> None:
    old = noted() if NOTED.exists() else {}
    new = {**old, **{page: record(page) for page in pages}}
    text = json.dumps({page: asdict(new[page]) for page in sorted(new) if page in told()}, indent=1)
    NOTED.write_text(f"{text}\n", encoding="utf-8")


def main() -> None:
    """Print the list; 1 if a table does not follow from its rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--follow", action="store_true")
    parser.add_argument("--record", nargs="*", metavar="PAGE", help="these pages, or all")
    asked = parser.parse_args()
    if asked.record is not None:
        _note(asked.record or told())
    print(f"{'page':<16} {'commit':<8} {'date':<10} {'state':<8} {'rerun':>11}  {'machine':<24} command")
    stale, costs = [page for page in told() if not is_current(page)], [one.minutes for one in noted().values()]
    for page, one in told().items():
        of, state = noted()[page], "earlier" if page in stale else "current"
        cost = "not known" if of.minutes is None else _cost(of.minutes)
        print(f"{page:<16} {of.commit:<8} {of.date:<10} {state:<8} {cost:>11}  {of.machine[:24]:<24} {one.command}")
    known = [one for one in costs if one is not None]
    print(f"{len(stale)} of {len(told())} made by earlier code; cost known of {len(known)}: {_cost(sum(known))}")
    wrong = {page: unfounded(page) for page in told() if told()[page].follows} if asked.follow else {}
    for name, lines in wrong.items():
        print(f"{name}: {'follows from its rows' if not lines else f'{len(lines)} rows differ, first {lines[0]}'}")
    sys.exit(any(wrong.values()))


if __name__ == "__main__":
    main()
