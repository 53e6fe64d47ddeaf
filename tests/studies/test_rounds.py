"""Rounds: act by what a study recommends, log, learn again; one error level, and nobody judges what it taught."""

import json
import shutil
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import poela
from poela.core.errors import InputError
from poela.core.policy import sample_actions
from poela.data.joining import joined
from poela.data.trajectories import Trajectories
from poela.studies.answer import Answer
from poela.studies.candidates import Candidate
from poela.studies.several_logs import _origins, gathered
from poela.studies.study import Study

N = 200


def case_logs(seed: Any, policy: Any = None, n: Any = N) -> Any:
    """Three actions; the third pays by the first feature, the second costs. Practice takes all of them alike."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2)).astype(np.float32)
    rows = np.full((n, 3), 1 / 3) if policy is None else policy.probabilities(x)
    actions = sample_actions(rows, rng)
    rewards = np.choose(actions, [0 * x[:, 0], 0 * x[:, 0] - 0.5, 1.5 * x[:, 0]]) + 0.5 * rng.normal(size=n)
    return Trajectories(x, actions, rewards, np.arange(n + 1), rows)


def learned(logs: Any, out: Any, **settings: Any) -> Any:
    return poela.learn(
        logs, out=out, candidates=[Candidate("fittedq", {"regressor": "ridge"})], backend="inline", **settings
    )


@pytest.fixture(scope="module")
def staircase(tmp_path_factory: Any) -> Any:
    """Two rounds of three, and their logs."""
    folder = tmp_path_factory.mktemp("rounds")
    first = case_logs(1)
    one = learned(first, folder / "one", rounds=3)
    second = case_logs(2, one.policy)
    two = learned([first, second], folder / "two", after=folder / "one")
    return folder, one, two, [first, second]


def test_gains_add_up_at_one_error_level(staircase: Any) -> None:
    folder, one, two, _ = staircase
    assert one.settings.selection.confidence == two.settings.selection.confidence == pytest.approx(1 - 0.05 / 3)
    rounds = two.record.rounds
    assert (rounds.number, rounds.declared, rounds.error) == (2, 3, pytest.approx(0.05))
    assert [parent.name for parent in rounds.parents] == [str(folder / "one")]
    own = two.gain.low if not two.keeps_logging_policy else 0.0
    assert rounds.since(own) == pytest.approx(one.gain.low + own)
    assert two.answer.since.startswith("Since the first practice: at least +")
    assert "over all rounds (95%, round 2 of 3)" in two.answer.since
    assert "(98.33%)" in two.answer.headline


def test_what_taught_a_logger_judges_nothing(staircase: Any) -> None:
    folder, _, two, _ = staircase
    practice, later = two.record.rounds.logs
    assert (practice.logged_by, practice.judges) == ("practice", False)
    assert (later.logged_by, later.judges) == (str(folder / "one"), True)
    assert two.only_teach == N
    assert two.record.data.validation_episodes == N
    assert two.record.data.train_episodes == 2 * N
    assert f"The {N} episodes logged by {folder / 'one'} judged" in two.answer.since


def test_what_is_done_now_is_the_latest_logger(staircase: Any) -> None:
    _, one, two, logs = staircase
    assert two.record.rounds.current == two.record.rounds.parents[-1].name
    assert two.record.logging_policy.value == pytest.approx(logs[1].returns().mean())
    behavior = two.policy.behavior if not two.keeps_logging_policy else two.policy
    np.testing.assert_allclose(behavior.along(logs[1]), one.policy.along(logs[1]), atol=1e-9)


def test_a_log_of_its_policy_needs_no_propensities(staircase: Any) -> None:
    folder, _, two, (first, second) = staircase
    again = learned([first, second.with_propensities(None)], None, after=folder / "one")
    assert not again.record.data.estimated
    assert again.result.points[0].metrics == two.result.points[0].metrics


def test_a_study_opened_again_knows_its_folds(staircase: Any) -> None:
    folder, *_, _logs = staircase
    opened = Study.open(folder / "two")
    assert opened.only_teach == N
    assert opened.record.rounds is not None
    assert opened.record.rounds.parents[0].taught_by


def test_loops_are_refused(staircase: Any, tmp_path: Any) -> None:
    folder, *_, logs = staircase
    with pytest.raises(InputError, match="a study cannot come after itself"):
        learned(logs, folder / "one", after=folder / "two", resume=True)


def test_more_rounds_than_declared_are_refused(tmp_path: Any) -> None:
    logs = case_logs(5, n=120)
    learned(logs, tmp_path / "only")
    with pytest.raises(InputError, match=r"declared no further round and spent the whole error of 0\.05"):
        learned([logs, case_logs(6, n=120)], tmp_path / "next", after=tmp_path / "only")
    learned(logs, tmp_path / "one", rounds=2)
    with pytest.raises(InputError, match="declared 2 rounds, and now it shall be 5"):
        learned(logs, tmp_path / "next", after=tmp_path / "one", rounds=5)


def test_a_parent_that_changed_is_refused(staircase: Any, tmp_path: Any) -> None:
    folder, *_, logs = staircase
    for name in ("one", "two"):
        shutil.copytree(folder / name, tmp_path / name)
    record = json.loads((tmp_path / "two" / "study.json").read_text())
    assert "rounds" in json.dumps(record)
    learned(logs[0], folder / "other", rounds=3, seed=1)
    shutil.rmtree(folder / "one")
    shutil.copytree(folder / "other", folder / "one")
    try:
        with pytest.raises(InputError, match="is not what it was when"):
            learned(logs, tmp_path / "three", after=folder / "two")
    finally:
        shutil.rmtree(folder / "one")
        shutil.copytree(tmp_path / "one", folder / "one")


def test_a_missing_logger_is_named(staircase: Any, tmp_path: Any) -> None:
    _folder, *_, logs = staircase
    with pytest.raises(InputError, match="made one of these logs and is not there"):
        learned(logs, tmp_path / "next", logged_by=["practice", str(tmp_path / "gone")])


def test_logs_that_all_taught_leave_nothing_to_judge(staircase: Any, tmp_path: Any) -> None:
    folder, *_, logs = staircase
    with pytest.raises(InputError, match="none is left to judge by"):
        learned([logs[0]], tmp_path / "next", logged_by=[str(folder / "one")])


def test_a_log_that_holds_an_earlier_one_is_refused() -> None:
    """Its episodes would count twice; where contexts are few, episodes look alike by chance, and pass."""
    first, second = case_logs(1), case_logs(2)
    for logs in ([first, joined(second, first)], [joined(first, second), first]):
        with pytest.raises(InputError, match=r"200 of the .00 episodes of log 2 are also in log 1: give each episode"):
            gathered(logs, ["practice"] * 2)
    alike = [replace(one, contexts=np.zeros((N, 2)), rewards=np.round(one.rewards)) for one in (first, second)]
    assert len(gathered(alike, ["practice"] * 2).records) == 2


def test_names_must_fit_the_logs(staircase: Any, tmp_path: Any) -> None:
    *_, logs = staircase
    with pytest.raises(InputError, match="logged_by has 1 name for 2 logs"):
        learned(logs, tmp_path / "next", logged_by=["practice"])
    with pytest.raises(InputError, match="who made each of these 2 logs is not known"):
        learned(logs, tmp_path / "next")
    with pytest.raises(InputError, match="two of these logs are the same"):
        learned([logs[0], logs[0]], tmp_path / "next", logged_by=["practice", "practice"])


def test_two_logs_of_practice_are_one(tmp_path: Any) -> None:
    first, second = case_logs(1, n=150), case_logs(3, n=150)
    both = learned([first, second], None, logged_by=["practice", "practice"])
    whole = learned(joined(first, second), None)
    assert [point.metrics for point in both.points] == [point.metrics for point in whole.points]


def test_two_loggers_that_no_log_taught_judge_together(tmp_path: Any) -> None:
    """A gain over the last logger; by balanced weights, which see the first one's log too."""

    class Careful:
        """Seldom takes the second action."""

        def probabilities(self, contexts: Any) -> Any:
            return np.tile([0.45, 0.1, 0.45], (len(contexts), 1))

        along = lambda self, logs: self.probabilities(logs.contexts)  # noqa: E731

        def actor(self, n: Any) -> Any:
            raise NotImplementedError

    careful = Careful()
    first, second = case_logs(1), case_logs(2, careful)
    study = learned([first, second], None, logged_by=["practice", careful])
    assert study.only_teach == 0
    assert study.record.data.validation_episodes == 2 * N
    assert not study.record.data.estimated  # practice takes all alike, which is seen at once
    mixed = 0.5 / 3 + 0.5 * np.array([0.45, 0.1, 0.45])
    actions, returns = (
        np.concatenate([getattr(one, name) for one in (first, second)]) for name in ("actions", "rewards")
    )
    weights = (np.array([0.45, 0.1, 0.45]) / mixed)[actions]
    assert study.record.logging_policy.value == pytest.approx((weights * returns).sum() / weights.sum(), rel=1e-9)
    point = study.points[0]
    assert point.metrics["gain"] == pytest.approx(point.metrics["sntis"] - study.record.logging_policy.value, rel=1e-9)


@pytest.mark.parametrize("how", ["object", "copy", "after"])
def test_a_learned_policy_without_its_study_leaves_other_logs_to_teach(staircase: Any, tmp_path: Any, how: Any) -> None:
    """The practice log may have taught it, and in fact has; after its study, what taught it is known."""
    folder, one, _, logs = staircase
    shutil.copytree(folder / "one" / "policy", tmp_path / "copy")
    who = tmp_path / "copy" if how == "copy" else one.policy
    near = [one] if how == "after" else []
    found = gathered([*logs, case_logs(5)], ["practice", who, "practice"], near=near)
    own = [record.judges for record in found.records]
    assert own == ([False, True, True] if how == "after" else [False, False, True])
    assert ("is not known (name the folder of its study)" in found.note) == (how != "after")


def test_what_taught_a_policy_by_way_of_another_judges_nothing(staircase: Any, tmp_path: Any) -> None:
    """The first log taught one, whose log taught three, which is not said to come after one."""
    folder, one, _, (_, second) = staircase
    three = learned([second], tmp_path / "three", logged_by=[folder / "one"])
    origins, strange = _origins([], {"three": three}, [])
    assert {study.directory for study in origins} == {three.directory, one.directory}
    assert not strange


def test_two_rounds_without_a_claim_leave_practice_in_place(tmp_path: Any) -> None:
    """Who made each log, where a round recommended nothing: whatever acted before it."""
    nothing = replace(case_logs(1), rewards=np.random.default_rng(0).normal(size=N))
    one = learned(nothing, tmp_path / "one", rounds=3)
    assert one.keeps_logging_policy
    two = learned([nothing, case_logs(2)], tmp_path / "two", after=tmp_path / "one")
    assert [log.logged_by for log in two.record.rounds.logs] == ["practice", "practice"]
    assert "The 400 episodes logged by practice judged" in two.answer.since


def test_what_was_not_followed_is_not_what_was_shown(staircase: Any, tmp_path: Any) -> None:
    """Three in ten recommendations were not followed: what the policy has shown is not claimed of what is done now."""
    folder, one, _, (first, _) = staircase
    advised = case_logs(4, one.policy)
    strayed = np.random.default_rng(5).random(N) < 0.3
    done = np.where(strayed, (advised.actions + 1) % 3, advised.actions)
    rows = 0.7 * advised.propensities + 0.3 * np.roll(advised.propensities, 1, axis=1)
    second = replace(advised, actions=done, propensities=rows, recommended=advised.actions, estimated=True)
    two = learned([first, second], tmp_path / "two", after=folder / "one")
    assert two.record.rounds.followed == pytest.approx(1 - strayed.mean())
    assert f"{strayed.mean():.0%} of what {folder / 'one'} recommended was not done" in two.answer.since
    assert "at least" not in two.answer.since
    third = learned(case_logs(6), tmp_path / "three", after=tmp_path / "two", logged_by=["practice"])
    assert not third.record.rounds.parents[-1].known


def test_where_nobody_followed_everything_the_advice_is_to_follow(staircase: Any) -> None:
    _, _, two, _ = staircase
    kept = replace(two.result, chosen=None)
    data = replace(two.record.data, estimated=True)
    for followed, told in ((1.0, "record the propensities"), (0.7, "have more recommendations followed")):
        record = replace(two.record, data=data, rounds=replace(two.record.rounds, followed=followed))
        assert told in Answer.of(kept, two.settings, record).next


def test_limits_that_are_not_said_again_are_named(staircase: Any, tmp_path: Any) -> None:
    """A guardrail of the round before does not go on by itself, and is not dropped without a word."""
    first = replace(case_logs(1), outcomes=np.zeros((N, 1)), outcome_names=("harm",))
    one = learned(first, tmp_path / "one", rounds=2, guards=["harm <= +0.5"])
    second = case_logs(2, None if one.keeps_logging_policy else one.policy)
    with pytest.warns(poela.PoelaWarning, match=r"one had harm <= \+0.5, and this round is without: say it again"):
        learned([first, second], tmp_path / "two", after=tmp_path / "one")


def test_receipts_are_a_log_of_the_next_round(tmp_path: Any, capsys: Any) -> None:
    """From the command line: decide with receipts, outcomes later, learn again."""
    import pyarrow.parquet as pq

    from poela.cli import main

    first = case_logs(1)
    pq.write_table(first.to_table().drop(["episode", "step"]), tmp_path / "first.parquet")
    small = ["--learners", "fittedq", "--folds", "2", "--backend", "inline"]
    one = str(tmp_path / "one")
    assert main(["learn", str(tmp_path / "first.parquet"), "--out", one, "--rounds", "2", *small]) == 0
    columns = {name: first.to_table()[name] for name in first.feature_names}
    pq.write_table(pa.table({"case": np.arange(N), **columns}), tmp_path / "rows.parquet")
    receipts, decided = str(tmp_path / "receipts"), str(tmp_path / "decided.parquet")
    asked = ["--rows", str(tmp_path / "rows.parquet"), "--receipts", receipts, "--no-similar", "--out", decided]
    assert main(["decide", one, *asked]) == 0
    outcomes = pa.table({"case": np.arange(N - 20), "reward": np.random.default_rng(0).normal(size=N - 20)})
    pq.write_table(outcomes, tmp_path / "outcomes.parquet")
    capsys.readouterr()
    logs = [str(tmp_path / "first.parquet"), receipts, "--after", one]
    assert main(["learn", *logs, "--out", str(tmp_path / "none"), *small]) == 2
    assert "give --outcomes" in capsys.readouterr().err
    more = ["--outcomes", str(tmp_path / "outcomes.parquet")]
    assert main(["learn", *logs, *more, "--out", str(tmp_path / "two"), *small]) == 0
    said = capsys.readouterr()
    assert "20 of 200 cases have no outcome yet" in " ".join(said.err.split())
    assert f"The 180 episodes logged by {one} judged" in " ".join(said.out.split())
    assert main(["learn", logs[0], *more, "--out", str(tmp_path / "none"), *small]) == 2
    assert "none of these logs is one" in capsys.readouterr().err
    # What is wrong with one of several logs is said with its name.
    pq.write_table(pa.table({"case": ["nobody"], "reward": [1.0]}), tmp_path / "outcomes.parquet")
    assert main(["learn", *logs, *more, "--out", str(tmp_path / "none"), *small]) == 2
    assert f"no case of the receipts in {receipts} has an outcome" in " ".join(capsys.readouterr().err.split())
    pq.write_table(first.to_table().drop([first.feature_names[0]]), tmp_path / "less.parquet")
    others = [str(tmp_path / "first.parquet"), str(tmp_path / "less.parquet"), "--logged-by", "practice,practice"]
    assert main(["learn", *others, "--out", str(tmp_path / "none"), *small]) == 2
    told = capsys.readouterr().err
    assert "less.parquet: column " in told
    assert "is missing" in told


def test_several_logs_evaluate_by_balanced_weights(staircase: Any, tmp_path: Any, capsys: Any) -> None:
    """As by hand: the pool's own balanced propensities, and the gain over the logger that is named; counted once."""
    import pyarrow.parquet as pq

    from poela.cli import main
    from poela.evaluation.balanced import Logger, balanced
    from poela.studies.evaluation import evaluate_on_several

    folder, one, _, (first, second) = staircase
    fresh = case_logs(7)
    names = ["practice", str(folder / "one")]
    own = Study.open(folder / "one")
    found: Any = evaluate_on_several(own, [fresh, second], logged_by=names, current="practice").estimate
    pool = balanced([fresh, second], [Logger("practice"), Logger("one", one.policy)], "practice")
    by_hand = poela.evaluate(one.policy, pool.logs, reference=pool.reference, scoring=own.settings.scoring)
    assert (found.value, found.gain) == (by_hand.value, by_hand.gain)
    weights = np.exp(np.asarray(pool.reference))
    now = weights @ pool.logs.rewards / weights.sum()
    assert found.gain.value == pytest.approx(found.value - now, abs=1e-9)
    over_itself: Any = evaluate_on_several(own, [fresh, second], logged_by=names, smoothing=0.0).estimate
    assert over_itself.gain.value == pytest.approx(0.0, abs=1e-9)
    with pytest.warns(poela.PoelaWarning, match="200 episodes taught this policy"):
        again = evaluate_on_several(own, [first, fresh], logged_by=["practice"] * 2)
    assert again.estimate.n_episodes == N
    with pytest.raises(InputError, match="learned from each of these logs"):
        evaluate_on_several(own, [first], logged_by=["practice"])
    paths = [str(tmp_path / "fresh.parquet"), str(tmp_path / "second.parquet")]
    for logs, path in zip([fresh, second], paths, strict=True):
        pq.write_table(logs.to_table(), path)
    asked = ["evaluate", names[1], "--logs", paths[0], "--logs", paths[1], "--json"]
    assert main(asked) == 2
    assert "say logged_by" in capsys.readouterr().err
    assert main([*asked, "--logged-by", ",".join(names), "--current", "practice"]) == 0
    assert json.loads(capsys.readouterr().out)["estimate"]["n_episodes"] == 2 * N
