"""Learned support as logs grow: less of a hole stays open, little of what was done is barred."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from benchmarks.holes_in_support.processes import THIRD, OneStep
from benchmarks.holes_in_support.scenarios import scenario
from tests.warm import warm

from poela.eligibility.support import fit_support

FRESH = 20_000


@pytest.mark.parametrize("kind", ["half", "corner", "pocket"])
def test_the_hole_closes_and_practice_stays_open(kind: str) -> None:
    process = scenario(f"{kind}:none").process
    assert isinstance(process, OneStep)
    fresh = process.simulate(FRESH, 999)
    hole = process.harmed(np.asarray(fresh.contexts, np.float64))
    left = []
    for size in (400, 1500, 4000):
        model = fit_support(process.simulate(size, 0).with_propensities(None), 0.02)
        assert model is not None
        assert model.barred <= 0.02
        supported = model.supported(model.probabilities(fresh.contexts))
        barred = 1 - supported[np.arange(FRESH), fresh.actions].mean()
        assert barred <= 0.02 + 3 * np.sqrt(0.02 * 0.98 / FRESH)
        assert supported[~hole, THIRD].mean() > 0.9
        left.append(supported[hole, THIRD].mean())
    assert left[0] > left[-1]
    assert left[-1] < 0.05


def test_the_table_is_printed_and_rows_are_kept(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "support_growth.py"
    command = [str(warm().python), str(script), "--sizes", "150", "--logs", "1", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    header, _, *rows = done.stdout.splitlines()
    assert header == "| hole | cases | logs | open | barred | kept | soft | hard | free | most open |"
    assert [row.split(" | ")[0] for row in rows] == ["| half", "| corner", "| pocket"]
    again = subprocess.run([*command[:2], "--table", str(tmp_path)], capture_output=True, text=True, timeout=300)
    assert again.stdout == done.stdout
