"""What an experiment's file in `data/` says: how much is done, which candidates, and the published numbers."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any


@cache
def described(name: str) -> Mapping[str, Any]:
    """The whole file of an experiment.

    >>> described("cartpole")["full"]["episodes"]
    1240
    """
    text = files("poela_experiments").joinpath("data", f"{name}.toml").read_text(encoding="utf-8")
    return MappingProxyType(tomllib.loads(text))


@dataclass(frozen=True)
class Size:
    """How much of an experiment is done, "quick" or "full": every setting is an attribute.

    >>> size = Size.of("counterexamples", "quick")
    >>> size.repeats, size.but(repeats=5).repeats
    (100, 5)
    """

    name: str
    settings: Mapping[str, Any]

    @classmethod
    def of(cls, experiment: str, name: str) -> "Size":
        """That of an experiment's file, or of the one whose studies it uses."""
        data = described(experiment)
        return cls(name, described(data.get("sized_as", experiment))[name])

    def __getattr__(self, setting: str) -> Any:
        try:
            return vars(self)["settings"][setting]
        except KeyError:
            raise AttributeError(f"the size has no setting {setting!r}") from None

    def but(self, **changes: Any) -> "Size":
        """The same with other settings."""
        return Size(self.name, {**self.settings, **changes})
