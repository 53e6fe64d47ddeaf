"""Steps are numbers in files of every kind: a draw is by the step, and decisions are the next log."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import poela
from poela.cli import main


def visits() -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "episode": np.repeat([f"v{one}" for one in range(50)], 2),
            "step": np.tile([0.0, 1.0], 50),
            "size": rng.normal(size=100),
            "action": rng.choice(["wait", "treat"], 100),
            "reward": rng.normal(size=100),
            "propensity": np.full(100, 0.5),
        }
    )


@pytest.mark.parametrize("first", [0.0, 0.5])
def test_steps_of_csv_files_are_those_of_other_files(first: float, tmp_path: Path) -> None:
    policy: Any = poela.Clone().fit(poela.read_logs(visits()), seed=0)
    assert policy.needs == "context"  # so that the file is read in parts
    policy.save(tmp_path / "policy")
    rows = visits().select(["episode", "step", "size"]).to_pandas()
    rows["step"] += first
    rows.to_csv(tmp_path / "rows.csv", index=False)  # 0.0 and 1.0
    rows.to_parquet(tmp_path / "rows.parquet")
    for name in ("csv", "parquet"):
        found = ["--rows", str(tmp_path / f"rows.{name}"), "--out", str(tmp_path / f"from_{name}.parquet")]
        assert main(["decide", str(tmp_path / "policy"), *found]) == 0
    one, other = (pq.read_table(tmp_path / f"from_{name}.parquet") for name in ("csv", "parquet"))
    assert len(set(other["action"].to_pylist())) == 2
    assert one["action"].equals(other["action"])
    logs = poela.read_logs(one.append_column("reward", visits()["reward"]))
    assert (logs.n_episodes, logs.n_steps) == (50, 100)


def test_steps_that_are_no_numbers_stay_as_they_are(tmp_path: Path) -> None:
    policy: Any = poela.Clone().fit(poela.read_logs(visits()), seed=0)
    rows = visits().select(["episode", "step", "size"]).to_pandas()
    rows["step"] = ["0", "later"] * 50
    rows.to_csv(tmp_path / "rows.csv", index=False)
    assert policy.decide(tmp_path / "rows.csv")["step"].to_pylist() == ["0", "later"] * 50
