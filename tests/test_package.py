"""What people install and cite: one version everywhere, and extras that exist and are documented."""

import re
import tomllib
from pathlib import Path

import poela

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_version_is_told_once_and_cited_as_it_is() -> None:
    assert "version" not in PROJECT
    assert PROJECT["dynamic"] == ["version"]
    assert f"\nversion: {poela.__version__}\n" in text("CITATION.cff")
    first = re.search(r"^## (\S+)", text("CHANGELOG.md"), re.MULTILINE)
    assert first is not None
    assert first[1] == poela.__version__


def test_every_extra_is_documented_with_what_it_brings() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", text("docs/start/install.md"), re.MULTILINE))
    assert set(rows) == set(PROJECT["optional-dependencies"])
    for extra in set(rows) - {"dev", "minari"}:
        brings = {re.split(r"[\[><=]", each)[0] for each in PROJECT["optional-dependencies"][extra]} - {"poela"}
        assert set(re.split(r",\s*", rows[extra].strip())) == brings, extra


def test_the_oldest_versions_are_told_as_they_are() -> None:
    page = text("docs/start/install.md")
    for dependency in PROJECT["dependencies"]:
        name, version = dependency.split(">=")
        assert f"{name} {version}" in page.replace("\n", " "), dependency
