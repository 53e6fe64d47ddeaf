"""The harness of `make bench` on one tiny case, its growth exponents, and the comparison of two results."""

import json
import subprocess
import sys
from pathlib import Path

from tests.warm import warm

ROOT = Path(__file__).parents[2]
BENCH = str(ROOT / "benchmarks" / "bench.py")
ROW = {"case", "size", "ours", "alternative", "alternative_name", "floor", "floor_name", "peak_mb", "ratios"}


def said(*arguments: object, python: str | None = None) -> str:
    command = [python or str(warm().python), BENCH, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_benchmark_is_measured_stored_compared_and_told(tmp_path: Path) -> None:
    tiny = ("nearest_few_features", "--sizes", 50, 100, "--rounds", 2, "--out", tmp_path)
    told = said(*tiny, python=sys.executable)  # which it starts anew, to measure its memory
    stored = json.loads((tmp_path / "nearest_few_features.json").read_text())
    assert stored["benchmark"] == "nearest_few_features"
    assert [row["size"] for row in stored["rows"]] == [50, 100]
    assert all(set(row) == ROW and row["ours"] > 0 and row["peak_mb"] > 10 for row in stored["rows"])
    assert all(len(row["ratios"]) == 2 for row in stored["rows"])
    assert set(stored["machine"]) >= {"cores", "python", "torch", "commit"}
    assert "SciPy, cKDTree" in told

    slower = {**stored, "rows": [{**row, "ours": 2 * row["ours"]} for row in stored["rows"]]}
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "any.json").write_text(json.dumps(slower))
    compared = said("--compare", tmp_path, tmp_path / "new").splitlines()
    assert len(compared) == 3
    assert all(line.split()[4:] == ["2.00", "1.00"] for line in compared[1:])

    ratios = {50: [0.8, 0.9, 1.1], 100: [1.3, 1.2, 1.4]}
    rows = [{**row, "ratios": ratios[row["size"]]} for row in stored["rows"]]
    elsewhere = {**stored, "rows": rows, "benchmark": "later", "machine": {**stored["machine"], "commit": "0ddba11"}}
    (tmp_path / "later.json").write_text(json.dumps(elsewhere))
    (tmp_path / "nearest_few_features.json").rename(tmp_path / "first.json")
    said("--page", tmp_path / "page.md", "--out", tmp_path)
    first, later = (tmp_path / "page.md").read_text().split("## later")
    assert "## nearest_few_features" in first
    assert "0ddba11" not in first
    assert "| 50 | 0.90 (0.80 to 1.10): no difference shown |" in later
    assert "| 100 | 1.30 (1.20 to 1.40) |" in later
    assert "Measured with commit 0ddba11." in later


def test_growth_is_the_slope_of_logarithms() -> None:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        from measuring import growth  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)
    assert abs(growth([10, 20, 40], [3.0, 12.0, 48.0]) - 2.0) < 1e-9
    assert growth([10], [3.0]) is None
