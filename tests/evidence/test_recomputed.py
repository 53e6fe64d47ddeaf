"""Numbers on pages, recomputed from raw rows by code that shares nothing with what made them: json and plain Python."""

import json
from collections.abc import Callable
from math import comb
from pathlib import Path
from typing import Any

import pytest

RESULTS = Path(__file__).parents[2] / "docs" / "results"
Rows = list[dict[str, Any]]


def stored(place: str) -> Rows:
    """Every line of a file, or of all files of a folder."""
    whole = RESULTS / place
    files = sorted(whole.glob("*.jsonl")) if whole.is_dir() else [whole]
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def cells(page: str, heading: str, first: list[str]) -> list[str]:
    """The row under a heading (or a word of its column names) that begins with these cells."""
    text = (RESULTS / f"{page}.md").read_text(encoding="utf-8").partition(heading)[2]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:2] == "| "]
    return next(row for row in rows if row[: len(first)] == first)


def mean(rows: Rows, name: str) -> float:
    return sum(float(row[name]) for row in rows) / len(rows)


def exactly(events: int, n: int, low: float, high: float) -> bool:
    """Whether these are Clopper and Pearson's ends, by sums of binomial probabilities: 2.5% beyond either."""

    def at_least(k: int, p: float) -> float:
        return sum(comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))

    lower = events == 0 or at_least(events, low - 6e-4) < 0.025 < at_least(events, low + 6e-4)
    upper = events == n or 1 - at_least(events + 1, high + 6e-4) < 0.025 < 1 - at_least(events + 1, high - 6e-4)
    return lower and upper


@pytest.mark.parametrize("kind", ["arms-2", "arms-5", "arms-30", "ties", "risky", "risky-40/60"])
def test_false_claims(kind: str) -> None:
    """Nothing is to be gained: all claims are false."""
    own = [row for row in stored("claims/now/rows.jsonl") if row["kind"] == kind]
    page = cells("claims", "now (", [kind, "fittedq"])
    claims = [row for row in own if row.get("shown") is not None]
    assert [int(page[2]), int(page[3]), int(page[4])] == [len(own), len(claims), len(claims)]
    share, low, _, high = page[5].replace("(", "").replace(")", "").split()
    assert float(share) == round(100 * len(claims) / len(own), 1)
    assert exactly(len(claims), len(own), float(low) / 100, float(high) / 100)
    assert float(page[6]) == pytest.approx(sum(row["shown"] for row in claims) / len(own), abs=5.1e-5)


def test_the_sentence_on_false_claims() -> None:
    own = stored("claims/now/rows.jsonl")
    claims = [row for row in own if "shown" in row]
    text = (RESULTS / "claims.md").read_text(encoding="utf-8")
    assert f"{len(own):,} logs of {len({row['kind'] for row in own})} kinds" in text
    assert f"{len(claims)} claims, **{100 * len(claims) / len(own):.1f}%**" in text


@pytest.mark.parametrize("way", ["tree", "linear", "tree-split", "linear-split"])
@pytest.mark.parametrize("kind", ["effect-weak", "effect-prognosis", "effect-strong"])
def test_the_usual_ways(kind: str, way: str) -> None:
    own = [row for row in stored("usual-ways/linear") if (row["kind"], row["way"]) == (kind, way)]
    page = cells("usual-ways", "## Now", [kind, way])
    claims = [row for row in own if "shown" in row]
    false = [row for row in claims if row["shown"] > row["true"]]
    assert [int(cell) for cell in page[2:5]] == [len(own), len(claims), len(false)]
    for cell, name in zip(page[6:8], ("shown", "true"), strict=True):
        assert float(cell) == pytest.approx(sum(row[name] for row in claims) / len(own), abs=5.1e-5)


@pytest.mark.parametrize(
    "trial", ["incentives, by person", "incentives, less costs, by person", "incentives", "insurance", "training"]
)
def test_real_trials(trial: str) -> None:
    own = [row for row in stored("real-trials") if row["trial"] == trial]
    page = cells("real-trials", "| trial | splits |", [trial])
    claims = [row for row in own if row["answer"] == "change"]
    assert [int(page[1]), int(page[2])] == [len(own), len(claims)]
    below = [row for row in claims if row["other"] < row["shown"]]
    clearly = [row for row in below if row["other"] + 1.645 * row["error"] < row["shown"]]
    assert [int(page[5]), int(page[6])] == [len(below), len(clearly)]
    for cell, name in zip(page[3:5], ("shown", "other"), strict=True):
        assert cell == (f"{mean(claims, name):+.3f}" if claims else "-")


@pytest.mark.parametrize("kind", ["tumor-3x667", "clinic-3x700", "clinic-1x2100", "null-arms-2", "null-steps-3"])
def test_rounds(kind: str) -> None:
    own = stored(f"rounds/{kind}.jsonl")
    page = cells("rounds", "# Rounds", [kind])
    claims = [row for row in own if row["claims"]]
    above = [row for row in claims if row["shown"] > row["true"]]
    assert [int(cell) for cell in page[1:4]] == [len(own), len(claims), len(above)]
    assert all(row["shown"] == pytest.approx(sum(row["rounds"])) for row in own)
    by_round = [f"{sum(row['rounds'][place] for row in own) / len(own):.2f}" for place in range(len(own[0]["rounds"]))]
    assert page[7].split(", ") == by_round
    assert float(page[6]) == pytest.approx(mean(own, "true"), abs=5.1e-3)


@pytest.mark.parametrize("heading", ["latest", "now", "first", "before"])
@pytest.mark.parametrize("scenario", ["half:all", "half:none", "half:own", "corner:own", "pocket:own"])
def test_holes(heading: str, scenario: str) -> None:
    own = [row for row in stored(f"holes/{heading}") if row["scenario"] == scenario and "error" not in row]
    own = list({row["seed"]: row for row in own}.values())
    page = cells("holes", f"<!-- rows: {heading} -->", [scenario, "1500"])
    claims = [row for row in own if row["claimed"]]
    false = [row for row in claims if row["shown"] > row["true"]]
    assert [int(cell) for cell in page[4:7]] == [len(own), len(claims), len(false)]
    if claims:
        assert [float(cell) for cell in page[9:11]] == pytest.approx(
            [mean(claims, "shown"), mean(claims, "true")], abs=5.1e-4
        )


NOTICED: tuple[tuple[str, Callable[[], None]], ...] = (
    ("claims", lambda: test_false_claims("arms-2")),
    ("rounds", lambda: test_rounds("tumor-3x667")),
)


@pytest.mark.parametrize(("page", "check"), NOTICED)
def test_a_number_that_was_changed_is_noticed(
    page: str, check: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (RESULTS / f"{page}.md").read_text(encoding="utf-8")
    changed = {
        "claims": ("| arms-2 | fittedq | 308 | 4 |", "| arms-2 | fittedq | 308 | 3 |"),
        "rounds": ("48.95", "49.95"),
    }
    assert changed[page][0] in text
    (tmp_path / f"{page}.md").write_text(text.replace(*changed[page]), encoding="utf-8")
    (tmp_path / page).symlink_to(RESULTS / page)
    monkeypatch.setattr(f"{__name__}.RESULTS", tmp_path)
    with pytest.raises(AssertionError):
        check()
