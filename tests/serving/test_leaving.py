"""Choices that are left to people: what is barred is said, and no action is drawn where more than one is left."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from poela import FittedQ, InputError, Rules, read_logs
from poela.cli import main
from poela.data.receipts import read_receipts
from poela.policies.plain import Case, Condition, PlainPolicy
from poela.policies.valued import BarringPolicy
from poela.serving import decisions
from poela.serving.decisions import Answering
from poela.serving.source import open_policy

ACTIONS = ("refer", "treat", "wait")


def log(n: int = 240) -> pa.Table:
    rng = np.random.default_rng(0)
    lactate = np.round(rng.uniform(0.5, 4.0, n), 1)
    action = rng.integers(3, size=n)
    return pa.table(
        {
            "lactate": lactate,
            "action": np.array(ACTIONS)[action],
            "reward": np.where(lactate > 2, action == 1, action == 2) + 0.1 * rng.normal(size=n),
            **{f"propensity_{name}": np.full(n, 1 / 3) for name in ACTIONS},
        }
    )


@pytest.fixture(scope="module")
def path() -> dict[str, Any]:
    return {point.note: point.policy for point in Rules().fit_path(read_logs(log()))}


@pytest.fixture(scope="module")
def policy(path: dict[str, Any]) -> PlainPolicy:
    """Never wait above 2.1, always refer above 3, else as before."""
    from dataclasses import replace

    high, higher = (Condition("lactate", float(np.float32(value))) for value in (2.1, 3.0))
    cases = (Case("always", 0, where=(higher,)), Case("never", 2, where=(high,)))
    found: PlainPolicy = replace(path["always treat"], cases=cases)
    return found


NEW = pa.table({"case": ["a", "b", "c"], "lactate": [2.5, 3.5, 1.0]})


def test_actions_are_given_only_where_no_choice_is_left(policy: PlainPolicy) -> None:
    drawn, left = policy.decide(NEW), policy.decide(NEW, leave=True)
    assert None not in drawn["action"].to_pylist()
    assert left["action"].to_pylist() == [None, "refer", None]
    assert left["barred"].to_pylist() == ["wait", "", ""]
    assert left["defer"].to_pylist() == [True, False, True]
    assert left["propensity_treat"].to_pylist() == [None, 0.0, None]
    assert left["note"].to_pylist() == ["choose among what is not barred", None, "choose among what is not barred"]
    assert left["policy"].to_pylist() == drawn["policy"].to_pylist()


def test_bans_by_values_leave_every_choice_that_there_is(path: dict[str, Any]) -> None:
    bans = path["never by values 7"]
    assert isinstance(bans, BarringPolicy)
    rows = pa.table({"lactate": np.linspace(0.5, 4, 40)})
    drawn, left = bans.decide(rows), bans.decide(rows, leave=True)
    for before, after in zip(drawn.to_pylist(), left.to_pylist(), strict=True):
        open_ones = [name for name in ACTIONS if before[f"propensity_{name}"] > 0]
        assert after["barred"] == before["barred"]
        assert (after["action"] is None) == (len(open_ones) > 1)
        if len(open_ones) == 1:
            assert after["action"] == open_ones[0]


def test_who_draws_every_action_leaves_none(policy: PlainPolicy, tmp_path: Path) -> None:
    tilt = FittedQ().fit(read_logs(log()))
    with pytest.raises(InputError, match="draws every action, so that no choice is left to people"):
        tilt.decide(NEW, leave=True)
    tilt.save(tmp_path / "tilt")
    with pytest.raises(InputError, match="no choice is left to people"):
        open_policy(tmp_path / "tilt", leave=True)
    with pytest.raises(InputError, match="say one of them"):
        policy.decide(NEW, leave=True, likeliest=True, unproven=True)


def test_the_command_sums_up_what_is_left(
    policy: PlainPolicy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy.save(tmp_path / "policy")
    pq.write_table(NEW, tmp_path / "new.parquet")
    given = ["decide", str(tmp_path / "policy"), "--rows", str(tmp_path / "new.parquet"), "--leave"]
    out, receipts = tmp_path / "decisions.csv", tmp_path / "receipts"
    assert main([*given, "--out", str(out), "--receipts", str(receipts)]) == 0
    said = capsys.readouterr().out
    assert "3 rows: refer 1; 2 left to those who decide" in said
    assert "1 rows: wait barred; choose among the rest." in said
    assert "have a note" not in said
    assert pa_csv.read_csv(out)["barred"].to_pylist() == ["wait", "", ""]
    read = read_receipts(receipts)
    assert read.table["defer"].to_pylist() == [True, False, True]
    assert read.keys.case == "case"
    outcomes = pa.table({"case": ["a", "b", "c"], "reward": [1.0, 0.0, 1.0]})
    logs = read_logs(receipts, outcomes=outcomes)
    assert logs.n_steps == 1  # nobody knows the chances of the others
    assert any("2 cases were left to those who decide" in note for note in logs.notes)


def test_servers_and_models_leave_the_same(
    policy: PlainPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy.save(tmp_path / "policy")
    desk = Answering(open_policy(tmp_path / "policy", leave=True))
    cases = [{"id": name, "features": {"lactate": lactate}} for name, lactate in (("a", 2.5), ("b", 3.5))]
    request = desk.form.parsed(json.dumps({"cases": cases}).encode())
    ((first, second),) = desk.decided([request])
    with monkeypatch.context() as patched:  # through a table
        patched.setattr(decisions, "is_direct", lambda form: False)
        assert desk.decided([request]) == [[first, second]]
    assert (first["action"], first["barred"], first["defer"]) == (None, "wait", True)
    assert set(first["propensities"].values()) == {None}
    assert (second["action"], second["defer"]) == ("refer", False)


@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_models_leave_the_same(policy: PlainPolicy, tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    from mlflow.pyfunc import load_model

    from poela.serving.pyfunc import save_mlflow

    for leave in (True, False):
        save_mlflow(policy, tmp_path / f"model{leave}", leave=leave)
        model = load_model(str(tmp_path / f"model{leave}"))
        actions = model.predict(NEW.to_pandas())["action"].tolist()
        assert isinstance(actions[0], str) != leave
        assert actions[1] == "refer"
