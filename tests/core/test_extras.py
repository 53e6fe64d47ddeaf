"""What is missing is named with a command that works wherever poela came from."""

import importlib.metadata
import re
from pathlib import Path

import pytest

from poela.core import registry as extras
from poela.core.registry import how_to_install

ROOT = Path(__file__).parents[2]


def test_extras_that_name_extras_are_followed() -> None:
    command = how_to_install("dqn")
    assert "poela" not in command
    assert "gymnasium" in command
    assert "stable-baselines3" in command


def test_sources_that_were_never_installed_have_a_command_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> list[str]:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(extras, "requires", unknown)
    assert how_to_install("serve") == "pip install '.[serve]' in a clone of poela"


def test_no_text_says_what_works_nowhere() -> None:
    """Such as `pip install poela[…]`, which needs an index that has poela: a clone, a wheel or the packages do not."""
    texts = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    wrong = re.compile(r"pip install '?poela\[\w")
    assert [str(path.relative_to(ROOT)) for path in texts if wrong.search(path.read_text(encoding="utf-8"))] == []
