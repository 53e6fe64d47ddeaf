"""What the measured pages rest on: commit, date, command, whether code has changed since, and what a rerun would cost.

    python scripts/evidence.py             # as `make evidence`
    python scripts/evidence.py --follow    # also: do the pages' tables follow from their stored rows?

The commit is the one that a page (or its rows) names, else the last one that touched its rows. Stale: later commits
changed the library or the script. Cost: processor time that the rows tell, summed.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
COMMAND = re.compile(r"(?:python (benchmarks/\w+\.py)|poela reproduce ([\w-]+))[^`\n]*")
COMMIT = re.compile(r"\b[Cc]ommits?\s+`?([0-9a-f]{7,12})\b")
FOLLOW = {  # page: what prints its tables from stored rows
    "claims": ("claims.py", "claims/now", "claims/without-gate", "claims/before"),
    "real-trials": ("real_trials.py", "real-trials"),
    "rounds": ("rounds.py", "rounds"),
    "usual-ways": ("usual_ways.py", "usual-ways"),
}


@dataclass(frozen=True)
class Evidence:
    """One page."""

    page: str
    commit: str
    date: str
    command: str
    changed: int | None
    minutes: float | None

    def line(self) -> str:
        """As printed."""
        stale = "?" if self.changed is None else f"{self.changed} commits" if self.changed else "-"
        cost = "?" if self.minutes is None else f"{self.minutes:.0f} min"
        return f"{self.page:<16} {self.commit:<8} {self.date:<10} {stale:>12} {cost:>9}  {self.command}"


def git(*words: str) -> str:
    """What git says, or nothing."""
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()


def told_commits(page: Path) -> list[str]:
    """Commits that the page names, or else its rows."""
    named = COMMIT.findall(page.read_text(encoding="utf-8"))
    return named or sorted({str(row["commit"]) for row in rows_of(page) if row.get("commit")})


def rows_of(page: Path) -> Iterator[dict[str, object]]:
    """The stored rows of a page, where they are lines of JSON."""
    for file in sorted(page.with_suffix("").rglob("*.jsonl")):
        yield from map(json.loads, file.read_text(encoding="utf-8").splitlines())


def cost(page: Path) -> float | None:
    """Minutes of one processor."""
    seconds = [row.get("cpu", row.get("seconds")) for row in rows_of(page)]
    known = [float(one) for one in seconds if isinstance(one, int | float)]
    return sum(known) / 60 if known else None


def evidence(page: Path) -> Evidence:
    """One page's."""
    found = COMMAND.search(page.read_text(encoding="utf-8"))
    command = found[0].strip() if found else "no command"
    named = [commit for commit in told_commits(page) if git("cat-file", "-t", commit) == "commit"]
    kept = page.with_suffix("") if page.with_suffix("").is_dir() else page
    dated = sorted((git("log", "-1", "--format=%ct", one), one) for one in named)
    commit = dated[-1][1] if dated else git("log", "-1", "--format=%h", "--", str(kept))
    code = [found[1]] if found and found[1] else ["src/poela_experiments"]
    count = git("rev-list", "--count", "--no-merges", f"{commit}..HEAD", "--", "src/poela", *code) if commit else ""
    date = git("log", "-1", "--format=%cs", commit) if commit else ""
    return Evidence(page.stem, commit[:7], date, command, int(count) if count else None, cost(page))


def unfounded(page: str) -> list[str]:
    """Rows of the tables that stored rows give and the page does not have."""
    script, *folders = FOLLOW[page]
    words = [sys.executable, f"benchmarks/{script}", "--table", *(str(RESULTS / folder) for folder in folders)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        return [done.stderr[-300:]]
    text = (RESULTS / f"{page}.md").read_text(encoding="utf-8")
    return [line for line in done.stdout.splitlines() if line.startswith("| ") and line not in text]


def main() -> None:
    """Print the list; 1 if a table does not follow from its rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--follow", action="store_true")
    asked = parser.parse_args()
    print(f"{'page':<16} {'commit':<8} {'date':<10} {'code changed':>12} {'rerun':>9}  command")
    for page in sorted(RESULTS.glob("*.md")):
        print(evidence(page).line())
    wrong = {page: unfounded(page) for page in FOLLOW} if asked.follow else {}
    for name, lines in wrong.items():
        print(f"{name}: {'follows from its rows' if not lines else f'{len(lines)} rows differ, first {lines[0]}'}")
    sys.exit(any(wrong.values()))


if __name__ == "__main__":
    main()
