"""Objects as documents and arrays: the one form in which policies, behavior models and the paths of runs are stored.

The document of an object gives its kind, its settings, its arrays by name and the parts that it is made of. Alone, it
has its parts within itself, and its arrays are called by where they stand (`flat`). Objects that have much in common,
such as the policies of a path, stand together: each part is described once, and arrays of one name and shape are the
rows of one (`together`). `Reading` reads both.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from poela.core.files import sha256

DEEPEST_PART = 20
MOST_PARTS = 100_000  # of one object, counted as often as it is made of them
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Stored:
    """A saved object: its kind, plain settings, arrays, and the parts that it is made of."""

    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    arrays: Arrays = field(default_factory=dict)
    parts: Mapping[str, "Stored"] = field(default_factory=dict)


def canonical(document: Any) -> bytes:
    """A document as the bytes that its checksum is of."""
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def fingerprint_of_stored(stored: Stored) -> str:
    """A hash of everything in a stored object, whatever file it is in.

    >>> fingerprint_of_stored(Stored("thing")) == fingerprint_of_stored(Stored("thing", {"size": 1}))
    False
    """
    document, arrays = flat(stored)
    hashes = {
        name: [array.dtype.str, list(array.shape), sha256(np.ascontiguousarray(array).tobytes())]
        for name, array in arrays.items()
    }
    return sha256(canonical([document, hashes]))


def flat(stored: Stored) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The document of one object, and its arrays by where they stand in it.

    >>> flat(Stored("rule", parts={"table": Stored("table", arrays={"x": np.zeros(2)})}))[1]
    {'table.x': array([0., 0.])}
    """
    arrays: dict[str, NDArray[Any]] = {}
    return _flatten(stored, "", arrays), arrays


def _flatten(stored: Stored, prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    arrays.update({f"{prefix}{name}": array for name, array in stored.arrays.items()})
    return {
        "kind": stored.kind,
        "settings": dict(stored.settings),
        "arrays": sorted(stored.arrays),
        "parts": {name: _flatten(part, f"{prefix}{name}.", arrays) for name, part in stored.parts.items()},
    }


def together(
    objects: Sequence[Stored], apart: Callable[[Stored], str | None] = lambda part: None
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The document of several objects, and their arrays; a part's arrays that are kept `apart` are told by a key.

    >>> path = [Stored("policy", {"dial": dial}, {"w": np.full(3, dial)}) for dial in (1.0, 2.0, 2.0)]
    >>> document, arrays = together(path)
    >>> document["objects"], arrays["w.0"].shape
    ([0, 1, 1], (2, 3))
    """
    shelf = _Shelf(apart)
    places = [shelf.place(stored, outermost=True) for stored in objects]
    return {"objects": places, "parts": shelf.parts}, shelf.arrays()


class _Shelf:
    """Parts and arrays that are alike, each once."""

    def __init__(self, apart: Callable[[Stored], str | None]) -> None:
        self.parts: list[dict[str, Any]] = []
        self._apart = apart
        self._places: dict[bytes, int] = {}
        self._stacks: dict[tuple[Any, ...], _Stack] = {}  # by the name, type and shape of their rows
        self._seen: dict[tuple[str, int], list[Any]] = {}  # the very same arrays, which are not read through again

    def place(self, stored: Stored, *, outermost: bool = False) -> int:
        document: dict[str, Any] = {"kind": stored.kind, "settings": dict(stored.settings)}
        if not outermost and (key := self._apart(stored)) is not None:
            document["shared"] = key
        else:
            document["arrays"] = {name: self._row(name, array) for name, array in sorted(stored.arrays.items())}
        document["parts"] = {name: self.place(part) for name, part in stored.parts.items()}
        place = self._places.setdefault(canonical(document), len(self.parts))
        if place == len(self.parts):
            self.parts.append(document)
        return place

    def _row(self, name: str, array: NDArray[Any]) -> list[Any]:
        if (name, id(array)) not in self._seen:
            kind = (name, array.dtype, array.shape)
            stack = self._stacks.setdefault(kind, _Stack(f"{name}.{len(self._stacks)}", {}))
            row = stack.rows.setdefault(array.tobytes(), len(stack.rows))
            self._seen[name, id(array)] = [stack.name, row]
        return self._seen[name, id(array)]

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {
            stack.name: np.frombuffer(bytearray().join(stack.rows), dtype).reshape(len(stack.rows), *shape)
            for (_, dtype, shape), stack in self._stacks.items()
        }


class _Stack(NamedTuple):
    """Arrays of one name, type and shape as the rows of one."""

    name: str
    rows: dict[bytes, int]


class Reading:
    """Reads objects from documents; what is wrong with one is a ValueError that says what.

    >>> path = [Stored("policy", {"dial": dial}, {"w": np.full(3, dial)}) for dial in (1.0, 2.0)]
    >>> document, arrays = together(path)
    >>> Reading(arrays.__getitem__, document["parts"]).stored(document["objects"][1]).arrays
    {'w': array([2., 2., 2.])}
    """

    def __init__(
        self,
        array: Callable[[str], NDArray[Any]],
        parts: Sequence[Any] | None = None,
        apart: Callable[[str], Arrays] | None = None,
    ) -> None:
        self._array, self._parts, self._apart = array, parts, apart
        listed: Any = list if parts is None else list | dict
        self._fields: dict[str, Any] = {"kind": str, "settings": dict, "arrays": listed, "parts": dict}
        self._left = MOST_PARTS

    def stored(self, document: Any, prefix: str = "", depth: int = 0) -> Stored:
        """The object that a document describes, or the number of one among the parts."""
        self._left -= 1
        if depth > DEEPEST_PART or self._left < 0:
            raise ValueError(f"parts are nested more than {DEEPEST_PART} deep, or are too many")
        if self._parts is not None and type(document) is int:
            document = self._parts[document] if 0 <= document < len(self._parts) else None
        shared = None
        if self._apart is not None and isinstance(document, dict):
            document = {"arrays": {}, **document}  # of which there need be none beside those that are kept apart
            shared = document.pop("shared", None)
        self._check_fields(document)
        own = self._own(document["arrays"], prefix)
        if self._apart is not None and shared is not None:
            own = {**own, **self._apart(shared)}
        parts = {
            _plain_name(name): self.stored(part, f"{prefix}{name}.", depth + 1)
            for name, part in document["parts"].items()
        }
        return Stored(document["kind"], document["settings"], own, parts)

    def _check_fields(self, document: Any) -> None:
        if not isinstance(document, dict) or document.keys() != self._fields.keys():
            raise ValueError("an object must have exactly the fields kind, settings, arrays and parts")
        wrong = [name for name, expected in self._fields.items() if not isinstance(document[name], expected)]
        if wrong:
            raise ValueError(f"the field {wrong[0]} is of another type than expected")

    def _own(self, names: Any, prefix: str) -> dict[str, NDArray[Any]]:
        """Arrays by their names; a list names those that are called by where they stand."""
        places = names if isinstance(names, dict) else {_plain_name(name): f"{prefix}{name}" for name in names}
        if len(places) < len(names):
            raise ValueError("an array is named twice")
        return {_plain_name(name): self._at(name, place) for name, place in places.items()}

    def _at(self, name: str, place: Any) -> NDArray[Any]:
        stack, row = place if isinstance(place, list) and len(place) == 2 else (place, None)
        try:
            found = self._array(stack)
            if row is None:
                return found
            if type(row) is not int or not 0 <= row < len(found):
                raise KeyError(name)
            return np.asarray(found[row])
        except (KeyError, TypeError):
            raise ValueError(f"the array {name[:40]!r} is missing") from None


def _plain_name(name: Any) -> str:
    if not isinstance(name, str) or not name or set(name) & set("/\\\0"):
        raise ValueError(f"{repr(name)[:40]} is no name of an array or part")
    return name
