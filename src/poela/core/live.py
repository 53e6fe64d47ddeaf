"""Objects of this Python session that no file can hold, and the texts that stand for them in plain records.

A task, a record or a stored policy names such an object by its reference (see `core.references`), which is looked up in
a table of this process, so that reading a file never makes an object. Between a process and its own workers, objects
travel through a pipe (`packed`, `unpack`); no file ever holds them so.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from threading import Lock
from typing import Any

from poela.core.errors import InputError
from poela.core.references import described, is_reference
from poela.core.storage import Stored

KIND = "live"  # of a stored part that is such an object
MOST_WORDS = 120  # characters of a description

_objects: dict[str, Any] = {}
_lock = Lock()


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
            text = _text(what, f"{type(thing).__module__}.{type(thing).__qualname__} {what} {number}".encode())
            if text not in _objects or _same(_objects[text], thing):
                _objects.setdefault(text, thing)
                return text
            number += 1


def stored_live(thing: Any, evidence: bytes) -> Stored:
    """A part of a stored policy that lives in this process; `evidence` tells it from others, by what it does."""
    text = _text(description(thing), evidence)
    with _lock:
        _objects[text] = thing
    return Stored(KIND, {"object": text})


def stored_or_live(part: Any) -> Stored:
    """A part of a policy as it is stored; one that does not know how is referred to.

    >>> stored_or_live(1j).kind
    'live'
    """
    if callable(getattr(part, "stored", None)):
        stored: Stored = part.stored()
        return stored
    return Stored(KIND, {"object": reference(part)})


def referred(text: str) -> Any:
    """The object that a reference stands for, or one sentence where it belonged to another process."""
    with _lock:
        if text in _objects:
            return _objects[text]
    raise InputError(
        f"{described(text)} was an object of the Python session that used it, which no file can hold: "
        "run that session's code again"
    )


def resolved(plain: Any) -> Any:
    """Plain data with the objects that its references stand for.

    >>> resolved({"steps": [1, reference(2j)]})
    {'steps': [1, 2j]}
    """
    if isinstance(plain, Mapping):
        return {name: resolved(value) for name, value in plain.items()}
    if isinstance(plain, list | tuple):
        return [resolved(value) for value in plain]
    return referred(plain) if is_reference(plain) else plain


def references_in(plain: Any) -> set[str]:
    """Every reference in plain data or in a stored object.

    >>> references_in({"a": ["knn"], "b": 1})
    set()
    """
    if isinstance(plain, Stored):
        return references_in(plain.settings).union(*map(references_in, plain.parts.values()))
    if isinstance(plain, Mapping):
        return set().union(*map(references_in, plain.values()))
    if isinstance(plain, list | tuple):
        return set().union(*map(references_in, plain))
    return {plain} if is_reference(plain) else set()


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


def packed(references: Iterable[str]) -> bytes:
    """Objects as bytes for another process of ours; a class or function of a notebook travels with its code."""
    cloudpickle = _cloudpickle()
    contents = {}
    for text in sorted(references):
        try:
            contents[text] = cloudpickle.dumps(referred(text))
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"{described(text)} cannot be sent between processes ({type(error).__name__}): say backend='inline'"
            ) from None
    packed_all: bytes = cloudpickle.dumps(contents)
    return packed_all


def _cloudpickle() -> Any:
    """scikit-learn brings it, by joblib: beside it from version 1.6 on, within it before."""
    from importlib import import_module

    try:
        return import_module("cloudpickle")
    except ImportError:
        return import_module("joblib.externals.cloudpickle")


def unpack(content: bytes) -> set[str]:
    """Take in what another process of ours has packed; the references that came."""
    import pickle

    contents = {text: pickle.loads(packed_one) for text, packed_one in pickle.loads(content).items()}
    with _lock:
        _objects.update(contents)
    return set(contents)


def _text(what: str, evidence: bytes) -> str:
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
