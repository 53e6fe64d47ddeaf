"""What a return is called, in answers and tables."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poela.cli import main
from poela.core.errors import InputError
from poela.studies.outcome_unit import Outcome
from poela.studies.study import Study


def test_yes_or_no_in_percent_is_a_hundred_times_the_share() -> None:
    survival = Outcome.of("survival, %", np.array([0.0, 1.0]))
    assert survival == Outcome("survival", "%", 100.0)
    assert survival.amount(0.021, 0.01) == "+2.1 percentage points in survival"
    assert survival.between(-0.01, 0.052, 0.01) == "[-1.0, 5.2]"
    assert Outcome.of("survival, %", np.array([0.0, 55.0])).scale == 1.0  # these are percent already
    assert Outcome.of("survival, days", np.array([0.0, 1.0])).scale == 1.0


def test_names_may_have_commas_and_units_may_be_missing() -> None:
    assert Outcome.of("pain, as told, points", np.zeros(1)) == Outcome("pain, as told", "points")
    assert Outcome.of("QALYs", np.zeros(1)).amount(0.5) == "+0.500 in QALYs"
    assert Outcome.of(", EUR", np.zeros(1)).amount(12.0) == "+12.0 EUR"
    assert Outcome().title == ""
    for wrong in ("", " , ", ","):
        with pytest.raises(InputError, match="an outcome is its name"):
            Outcome.of(wrong, np.zeros(1))
    with pytest.raises(InputError, match="at most 60 letters"):
        Outcome.of("x" * 61, np.zeros(1))


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e3))
def test_without_a_name_numbers_are_as_ever(value: float, error: float) -> None:
    from poela.core.readable import readable

    assert Outcome().amount(value, error) == readable(value, error, signed=True)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(1)
    lines = ["ward,action,alive,propensity"]
    for _ in range(500):
        ward, action = rng.choice(["ICU", "surgery"]), rng.choice(["treat", "wait"])
        alive = rng.random() < 0.5 + 0.3 * ((action == "treat") == (ward == "ICU"))
        lines.append(f"{ward},{action},{int(alive)},0.5")
    path = tmp_path_factory.mktemp("log") / "stays.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_the_command_line_has_outcome_and_groups(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    study = tmp_path / "study"
    learn = ["learn", str(log), "--out", str(study), "--reward", "alive", "--learners", "rules", "--backend", "inline"]
    assert main([*learn, "--outcome", "survival, %", "--by", "ward"]) == 0
    out = capsys.readouterr().out
    opened = Study.open(study)
    assert opened.gain is not None
    assert opened.gain.low is not None
    least = f"+{100 * opened.gain.low:.1f} percentage points in survival"
    assert out.startswith(f"Change: at least {least} compared with what is done now (95%)")
    assert "Who gains, survival, percentage points" in out
    assert "ward: ICU" in out
    assert "At least: 95%, for all groups together" in out
    # A study that goes on keeps what the return is called, and groups that are asked for anew replace the others.
    assert main([*learn, "--resume", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["outcome"] == {"name": "survival", "unit": "%", "scale": 100.0}
    assert len(document["groups"]["groups"]) == 1
    assert document["gain"]["low"] == opened.gain.low  # in the units of the reward
    assert main(["evaluate", str(study), "--logs", str(log), "--by", "ward", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [group["name"] for group in found["groups"]["groups"]] == ["everybody", "ICU", "surgery"]
    assert found["policy"] == opened.chosen_name
    assert main(["evaluate", str(study / "policy"), "--logs", str(log), "--by", "ward", "--reward", "alive"]) == 0
    assert "ward: surgery" in capsys.readouterr().out


def test_bad_groups_are_one_sentence_and_exit_2(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learn = ["learn", str(log), "--out", str(tmp_path / "study"), "--reward", "alive", "--learners", "rules"]
    for wrong, said in (
        (["--by", "city"], "no column 'city' to group by"),
        (["--by", "ward:3"], "column 'ward' is no number"),
        (["--by", "ward", "--smallest-group", "0"], "smallest-group"),
        (["--outcome", ","], "an outcome is its name"),
    ):
        assert main([*learn, *wrong]) == 2
        assert said in capsys.readouterr().err
        assert not (tmp_path / "study").exists()
