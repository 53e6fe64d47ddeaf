"""A few hundred mutated log files; `fuzz_logs.py` tries as many as one likes."""

from math import inf
from pathlib import Path

from tests.robustness.fuzz_logs import fuzz
from tests.robustness.seeds import seed


def test_mutated_logs_are_read_or_refused_in_a_sentence(tmp_path: Path) -> None:
    counts = fuzz(seconds=inf, seed=seed(), folder=tmp_path, most=200)
    assert min(counts["read"], counts["refused"]) > 10
