"""Logs of real-valued actions with extreme numbers, from learning to decisions: finite doses, or one sentence."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import poela
from poela.cli import main
from poela.core.errors import PoelaError, PoelaWarning
from poela.policies.storage import load_policy

LEARNERS: dict[str, Callable[[], Any]] = {
    "clone": lambda: poela.ContinuousClone(hidden=(), clone_steps=3),
    "iql": lambda: poela.IQL(hidden=(4,), steps=3, clone_steps=3, checkpoints=1),
    "poela": lambda: poela.ContinuousPOELA(hidden=(), steps=3, clone_steps=3),
}
EXTREMES = (0.0, 1e-320, 1e-30, 1e12, -1e12, 1e38, 1e59, -1e300, 2.0**53, 7.0)


def table(rng: np.random.Generator) -> pa.Table:
    """A few episodes with something extreme in a column, a row or a cell."""
    n = 24
    columns: dict[str, Any] = {name: rng.normal(size=n) for name in ("age", "dose", "reward")}
    columns["log_density"] = -0.5 * columns["dose"] ** 2 - 0.9
    for _ in range(rng.integers(0, 3)):
        values = columns[str(rng.choice(["age", "dose", "reward", "log_density"]))]
        extreme = EXTREMES[rng.integers(len(EXTREMES))]
        match rng.integers(4):
            case 0:
                values[:] = extreme
            case 1:
                values[rng.integers(n)] = extreme
            case 2:
                values[: n // 2] = extreme
            case _:
                values *= extreme
    return pa.table({"episode": np.repeat(np.arange(12), 2), "step": np.tile([0, 1], 12), **columns})


@pytest.mark.parametrize("name", LEARNERS)
def test_extreme_numbers(name: str, tmp_path: Path) -> None:
    rng, refused, decided = np.random.default_rng(0), 0, 0
    for number in range(8):
        rows = table(rng)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PoelaWarning)
                logs = poela.read_logs(rows, action="dose", log_density="log_density", context=["age"])
                policy = LEARNERS[name]().fit(logs, seed=0)
                policy.save(tmp_path / str(number))
                policy = load_policy(tmp_path / str(number))
                found = poela.evaluate(policy, logs)
        except PoelaError:
            refused += 1
            continue
        assert np.isfinite(policy.mean(logs.contexts)).all()
        assert np.isfinite(policy.sample(logs.contexts, np.random.default_rng(0))).all()
        assert "nan" not in str(found)
        decided += 1
    assert decided
    assert refused


def test_hostile_rows_of_doses_are_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    n = 40
    logs = poela.Trajectories(
        rng.normal(size=(n, 2)), rng.normal(size=(n, 1)), np.zeros(n), np.arange(n + 1), log_densities=np.zeros(n)
    )
    LEARNERS["clone"]().fit(logs).save("policy")
    pq.write_table(logs.to_table(), "rows.parquet")
    assert main(["export", "policy", "--onnx", "new.onnx"]) == 0
    assert main(["decide", "policy", "--rows", "rows.parquet", "--out", "new.csv"]) == 0
    hostile = "\n".join(["x0,x1", "1e39,0", "nan,1", "-inf,2", "1e300,-1e300", "text,0"])
    Path("hostile.csv").write_text(hostile + "\n")
    capsys.readouterr()
    assert main(["decide", "policy", "--rows", "hostile.csv", "--out", "other.csv"]) == 2
    said = capsys.readouterr().err
    assert all(line.startswith("error: column") for line in said.splitlines()), said
    assert not Path("other.csv").exists()
