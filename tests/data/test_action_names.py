"""Names of actions from a log to decisions in a CSV file and back: the same, or refused in one sentence."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from poela.core.errors import InputError
from poela.data.tables import read_logs
from poela.data.trajectories import Trajectories
from poela.learners.clone import Clone

SETTLED = [
    ["None", "a"],
    ["0.1", "0.2"],
    ["0.5", "1.0"],
    ["1.0", "2.0"],
    ["0.1", "a"],
    ["01", "1"],
    [" a", "b"],
    ["a; b", "c"],
    ['say "x"', "y"],
    ["1e5", "2"],
    ["True", "maybe"],
    ["line\nbreak", "c"],
    ["größer", "🙂"],
]


def log(names: list[str], n: int = 60) -> pa.Table:
    rng = np.random.default_rng(0)
    actions = [names[place] for place in rng.integers(0, len(names), n)]
    chances = {f"propensity_{name}": [1 / len(names)] * n for name in names}
    return pa.table({"age": rng.normal(size=n), "action": actions, "reward": rng.normal(size=n), **chances})


@pytest.mark.parametrize("names", SETTLED, ids=repr)
@pytest.mark.parametrize("ending", ["csv", "table"])
def test_names_survive_the_round_trip_of_decisions(names: list[str], ending: str, tmp_path: Path) -> None:
    table = log(names)
    source = table
    if ending == "csv":
        source = tmp_path / "log.csv"
        pyarrow.csv.write_csv(table, source)
    logs = read_logs(source)
    assert isinstance(logs, Trajectories)
    assert logs.action_names == tuple(names)
    decided = Clone(steps=3).fit(logs, seed=0).decide(table.select(["age"]))
    pyarrow.csv.write_csv(decided.append_column("reward", table["reward"]), tmp_path / "decided.csv")
    again = read_logs(tmp_path / "decided.csv")
    assert again.action_names == tuple(names)
    assert [names[place] for place in again.actions] == decided["action"].to_pylist()
    assert again.all_propensities is not None
    np.testing.assert_allclose(again.all_propensities, np.stack([decided[f"propensity_{one}"] for one in names], 1))


@pytest.mark.parametrize("name", ["", "NA", "N/A", "null", "nan", "NULL"])
def test_names_that_csv_files_take_for_missing_are_refused(name: str, tmp_path: Path) -> None:
    table = log([name, "treat"])
    rows = table["action"].to_pylist().count(name)
    with pytest.raises(InputError) as refused:
        read_logs(table)
    (problem,) = refused.value.problems
    assert f"has an action called {name!r}, which CSV files take for missing in {rows} rows" in problem
    assert problem.endswith("give it another name, such as none")
    pyarrow.csv.write_csv(table, tmp_path / "log.csv")
    with pytest.raises(InputError, match=f"column 'action' is null or NaN in {rows} rows"):
        read_logs(tmp_path / "log.csv")


def test_levels_of_a_dose_may_be_declared_by_their_propensities() -> None:
    """As numbers, too."""
    table = log(["0.1", "0.2"])
    numbers = table.set_column(1, "action", pa.array([float(name) for name in table["action"].to_pylist()]))
    assert read_logs(numbers).action_names == ("0.1", "0.2")


@pytest.mark.parametrize(
    ("taken", "alike"),
    [(["Wait", "wait", "Treat ", "treat"], 4), (["wait", "Wait", "treat"], 2), (["wait", "treat"], 0), ([0, 1], 0)],
)
def test_spellings_that_nobody_sees_apart_are_noted(tmp_path: Path, taken: list[str], alike: int) -> None:
    rows = {"id": np.arange(24), "x": np.arange(24.0), "action": taken * (24 // len(taken)), "reward": np.zeros(24)}
    pyarrow.csv.write_csv(pa.table(rows), tmp_path / "log.csv")
    logs = read_logs(tmp_path / "log.csv", episode="id", action="action", reward="reward")
    said = f"column 'action' has {alike} actions that differ from another only by capital letters or blanks"
    assert [note.partition(":")[0] for note in logs.notes] == ([said] if alike else [])
    assert logs.n_actions == len(taken)  # nothing is merged unasked: propensities may be of each spelling
