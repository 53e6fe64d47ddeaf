"""The simplest policy that is as good: what a study of plain policies recommends, says and hands out."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import poela
from poela.cli import main
from poela.studies.plainness import best_of, is_sayable
from poela.studies.selection import Point, Selection, by_gain
from poela.studies.study import Study

EFFECTS = np.array([0.0, 0.1, 0.25])


def trial(seed: int, effects: Any = EFFECTS, n: int = 900) -> poela.Trajectories:
    rng = np.random.default_rng(seed)
    actions, age = rng.integers(3, size=n), rng.integers(18, 80, n)
    rewards = (rng.random(n) < 0.3 + effects[actions]) * 1.0
    names: dict[str, Any] = {"feature_names": ["age"], "action_names": ["none", "small", "large"]}
    return poela.Trajectories(age[:, None], actions, rewards, np.arange(n + 1), np.full((n, 3), 1 / 3), **names)


@pytest.fixture(scope="module")
def study() -> Study:
    return poela.learn(trial(1), learners=["rules"], backend="inline")


def test_the_plain_answer_is_found_and_its_bound_holds(study: Study) -> None:
    assert study.rule == "Always large."
    assert study.gain is not None
    assert study.gain.low is not None
    truth = EFFECTS[2] - EFFECTS.mean()
    assert 0 < study.gain.low < truth
    assert study.answer.words.startswith("In words: always large; at least +0.")
    assert study.answer.words in str(study.answer)


def test_names_on_the_ladder_are_those_that_people_say(study: Study) -> None:
    rows = study.table().to_pylist()
    assert {"always large", "never none", "rule 1", "never by values 1"} <= {row["note"] for row in rows}
    assert len(rows) <= 25
    assert {row["plainness"] for row in rows} == {0.0, 1.0, 2.0, 3.0}


def test_a_study_on_disk_says_the_same(study: Study) -> None:
    again = Study.open(study.directory)
    assert (again.rule, again.answer) == (study.rule, study.answer)


def test_nothing_to_gain_says_nothing() -> None:
    study = poela.learn(trial(2, effects=np.zeros(3), n=300), learners=["rules"], backend="inline")
    assert study.keeps_logging_policy
    assert study.rule is None
    assert study.answer.words == ""


def point(name: str, shown: float | None, plainness: float | None = None) -> Point:
    return Point(name, 0, True, {"shown": shown} | ({} if plainness is None else {"plainness": plainness}))


def test_the_plainest_within_a_tenth_is_taken() -> None:
    tilt, bans, deep = point("tilt", 1.0), point("bans", 0.97, 3.0), point("deep", 0.93, 2.0)
    single, word = point("single", 0.91, 1.0), point("word", 0.89, 0.0)
    points = [tilt, bans, deep, single, word, point("unknown", None, 0.0)]

    def chosen(simplest: float) -> Point | None:
        return by_gain(points, Selection("gain", confidence=0.95, simplest=simplest)).chosen

    assert [chosen(simplest) for simplest in (0.0, 0.05, 0.08, 0.1, 0.2)] == [tilt, bans, deep, single, word]
    losing = [point("a", -0.1), point("b", -0.105, 0.0)]
    assert by_gain(losing, Selection("gain", confidence=0.95)).chosen is None


def test_the_best_that_can_be_said_is_named_beside_another_choice() -> None:
    tilt, bans, rule, word = (
        point("tilt", 1.0),
        point("bans", 0.9, 3.0),
        point("rule", 0.5, 2.0),
        point("word", 0.4, 0.0),
    )
    assert best_of([tilt, bans, rule, word], tilt, is_sayable) is rule
    assert best_of([tilt, bans, rule, word], word, is_sayable) is word
    assert best_of([tilt, bans, point("worse", -0.1, 0.0)], tilt, is_sayable) is None


def test_simplest_is_an_option_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "trial.csv"
    logs = trial(1)
    lines = [
        f"{age},{('none', 'small', 'large')[action]},{reward},{1 / 3}"
        for age, action, reward in zip(logs.contexts[:, 0], logs.actions, logs.rewards, strict=True)
    ]
    log.write_text("age,action,reward,propensity\n" + "\n".join(lines), encoding="utf-8")
    common = ["learn", str(log), "--learners", "rules", "--backend", "inline", "--no-audit"]
    assert main([*common, "--simplest", "1.5", "--out", str(tmp_path / "wrong")]) == 2
    assert "simplest" in capsys.readouterr().err
    assert main([*common, "--simplest", "0", "--out", str(tmp_path / "study")]) == 0
    assert "In words: always large" in capsys.readouterr().out
    assert Study.open(tmp_path / "study").settings.selection.simplest == 0
