"""A finished study, and a copy of it that a test may spoil."""

import shutil
from pathlib import Path

import pytest
from tests.robustness.fuzz_studies import make_study


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("studies") / "good"
    make_study(out)
    return out


@pytest.fixture
def study(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "study"))
