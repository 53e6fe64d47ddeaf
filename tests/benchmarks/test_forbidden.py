"""Fuzzed decisions by every door: none is forbidden; without limits there would be many."""

import importlib
from pathlib import Path
from typing import Any

import pytest

from poela.data.limits import LimitsInContexts

SCRIPTS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(SCRIPTS))  # as Python does where the script is called
    return importlib.import_module("forbidden").counted


def test_no_door_hands_out_what_is_forbidden(counted: Any) -> None:
    found = counted(60, learners=("consensus", "bcq"), knowns=(True,), under=[{}])
    assert found["forbidden"] == found["not deferred"] == 0
    for door in ("decide", "decide, likeliest", "MLflow", "serve", "export"):
        assert found[f"{door}: given"] > 60


def test_the_count_would_tell(counted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*names: Any) -> None:
        return None

    monkeypatch.setattr(LimitsInContexts, "of", nothing)
    found = counted(60, learners=("consensus",), knowns=(True,))
    assert found["forbidden"] > 100
    assert found["not deferred"] > 10
