"""A policy while it runs: from a study and receipts to words, a page and an exit code."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import poela
from poela import InputError, Study, Trajectories
from poela.cli import main
from poela.rounds.compared import Units, against_practice, compared, two_arms
from poela.rounds.drift import Drift
from poela.rounds.looks import WatchPlan, sequence_boundary
from poela.rounds.watch import Watched, _refuse_inexact
from poela.stats.bounds import Bounds


def logged(n: int, seed: int) -> pa.Table:
    """'treat' helps where x > 0 and harms elsewhere; a coin decides."""
    rng = np.random.default_rng(seed)
    x, treated = rng.normal(size=n), rng.random(n) < 0.5
    reward = outcome(x, treated, rng)
    columns = {"x": x, "action": np.where(treated, "treat", "wait"), "reward": reward}
    return pa.table({**columns, "propensity_treat": np.full(n, 0.5), "propensity_wait": np.full(n, 0.5)})


def outcome(x: Any, treated: Any, rng: np.random.Generator, shift: Any = 0.0) -> Any:
    return np.where(treated, 2.0, -2.0) * np.sign(x) + rng.normal(size=len(x)) + shift


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("watched")
    pq.write_table(logged(500, 0), folder / "logs.parquet")
    flags = ["--learners", "fittedq", "--folds", "2", "--backend", "inline"]
    assert main(["learn", str(folder / "logs.parquet"), "--out", str(folder / "study"), *flags]) == 0
    return folder


@pytest.fixture
def study(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made / "study", tmp_path / "study")
    return tmp_path / "study"


def rows(n: int, seed: int, **shift: Any) -> pa.Table:
    x = np.random.default_rng(seed).normal(size=n) + shift.get("x", 0.0)
    return pa.table({"case": [f"c{number:05d}" for number in range(n)], "x": x})


def deployed(study: Path, n: int, seed: int = 1, **shift: Any) -> tuple[Path, pa.Table]:
    """Cases decided by the study's policy, with receipts; and what came of them."""
    folder = study.parent
    pq.write_table(rows(n, seed, **shift), folder / "rows.parquet")
    flags = ["--rows", str(folder / "rows.parquet"), "--receipts", str(folder / "receipts"), "--no-similar"]
    assert main(["decide", str(study), *flags, "--out", str(folder / "decided.parquet"), "--overwrite"]) == 0
    decided = pq.read_table(folder / "decided.parquet")
    said = decided["action"].to_numpy(zero_copy_only=False)
    rng = np.random.default_rng(seed + 100)
    done = np.where(rng.random(n) < shift.get("follow", 1.0), said, np.where(said == "treat", "wait", "treat"))
    reward = outcome(decided["x"].to_numpy(), done == "treat", rng, shift.get("outcome", 0.0))
    return folder / "receipts", pa.table({"case": decided["case"], "reward": reward, "done": done})


def named(watched: Watched, name: str) -> Drift:
    return next(check for check in watched.drift if check.name == name)


def test_from_receipts_to_words_and_a_page(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    receipts, known = deployed(study, 400)
    pq.write_table(known.slice(0, 350), study.parent / "outcomes.parquet")
    flags = ["watch", str(study), "--receipts", str(receipts), "--outcomes", str(study.parent / "outcomes.parquet")]
    page = study.parent / "watch.html"
    assert main([*flags, "--page", str(page)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Better than before: at least +" in printed
    assert "50 of 400 cases have no outcome yet: unfinished" in printed
    assert "Look 1: 350 cases" in printed
    assert "Watching" in page.read_text()
    assert page.read_text().count("<svg") == 1 + 3  # over time, and one for each check that has a boundary
    assert main([*flags, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["look"] == 1  # the same cases again are no new look
    assert not document["stop"]
    assert document["main"]["low"] > 0
    pq.write_table(known, study.parent / "outcomes.parquet")
    assert main([*flags, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["look"] == 2


def test_harm_ends_with_exit_code_3(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    receipts, known = deployed(study, 300, outcome=-8.0)
    pq.write_table(known, study.parent / "outcomes.parquet")
    flags = ["--receipts", str(receipts), "--outcomes", str(study.parent / "outcomes.parquet")]
    assert main(["watch", str(study), *flags]) == 3
    assert "Stop: worse than before by at least" in capsys.readouterr().out


def test_before_and_after_is_the_difference_of_means(study: Path) -> None:
    receipts, known = deployed(study, 300)
    watched = poela.watch(study, receipts, outcomes=known)
    old = Study.open(study).record.logging_policy
    new = known["reward"].to_numpy()
    of_old = old.standard_error * np.sqrt(Study.open(study).record.data.validation_episodes)
    error = np.hypot(max(new.std(ddof=1), of_old) / np.sqrt(300), old.standard_error)
    assert watched.main.value == pytest.approx(new.mean() - old.value)
    assert watched.main.error == pytest.approx(error)
    assert watched.main.low is not None
    assert watched.main.low == pytest.approx(watched.main.value - sequence_boundary(300, 0.05, 1000) * error)
    assert not watched.stop
    assert {check.name for check in watched.drift} == {"policy", "drawn", "contexts", "outcome"}


class Coin:
    def probabilities(self, contexts: Any) -> Any:
        return np.full((len(contexts), 2), 0.5)


def test_a_practice_that_the_policy_never_does_is_not_compared_with(study: Path) -> None:
    receipts, known = deployed(study, 600)
    watched = poela.watch(study, receipts, outcomes=known, practice=Coin())
    assert watched.main.name == "practice"
    assert watched.main.low is None
    assert "do not show what the old practice would have got" in watched.answer
    watched = poela.watch(study, receipts, outcomes=known)
    assert watched.model is None  # nor with a model of it
    assert not any("model of the old practice" in note for note in watched.notes)


def test_against_practice_by_weights() -> None:
    """Treat in 70% where practice did in 30%, an effect of 1: +0.4, within the bounds."""
    rng = np.random.default_rng(2)
    treated = rng.random(4000) < 0.7
    weights = np.where(treated, 0.3 / 0.7, 0.7 / 0.3)
    cases = Units(treated + rng.normal(size=4000), np.arange(4000), weights)
    found = against_practice(cases, WatchPlan(), (4000,))
    assert found.value == pytest.approx(0.4, abs=4 * found.error)
    # influence: (1 − w)·noise, w = 3/7 in 70% and 7/3 in 30% of cases
    assert found.error == pytest.approx(np.sqrt((0.7 * (4 / 7) ** 2 + 0.3 * (4 / 3) ** 2) / 4000), rel=0.05)
    assert found.low is not None
    assert 0 < found.low < 0.4


def test_planned_looks_are_counted_and_end(study: Path) -> None:
    receipts, known = deployed(study, 240)
    for look, size in enumerate((80, 160), start=1):
        watched = poela.watch(study, receipts, outcomes=known.slice(0, size), looks=2, method="pocock")
        assert watched.look == look
    assert len(watched.path) == 2
    with pytest.raises(InputError, match="all 2 planned looks are used"):
        poela.watch(study, receipts, outcomes=known)
    with pytest.raises(InputError, match="the first look was taken with another method"):
        poela.watch(study, receipts, outcomes=known, method="sequence")


def test_a_study_that_cannot_be_written_has_its_looks_beside_it(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    receipts, known = deployed(study, 60)
    monkeypatch.setattr("poela.rounds.looks.os.access", lambda *given, **more: False)
    poela.watch(study, receipts, outcomes=known)
    assert (study.parent / "study.watch.json").exists()
    assert not (study / "watch.json").exists()


def test_thirty_in_a_hundred_do_not_follow(study: Path) -> None:
    receipts, known = deployed(study, 400, follow=np.where(np.arange(400) < 200, 1.0, 0.4))
    watched = poela.watch(study, receipts, outcomes=known, done="done")
    check = named(watched, "adherence")
    assert check.drifted
    assert "100% before, " in check.words
    assert "since about case 201" in check.words
    assert watched.stop
    assert watched.adherence == pytest.approx(0.7, abs=0.05)
    assert not named(watched, "drawn").drifted  # what was recommended was drawn as it should be
    steady = deployed(study, 400, follow=0.7)[1]
    (study / "watch.json").unlink()
    watched = poela.watch(study, receipts, outcomes=steady, done="done")
    assert not watched.stop
    assert "of recommendations are followed, as at first" in named(watched, "adherence").words


def test_a_drift_in_month_three(study: Path) -> None:
    month = np.repeat([1, 2, 3], 150)
    receipts, known = deployed(study, 450, x=np.where(month == 3, 1.5, 0.0), outcome=np.where(month == 3, -3.0, 0.0))
    watched = poela.watch(study, receipts, outcomes=known.slice(0, 300))
    assert not watched.stop
    watched = poela.watch(study, receipts, outcomes=known)
    assert named(watched, "contexts").drifted
    assert "the mean of x went from" in named(watched, "contexts").words
    assert named(watched, "outcome").drifted
    assert "what an action does has changed" in named(watched, "outcome").words
    assert any("bounds are about the mean over all cases so far" in note for note in watched.notes)


def test_cases_of_another_policy_are_named(study: Path) -> None:
    cases = poela.read_logs(logged(200, 5))
    watched = poela.watch(study, cases)
    assert named(watched, "policy").drifted
    assert "another policy" in named(watched, "policy").words
    wrong = Trajectories([[0.0]] * 40, [0, 1] * 20, [0.0] * 40, np.arange(41))
    with pytest.raises(InputError, match="other features or actions than the policy"):
        poela.watch(study, wrong)


def test_actions_that_are_not_drawn_as_they_should_be(study: Path) -> None:
    receipts, known = deployed(study, 400)
    cases = poela.read_logs(receipts, outcomes=known, layout=Study.open(study).record.data.layout)
    likeliest = np.asarray(cases.propensities).argmax(axis=1)
    watched = poela.watch(study, replace(cases, actions=np.where(np.arange(400) % 2, likeliest, 0)))
    assert named(watched, "drawn").drifted
    assert "not drawn as they should be" in named(watched, "drawn").words


def test_exact_bounds_need_a_range(study: Path) -> None:
    receipts, known = deployed(study, 100)
    with pytest.raises(InputError, match="exact bounds need the range of returns"):
        poela.watch(study, receipts, outcomes=known, method="exact")


def test_exact_bounds_hold_for_no_weights_and_no_returns_beyond_them() -> None:
    units = Units(np.array([0.0, 1.0, 2.0]), np.arange(3))
    _refuse_inexact(units, Bounds(0.0, 2.0), None)
    with pytest.raises(InputError, match="1 of 3 episodes have returns outside of 0 to 1"):
        _refuse_inexact(units, Bounds(0.0, 1.0), None)
    with pytest.raises(InputError, match="leave practice= and beside= away, or the method"):
        _refuse_inexact(units, Bounds(0.0, 2.0), Coin())


def test_each_look_has_the_cases_of_those_before(study: Path) -> None:
    """Other cases each time would be other logs, each with a chance of its own to claim something."""
    receipts, known = deployed(study, 300)
    assert not any("came late" in note for note in poela.watch(study, receipts, outcomes=known.slice(0, 100)).notes)
    with pytest.raises(InputError, match="100 of the 100 cases of earlier looks are not in these logs"):
        poela.watch(study, receipts, outcomes=known.slice(100, 100))
    assert len(json.loads((study / "watch.json").read_text())["looks"]) == 1  # what is refused is no look
    most = known.filter(pa.array(np.arange(300) != 7)).slice(0, 199)
    said = " ".join(poela.watch(study, receipts, outcomes=most).notes)
    assert "1 cases of earlier looks are gone" in said
    assert "came late" not in said
    said = " ".join(poela.watch(study, receipts, outcomes=known).notes)
    assert "the outcomes of 1 cases came late" in said
    assert "gone" not in said


def test_rows_without_names_are_told_by_what_they_hold(study: Path) -> None:
    cases = poela.read_logs(logged(300, 5))
    poela.watch(study, cases.take(np.arange(100)))
    with pytest.raises(InputError, match="give the whole log since the policy began"):
        poela.watch(study, poela.read_logs(logged(300, 6)))
    assert poela.watch(study, cases).look == 2


def test_receipts_of_two_policies_in_one_folder(made: Path, study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each study watches its own, and the next round learns from both apart."""
    second = study.parent / "second"
    if not (made / "second").exists():
        pq.write_table(logged(500, 7), made / "logs2.parquet")
        flags = ["--learners", "fittedq", "--folds", "2", "--backend", "inline", "--rounds", "2"]
        assert main(["learn", str(made / "logs2.parquet"), "--out", str(made / "second"), *flags]) == 0
    shutil.copytree(made / "second", second)
    receipts, known = deployed(study, 120)
    pq.write_table(rows(200, 2).slice(120), study.parent / "rows2.parquet")
    flags = ["--rows", str(study.parent / "rows2.parquet"), "--receipts", str(receipts), "--no-similar"]
    assert main(["decide", str(second), *flags, "--out", str(study.parent / "decided2.parquet")]) == 0
    decided = pq.read_table(study.parent / "decided2.parquet")
    treated = np.array(decided["action"].to_pylist()) == "treat"
    reward = outcome(decided["x"].to_numpy(), treated, np.random.default_rng(3))
    all_known = pa.concat_tables(
        [known.select(["case", "reward"]), pa.table({"case": decided["case"], "reward": reward})]
    )
    watched = poela.watch(study, receipts, outcomes=all_known)
    assert watched.main.units == 120
    assert not named(watched, "policy").drifted
    other = Study.open(second).acting_policy.short_hash
    assert f"80 of 200 receipts are of policy {other}: left out" in watched.notes
    pq.write_table(all_known, study.parent / "known.parquet")
    capsys.readouterr()
    logs = [str(made / "logs2.parquet"), str(receipts), "--outcomes", str(study.parent / "known.parquet")]
    flags = ["--logged-by", f"practice,{second},{study}", "--after", str(second), "--current", str(second)]
    flags += ["--learners", "fittedq", "--folds", "2", "--backend", "inline", "--json"]
    assert main(["learn", *logs, "--out", str(study.parent / "third"), *flags]) == 0
    rounds = Study.open(study.parent / "third").record.rounds
    assert rounds is not None
    assert sorted(log.episodes for log in rounds.logs) == [80, 120, 500]
    assert "left out" not in capsys.readouterr().err
    assert main(["learn", *logs, "--out", str(study.parent / "fourth"), "--after", str(second)]) == 2
    assert "has receipts of several policies: say whose they are" in " ".join(capsys.readouterr().err.split())
    strange = ["--logged-by", f"practice,{made / 'study' / 'policy'}", "--after", str(second)]
    (receipts / "kept").mkdir()
    for part in sorted(receipts.glob("part-*"))[:1]:
        part.rename(receipts / "kept" / part.name)
    assert main(["learn", *logs, "--out", str(study.parent / "fourth"), *strange]) == 2
    assert "has no receipts of" in " ".join(capsys.readouterr().err.split())


def test_practice_beside_is_the_difference_of_two_means(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    receipts, known = deployed(study, 300)
    practice = logged(200, 9)
    pq.write_table(practice, study.parent / "practice.parquet")
    pq.write_table(known, study.parent / "known.parquet")
    capsys.readouterr()
    flags = ["--receipts", str(receipts), "--outcomes", str(study.parent / "known.parquet")]
    assert main(["watch", str(study), *flags, "--beside", str(study.parent / "practice.parquet"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    new, old = known["reward"].to_numpy(), practice["reward"].to_numpy()
    alike = (300 * new.var(ddof=1) + 200 * old.var(ddof=1)) / 500 * (1 / 300 + 1 / 200)
    error = np.sqrt(max(new.var(ddof=1) / 300 + old.var(ddof=1) / 200, alike))
    assert told["main"]["value"] == pytest.approx(new.mean() - old.mean())
    assert told["main"]["error"] == pytest.approx(error)
    assert told["main"]["low"] == pytest.approx(told["main"]["value"] - sequence_boundary(240, 0.05, 1000) * error)
    assert "Better than practice beside it" in told["answer"]
    assert any("200 cases of practice beside" in note for note in told["notes"])
    assert main(["watch", str(study), *flags, "--beside", str(study.parent / "practice.parquet")]) == 0


def test_two_arms_where_nothing_is_to_be_found() -> None:
    """Ten looks at each of 200 pairs of arms of unequal size: the error of 5% is over all looks."""
    false = 0
    for seed in range(200):
        rng = np.random.default_rng([11, seed])
        new, old = Units(rng.normal(size=300), np.arange(300)), Units(rng.normal(size=900), np.arange(900))
        looks = [two_arms(new.first(30 * k), old.first(90 * k), WatchPlan(), ()) for k in range(1, 11)]
        false += any(one.is_better or one.is_worse for one in looks)
    assert false <= 16  # more than this has a chance of 2% at exactly 5%


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("rate", [0.98, 0.02])
def test_a_rare_outcome_that_has_not_come_yet_shows_nothing(rate: float, beside: bool) -> None:
    """Ten looks at each of 200 logs: new cases without a single event vary not at all, and say little all the same."""
    false = 0
    for seed in range(200):
        rng = np.random.default_rng([13, seed])
        new, old = ((rng.random(n) < rate).astype(float) for n in (500, 5000))
        cases, before = Units(new, np.arange(500)), Units(old, np.arange(5000))
        for k in range(1, 11):
            against: Any = before.first(500 * k) if beside else before.summary
            look = compared(cases.first(50 * k), against, WatchPlan(), (50 * k,), None)
            if look.is_better or look.is_worse:
                false += 1
                break
    assert false <= 16  # more than this has a chance of 2% at exactly 5%


def test_a_guardrail_that_is_broken_stops_the_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(12)
    first = logged(500, 0).append_column("harm", pa.array((rng.random(500) < 0.1).astype(float)))
    pq.write_table(first, tmp_path / "logs.parquet")
    flags = ["--learners", "fittedq", "--folds", "2", "--backend", "inline", "--guard", "harm <= +0.3"]
    assert main(["learn", str(tmp_path / "logs.parquet"), "--out", str(tmp_path / "study"), *flags]) == 0
    receipts, known = deployed(tmp_path / "study", 300)
    pq.write_table(known.append_column("harm", pa.array((rng.random(300) < 0.9).astype(float))), tmp_path / "o.parquet")
    flags = ["--receipts", str(receipts), "--outcomes", str(tmp_path / "o.parquet")]
    capsys.readouterr()
    assert main(["watch", str(tmp_path / "study"), *flags]) == 0
    assert "guardrails are not watched: give the logs" in " ".join(capsys.readouterr().out.split())
    page = ["--before", str(tmp_path / "logs.parquet"), "--page", str(tmp_path / "page.html")]
    assert main(["watch", str(tmp_path / "study"), *flags, *page]) == 3
    printed = " ".join(capsys.readouterr().out.split())
    assert "Stop: the guardrail harm <= +0.3 is broken" in printed
    assert "BROKEN, guardrail: harm has changed by +0.789 (+0.716 to +0.861)" in printed
    assert "BROKEN" in (tmp_path / "page.html").read_text()
    harmless = pa.array((rng.random(300) < 0.15).astype(float))
    pq.write_table(known.append_column("harm", harmless), tmp_path / "o.parquet")
    assert main(["watch", str(tmp_path / "study"), *flags, *page[:2]]) == 0  # nor is it drift that the policy is better
    assert "ok, outcome: outcomes in like cases with like actions are those of the log" in " ".join(
        capsys.readouterr().out.split()
    )
