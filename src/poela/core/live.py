"""Objects of this Python session that no file can hold, and the texts that stand for them in plain records.

A task, a record or a stored policy names such an object by its reference (see `core.references`), which is looked up in
a table of this process, so that reading a file never makes an object. Between a process and its own workers, objects
travel through a pipe (`packed`, `unpack`); no file ever holds them so.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from poela.core.errors import InputError
from poela.core.references import described, description, is_reference, reference, referred, remember, text_for
from poela.core.storage import Stored

KIND = "live"  # of a stored part that is such an object


def stored_live(thing: Any, evidence: bytes) -> Stored:
    """A part of a stored policy that lives in this process; `evidence` tells it from others, by what it does."""
    text = text_for(description(thing), evidence)
    remember({text: thing})
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
    remember(contents)
    return set(contents)


def unfitted(estimator: Any, seed: int) -> Any:
    """A copy of an estimator without what it has learned; a `random_state` of None becomes the seed."""
    from sklearn.base import clone

    copy = clone(estimator, safe=False)
    parameters = copy.get_params(deep=False) if hasattr(copy, "get_params") else {}
    if "random_state" in parameters and parameters["random_state"] is None:
        copy.set_params(random_state=seed % 2**32)
    return copy
