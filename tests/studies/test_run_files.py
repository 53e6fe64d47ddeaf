"""Runs as files: what several policies have in common is there once, and read through once."""

import numpy as np
import pytest

from poela.core.files import sha256
from poela.core.storage import Stored
from poela.studies import run_files


def policy(large: np.ndarray[tuple[int], np.dtype[np.float64]], own: float) -> Stored:
    return Stored("network", {}, {"weights": np.array([own])}, {"rule": Stored("rule", {}, {"contexts": large})})


def test_the_very_same_part_is_read_through_once_and_an_equal_one_is_stored_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    large, hashed = np.arange(run_files.LARGE, dtype=np.float64), list[int]()

    def counted(content: bytes) -> str:
        hashed.append(len(content))
        return sha256(content)

    monkeypatch.setattr(run_files, "sha256", counted)
    same = run_files.packed([policy(large, 1.0), policy(large, 2.0)])
    assert sum(size > run_files.LARGE for size in hashed) == 1
    equal = run_files.packed([policy(large, 1.0), policy(large.copy(), 2.0)])
    assert (same.own, dict(same.shared)) == (equal.own, dict(equal.shared))
    other = run_files.packed([policy(large, 1.0), policy(large + 1, 2.0)])
    assert len(same.shared) == 1
    assert len(other.shared) == 2
