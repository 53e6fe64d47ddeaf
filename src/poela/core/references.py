"""Texts that stand for objects of a Python session in plain records, as "Ridge(alpha=2.0) [live 5f2c9a01be440177]".

They are looked up in a table of this process.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from threading import Lock
from typing import Any

from poela.core.errors import InputError

MOST_WORDS = 120  # characters of a description

_REFERENCE = re.compile(r"(?P<what>.*) \[live (?P<token>[0-9a-f]{16})\]", re.DOTALL)
_objects: dict[str, Any] = {}
_lock = Lock()


def is_reference(value: Any) -> bool:
    """Whether a text stands for an object.

    >>> is_reference("knn"), is_reference("Ridge() [live 5f2c9a01be440177]")
    (False, True)
    """
    return isinstance(value, str) and _REFERENCE.fullmatch(value) is not None


def described(text: str) -> str:
    """A reference, or any other text, as people read it.

    >>> described("Ridge() [live 5f2c9a01be440177]"), described("knn")
    ('Ridge()', 'knn')
    """
    match = _REFERENCE.fullmatch(text)
    return match["what"] if match else text


def reference(thing: Any) -> str:
    """The text that stands for an object: the same one for objects of the same class with the same settings.

    >>> from fractions import Fraction
    >>> text = reference(Fraction(1, 2))
    >>> described(text), referred(text), text == reference(Fraction(1, 2))
    ('Fraction(1, 2)', Fraction(1, 2), True)
    """
    what, number = description(thing), 0
    with _lock:
        while True:
            text = text_for(what, f"{type(thing).__module__}.{type(thing).__qualname__} {what} {number}".encode())
            if text not in _objects or _same(_objects[text], thing):
                _objects.setdefault(text, thing)
                return text
            number += 1


def named(thing: Any) -> Any:
    """The reference of a function or another object that takes the place of a name; a name, or None, as it is.

    >>> named("bca"), named(None), is_reference(named(sum))
    ('bca', None, True)
    """
    if isinstance(thing, type) or (not callable(thing) and not hasattr(thing, "__dataclass_fields__")):
        return thing
    return reference(thing)


def referred(text: str) -> Any:
    """The object that a reference stands for, or one sentence where it belonged to another process."""
    with _lock:
        if text in _objects:
            return _objects[text]
    raise InputError(
        f"{described(text)} was an object of the Python session that used it, which no file can hold: "
        "run that session's code again"
    )


def remember(objects: Mapping[str, Any]) -> None:
    """Let these texts stand for these objects."""
    with _lock:
        _objects.update(objects)


def description(thing: Any) -> str:
    """An object in a few words: its `repr` where that says more than an address.

    >>> description(lambda logs: 0), description(object())
    ('<lambda>', 'object')
    """
    if hasattr(thing, "__name__"):
        return str(thing.__name__)
    words = " ".join(repr(thing).split())
    if " at 0x" in words or len(words) > MOST_WORDS:
        return type(thing).__name__
    return words


def text_for(what: str, evidence: bytes) -> str:
    """The text for an object in these words, of which `evidence` tells others with the same words apart."""
    return f"{what} [live {sha256(what.encode() + evidence).hexdigest()[:16]}]"


def _same(one: Any, other: Any) -> bool:
    """Whether two objects are one and the same, or of one class with the same settings."""
    if one is other:
        return True
    if type(one) is not type(other) or hasattr(one, "__code__"):
        return False
    states = [repr(thing.get_params() if hasattr(thing, "get_params") else _state(thing)) for thing in (one, other)]
    return states[0] == states[1] and not any(hint in states[0] for hint in (" at 0x", "..."))


def _state(thing: Any) -> Any:
    return vars(thing) if hasattr(thing, "__dict__") else thing
