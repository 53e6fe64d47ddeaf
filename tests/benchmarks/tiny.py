"""Measurements made tiny."""

from pathlib import Path
from typing import Any

from benchmarks.coverage_of_intervals.measurement import NAME, Measurement, size_of
from tests.experiments.tiny import INLINE


def tiny_coverage(out: Path, seed: int = 0, **settings: Any) -> Measurement:
    """The quick form with other settings, in this process."""
    return Measurement(NAME, out, size_of("quick").but(**settings), seed, INLINE)
