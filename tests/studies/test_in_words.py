"""What an answer says of policies that people can carry out: worth a trial, in words, and without drawing lots."""

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import poela
from poela.cli import main
from poela.learners.plainness import BY_LOT
from poela.simulators.registry import simulate
from poela.studies.plainness import best_of, is_sayable, needs_no_lots
from poela.studies.selection import Point, Selection, by_gain
from poela.studies.study import Study

pytestmark = pytest.mark.filterwarnings("ignore::poela.core.errors.PoelaWarning")  # notes on the tables
PROPENSITIES = {"wait": 0.4, "small": 0.35, "large": 0.25}


def stays(n: int = 1500, seed: int = 1) -> pa.Table:
    """Where lactate is high, on one ward, waiting harms and large helps; the gain is too small to be shown."""
    rng = np.random.default_rng(seed)
    lactate, ward = np.round(rng.gamma(2, 1.2, n), 1), rng.choice(["ICU", "surgery", "other"], n)
    action = rng.choice(3, n, p=list(PROPENSITIES.values()))
    mean = 0.5 + 0.25 * ((lactate > 2.1) & (ward == "ICU")) * np.array([-1, 0, 1])[action]
    columns = {"lactate": lactate, "ward": ward, "action": np.array(list(PROPENSITIES))[action]}
    chances = {f"propensity_{name}": np.full(n, chance) for name, chance in PROPENSITIES.items()}
    return pa.table({**columns, **chances, "reward": (rng.random(n) < mean) * 1.0})


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A study that keeps what is done, beside a rule that is worth a trial."""
    folder = tmp_path_factory.mktemp("kept")
    pq.write_table(stays(), folder / "log.parquet")
    poela.learn(
        folder / "log.parquet", out=folder / "study", learners=["rules"], backend="inline", outcome="survival, %"
    )
    return Study.open(folder / "study")


@pytest.fixture(scope="module")
def tilted(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A study whose best rule is a lottery: wait more often."""
    folder = tmp_path_factory.mktemp("tilted") / "study"
    poela.learn(simulate("tumor", episodes=120, seed=3), out=folder, learners=["rules"], backend="inline")
    return Study.open(folder)


def test_a_policy_that_is_worth_a_trial_is_named_and_said(kept: Study) -> None:
    assert kept.keeps_logging_policy
    result, answer = kept.result, kept.answer
    assert result is not None
    assert result.promising is not None
    name, rule = kept.name_of(kept.points[result.promising]), kept.promising.rule
    assert "lactate" in rule
    assert f"One policy is worth a trial ({name})" in answer.why
    assert (result.plain, result.words) == (result.promising, rule)
    own = kept.points[result.promising].metrics["own"]
    assert own is not None
    assert answer.words == (
        f"In words: {rule[0].lower()}{rule[1:].rstrip('.')} (alone at least {100 * own:+.1f} percentage points in "
        "survival, 95%)."
    )


def test_a_ladder_of_a_study_that_keeps_shows_what_was_tried(kept: Study) -> None:
    rows = kept.ladder().to_pylist()
    assert len(rows) >= 3
    assert all(row["departure"] >= 0.005 for row in rows)
    assert [row["name"] for row in rows if row["role"] == "worth a trial"] == [
        kept.name_of(kept.points[kept.result.promising])  # type: ignore[union-attr, index]
    ]
    assert [row["ess"] for row in rows] == sorted((row["ess"] for row in rows), reverse=True)


def test_policies_that_are_the_same_or_change_nothing_are_not_counted(kept: Study) -> None:
    runs = {point.path_id for point in kept.points}
    weights = {
        (run, point.number): np.concatenate(
            [kept.store.held_out(f"{run}-{fold}").log_weights[point.number] for fold in range(kept.n_folds)]
        )
        for run in runs
        for point in kept.points
        if point.path_id == run
    }
    assert len(weights) >= 5
    for (_, one), (_, other) in combinations(weights.items(), 2):
        assert not np.array_equal(one, other)
    assert all(point.metrics["departure"] for point in kept.points)
    assert f"None of {len(kept.points)} policies" in kept.answer.why


def test_decisions_by_a_policy_that_is_worth_a_trial_say_that_nothing_is_shown(
    kept: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(stays(5, seed=2).drop_columns(["reward"]), tmp_path / "new.parquet")
    out = ["--out", str(tmp_path / "decisions.csv")]
    assert main(["decide", str(kept.directory / "promising"), "--rows", str(tmp_path / "new.parquet"), *out]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Nothing is shown for this policy among all that were tried. Worth a trial: at least +" in said
    assert "percentage points in survival if it had been the only one tried (95%)" in said


def test_a_rule_that_draws_lots_stands_beside_the_best_that_does_not(tilted: Study) -> None:
    result = tilted.result
    assert result is not None
    assert result.chosen is not None
    assert result.lotless is not None
    chosen, lotless = tilted.points[result.chosen], tilted.points[result.lotless]
    assert chosen.metrics["plainness"] == BY_LOT
    assert "2 times the odds: 50% becomes 67%" in tilted.answer.words
    without = [point for point in tilted.points if point.metrics["plainness"] != BY_LOT]
    assert lotless.metrics["shown"] == max(point.metrics["shown"] or 0.0 for point in without)
    least = f"at least +{lotless.metrics['shown']:.2f}."
    assert tilted.answer.words.endswith(
        f"Without random draws: {tilted.name_of(lotless)}, which lists the barred actions of each case; {least}"
    )
    stored = poela.load_policy(tilted.directory / "without-lots")
    assert stored.content_hash == tilted.policy_of(lotless).content_hash
    card = (tilted.directory / "without-lots" / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert "Without random draws" in card


def point(name: str, plainness: float | None, **metrics: float | None) -> Point:
    return Point(name, 0, True, {**metrics, **({} if plainness is None else {"plainness": plainness})}, "trust")


def test_lots_are_less_plain_than_rules_and_what_needs_none_is_found() -> None:
    tilt, lots = point("tilt", None, shown=1.0, own=1.2), point("lots", BY_LOT, shown=0.99, own=1.1)
    rule, bans = point("rule", 2.0, shown=0.95, own=0.5), point("bans", 3.0, shown=0.8, own=0.9)
    points = [tilt, lots, rule, bans]
    assert by_gain(points, Selection("gain", confidence=0.95)).chosen is rule
    assert by_gain([tilt, lots, bans], Selection("gain", confidence=0.95)).chosen is lots
    assert best_of(points, tilt, is_sayable) is lots
    assert best_of(points, lots, needs_no_lots) is rule
    assert best_of(points, None, needs_no_lots) is bans  # by the bound of its own
    losing: list[Any] = [point("a", 0.0, shown=-0.1, own=-0.2)]
    assert best_of(losing, None, is_sayable) is None
