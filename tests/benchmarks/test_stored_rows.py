"""Measurements that go on where they stopped, and decisions acted through the command line, made tiny."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.stored_rows import carry_out, rows_in, seeds
from tests.warm import warm

from benchmarks import stored_rows

ROOT = Path(__file__).parents[2]


def squared(kind: str, number: int) -> dict[str, Any]:
    return {"kind": kind, "square": number**2}


def test_rows_are_made_once_and_shards_join(tmp_path: Path) -> None:
    first = list(carry_out([("a", 1), ("a", 2)], squared, tmp_path, "0/2", jobs=1))
    assert sorted(row["square"] for row in first) == [1, 4]
    assert all(row["cpu"] >= 0 and row["machine"] == stored_rows.machine() for row in first)
    assert {row["commit"] for row in first} == {stored_rows.commit()}
    second = list(carry_out([("a", 2), ("a", 3), ("b/c", 4)], squared, tmp_path, "1/2", jobs=1))
    assert sorted(row["square"] for row in second) == [9, 16]
    assert sorted(row["square"] for row in rows_in(tmp_path)) == [1, 4, 9, 16]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.0-of-2.jsonl", "a.1-of-2.jsonl", "b-c.1-of-2.jsonl"]
    assert [*seeds(5, 4, "0/2"), *seeds(5, 4, "1/2")] == [5, 7, 6, 8]


def test_what_decide_hands_out_is_acted_step_by_step(tmp_path: Path) -> None:
    out = tmp_path / "rows"
    flags = ["--only", "one step", "--logs", "1", "--episodes", "600", "--acted", "300", "--learners", "rules"]
    script = [str(warm().python), "benchmarks/decided.py", *flags, "--out", str(out)]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (row,) = rows_in(out)
    assert abs(row["apart"]) < 4 * row["apart_error"] + 1e-9
    assert row["handed"] > 0 < row["shown"]
    assert "| one step | 1 of 1 |" in done.stdout
    again = subprocess.run(script, cwd=ROOT, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert json.dumps(rows_in(out)) == json.dumps([row])


def test_the_plain_gain_of_a_trial_is_the_difference_of_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stored_rows", stored_rows)  # as scripts of one folder find each other
    trials = importlib.import_module("benchmarks.real_trials")
    rng = np.random.default_rng(0)
    actions, rewards, n = rng.integers(0, 2, 400), rng.normal(size=400), np.arange(400)
    rewards += actions
    always = np.tile([0.0, 1.0], (400, 1))
    gain, error = trials.plain_gain(always, actions, np.full((400, 2), 0.5), rewards, n)
    treated, others = rewards[actions == 1], rewards[actions == 0]
    assert gain == pytest.approx((treated.mean() - others.mean()) * len(others) / 400)
    within = treated.var() / len(treated) + others.var() / len(others)
    drawn = (treated.mean() - others.mean()) ** 2 / 400  # how many drew which arm is chance, too
    assert error == pytest.approx(np.sqrt((within + drawn) / 4), rel=0.1)
    first, second = trials.halves(n // 4, rng)
    assert len(first) == len(second) == 200
    assert not set(first // 4) & set(second // 4)
