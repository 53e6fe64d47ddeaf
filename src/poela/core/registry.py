"""Tables of things by name: our own, and those that installed packages offer."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, requires
from typing import Any, Generic, TypeVar

from poela.core.errors import PoelaError
from poela.core.references import is_reference, referred

# How to install what is missing: by the packages themselves. `pip install poela[…]` needs an index that has poela.

_OWN = re.compile(r"^poela\[([\w,-]+)\]")


def how_to_install(extra: str) -> str:
    """The command that brings what an extra brings, from wherever poela was installed.

    >>> how_to_install("report")
    "pip install 'jinja2>=3.1'"
    """
    needed = _needed(extra)
    return f"pip install {shlex.join(needed)}" if needed else f"pip install '.[{extra}]' in a clone of poela"


def _needed(extra: str) -> list[str]:
    """The requirements of an extra, and of the extras that it names."""
    try:
        lines = requires("poela") or []
    except PackageNotFoundError:  # sources that were never installed
        return []
    found: list[str] = []
    for line in lines:
        what, _, marker = (part.strip() for part in line.partition(";"))
        if not re.search(rf"""extra == ['"]{re.escape(extra)}['"]""", marker):
            continue
        inner = _OWN.match(what.replace(" ", ""))
        found += [one for name in inner[1].split(",") for one in _needed(name)] if inner else [what]
    return list(dict.fromkeys(found))


T = TypeVar("T")
LONGEST_REASON = 200  # letters of why a package cannot be loaded


class Registry(Mapping[str, T], Generic[T]):
    """Things by name, each imported when it is first asked for; an object of this session by its reference.

    `made` makes a thing of the table of what is none, such as a plain function. Ours are given as they are, or as
    "module:attribute". A package adds its own by an entry point of this group, in
    its pyproject.toml; where both have a name, it is ours:

        [project.entry-points."poela.learners"]
        coin = "my_package.coin:CoinLearner"

    >>> table: Registry[type] = Registry("poela.examples", {"path": "pathlib:Path"})
    >>> list(table), table["path"].__name__, "other" in table
    (['path'], 'Path', False)
    """

    def __init__(self, group: str, own: Mapping[str, T | str], made: Callable[[Any], T] | None = None) -> None:
        self.group, self._own, self._made = group, own, made
        self._loaded: dict[str, T] = {}

    @cached_property
    def _places(self) -> dict[str, T | str]:
        added = {name: place for name, place in offered(self.group).items() if name not in self._own}
        return {**self._own, **added}

    def __getitem__(self, name: str) -> T:
        if is_reference(name):
            return self._of_this_session(name)
        if name not in self._loaded:
            place = self._places[name]
            self._loaded[name] = loaded(EntryPoint(name, place, self.group)) if isinstance(place, str) else place
        return self._loaded[name]

    def name_of(self, thing: object) -> str | None:
        """The name of a thing; None where it is none of these.

        >>> Registry("poela.examples", {"path": "pathlib:Path", "gone": "nowhere:Thing"}).name_of(3) is None
        True
        """
        return next((name for name, one in self.loadable() if one is thing), None)

    def loadable(self) -> Iterator[tuple[str, T]]:
        """Names with their things, but for those of packages that cannot be loaded."""
        for name in self:
            with suppress(PoelaError):
                yield name, self[name]

    def _of_this_session(self, name: str) -> T:
        thing: T = referred(name) if self._made is None else self._made(referred(name))
        return thing

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places or is_reference(name)  # without importing anything


def offered(group: str) -> dict[str, str]:
    """What installed packages offer under this name, as "module:attribute".

    >>> offered("poela.nothing")
    {}
    """
    return {point.name: point.value for point in entry_points(group=group)}


def loaded(point: EntryPoint) -> Any:
    """What an entry point leads to, or one sentence where there is nothing."""
    try:
        return point.load()
    except ModuleNotFoundError as error:
        package = point.module.partition(".")[0]
        raise PoelaError(
            f"{point.group} {point.name!r} cannot be loaded ({error}): install the package {package} beside poela"
        ) from None
    except (Exception, SystemExit) as error:  # whatever another package does when it is imported
        package, what = point.module.partition(".")[0], f"{type(error).__name__}: {error}"[:LONGEST_REASON]
        raise PoelaError(
            f"{point.group} {point.name!r} cannot be loaded ({what}): mend the package {package}, or remove it"
        ) from None
