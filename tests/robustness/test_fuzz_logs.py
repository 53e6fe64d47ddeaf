"""A few seconds of mutated log files; `fuzz_logs.py` runs for as long as one likes."""

from pathlib import Path

from tests.robustness.fuzz_logs import fuzz
from tests.robustness.hostile_tour import day_seed


def test_mutated_logs_are_read_or_refused_in_a_sentence(tmp_path: Path) -> None:
    counts = fuzz(seconds=3, seed=day_seed(), folder=tmp_path)
    assert min(counts["read"], counts["refused"]) > 10
