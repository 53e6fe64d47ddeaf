"""One marked person in a log: nothing that is written about a study tells of them."""

import html
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from poela.cli import main
from poela.data.trajectories import Trajectories
from poela.report.numbers.judged import histogram, joined_groups, propensity_calibration, told

RARE, ACTION, EXTREME, LONG = "zq-rare-ward", "chemo", -37.125, 9  # of the marked person alone
FEW = re.compile(
    r"(?<![\d.,])[1-9] (?:(?:logged|held-out|similar|past) )?(?:cases?|contexts?|decisions?|times|episodes?)\b"
)


def table() -> pa.Table:
    """Four hundred usual cases of three steps in two wards, and the marked one."""
    rng = np.random.default_rng(0)
    rows = []
    for case in range(401):
        marked = case == 77
        ward = RARE if marked else ("north", "south")[case % 2]
        for step in range(LONG if marked else 3):
            age = float(np.round(rng.normal(50, 10), 1))
            treat = rng.random() < 0.5
            action = ACTION if marked and step < 2 else "treat" if treat else "wait"
            reward = EXTREME / LONG if marked else (age - 50) / 10 * (1 if treat else -1) + rng.normal()
            rows.append({"episode": case, "step": step, "age": age, "ward": ward, "action": action, "reward": reward})
    return pa.Table.from_pylist(rows)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("disclosure")
    pq.write_table(table(), place / "logs.parquet")
    usual = ["--learners", "fittedq", "--folds", "2", "--jobs", "1", "--no-rule"]
    for name in ("study", "other"):
        flags = ["--by", "ward"] if name == "study" else []
        assert main(["learn", str(place / "logs.parquet"), "--out", str(place / name), *usual, *flags]) == 0
    return place


def written(folder: Path, *words: str) -> str:
    """The page that a command writes, as text."""
    out = folder / "page.html"
    out.unlink(missing_ok=True)
    assert main(["report", *words, "--out", str(out)]) == 0
    return html.unescape(re.sub("<(?:style|script).*?</(?:style|script)>", "", out.read_text(), flags=re.DOTALL))


def leaks(text: str) -> Iterator[str]:
    """What tells of the marked person."""
    if RARE in text:
        yield RARE
    plain = text.replace(",", "").replace("−", "-")
    yield from re.findall(r"-37\.1\d*", plain)
    # How large a group must be to be noticed is no count of persons, nor is the usual number of steps.
    counted = re.sub("may go unnoticed.*?</li>|: 3 decisions in most cases", "", text)
    yield from (found[0] for found in FEW.finditer(counted))
    yield from re.findall(rf"to {LONG} decisions", text)
    yield from re.findall(r"One case, step by step", text)
    if match := re.search(rf"{ACTION}</(?:td|th)>\s*<td[^>]*>([1-9])<", text):
        yield match[0]


def test_a_page_tells_nothing_of_one_person(folder: Path) -> None:
    study, logs = str(folder / "study"), ["--logs", str(folder / "logs.parquet")]
    pages = {
        "page": written(folder, study, *logs),
        "by": written(folder, study, *logs, "--by", "ward,age:3,step"),
        "brief": written(folder, study, *logs, "--brief", "--by", "ward"),
        "without logs": written(folder, study),
        "compare": written(folder, "--compare", study, str(folder / "other")),
    }
    assert {name: list(leaks(text)) for name, text in pages.items()} == {name: [] for name in pages}
    assert "under 10" in pages["page"]  # of the rare action
    assert "or other" in pages["by"]  # the rare ward


def test_a_page_that_is_asked_for_one_case_shows_it(folder: Path) -> None:
    asked = written(folder, str(folder / "study"), "--logs", str(folder / "logs.parquet"), "--trajectory", "77")
    assert "One case, step by step" in asked


def test_the_smallest_group_of_a_page_may_be_larger(folder: Path) -> None:
    study, logs = str(folder / "study"), ["--logs", str(folder / "logs.parquet")]
    assert "under 50" in written(folder, study, *logs, "--smallest-group", "50")
    assert "under 10" not in written(folder, study, *logs, "--smallest-group", "50")
    # Of the stored groups, those of a column where one is too small are left out.
    assert "ward: north" in written(folder, study)
    assert "ward: north" not in written(folder, study, "--smallest-group", "250")


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_answers_by_group_tell_nothing_of_one_person(
    flags: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study, logs = str(folder / "study"), str(folder / "logs.parquet")
    for command in (["studies", "show", study], ["evaluate", study, "--logs", logs, "--by", "ward"]):
        assert main([*command, *flags]) == 0
        assert list(leaks(capsys.readouterr().out)) == []


def test_told_counts_cannot_be_found_out_by_subtraction() -> None:
    """For every true count of the small one, sum and other counts being known, others would look the same."""
    seen = {tuple(one.words for one in told([124 - few, 36, few])) for few in range(1, 10)}
    assert len({words for words in seen if words[0] == "about 120"}) == 1
    assert sum(words[0] == "about 120" for words in seen) == 1
    assert [one.words for one in told([10, 0, 25])] == ["10", "0", "25"]


@pytest.mark.parametrize("seed", range(8))
def test_histograms_show_no_ends_and_no_few(seed: int) -> None:
    """By brute force over all values: each bar that tells a number has ten cases, and all that is told is right."""
    rng = np.random.default_rng(seed)
    kinds = (
        rng.normal(size=300),
        rng.integers(0, 6, 60).astype(float),
        rng.choice([0.1, 0.7, 7.3], 40),
        rng.pareto(1.5, 500),
    )
    values = np.append(kinds[seed % 4], [1234.5, -999.25])
    bars = histogram(values)
    assert not {1234.5, -999.25} & {end for bar in bars for end in (bar.low, bar.high)}
    reached = 0
    for bar in bars:
        low, high = -np.inf if bar.low is None else bar.low, np.inf if bar.high is None else bar.high
        inside = values == low if low == high else (values >= low) & (values < high)
        reached += int(inside.sum())
        number = int(inside.sum())
        if bar.cases.words.startswith("under"):
            assert number < 10
            assert bar.cases.number == 0
        else:
            assert number >= 10
            assert abs(bar.cases.number - number) <= (5 if bar.cases.words.startswith("about") else 0)
    assert reached >= len(values) - 9
    assert bars[0].low is None
    assert bars[-1].high is None


def test_bars_and_dots_count_persons_and_not_their_cases() -> None:
    """Twelve cases of one person are those of one person."""
    values, units = np.repeat([0.0, 1.0, 2.0], [40, 12, 40]), np.append(np.arange(40), [99] * 12 + [*range(40, 80)])
    assert [bar.cases.words for bar in histogram(values, units)] == ["about 40", "under 10", "about 40"]
    np.testing.assert_array_equal(joined_groups(values.astype(int), units), np.repeat([0, 1, 1], [40, 12, 40]))
    chances = np.where(values == 1, 0.97, 0.5)
    logs = Trajectories(
        values[:, None],
        np.zeros(92, int),
        values,
        np.arange(93),
        np.column_stack([chances, 1 - chances]),
        clusters=units,
    )
    fit = propensity_calibration(logs)
    assert fit is not None
    assert fit.every_action.predicted.tolist() == [0.5]
