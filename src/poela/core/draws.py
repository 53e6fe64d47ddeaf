"""Draws that belong to a case: the same wherever, whenever and beside whatever other cases it is decided about."""

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np

from poela.core.arrays import FloatArray

Key = tuple[str, ...]  # the case and its step, as texts


def uniform_of(seed: object, *key: object) -> float:
    """A number in [0, 1) that depends on the seed, the case and its step alone: 53 bits of a hash of their texts.

    >>> uniform_of("c0ffee", "patient 7", 0) == uniform_of("c0ffee", "patient 7", "0")
    True
    >>> round(uniform_of("c0ffee", "patient 7", 0), 6), round(uniform_of("c0ffee", "patient 7", 1), 6)
    (0.229114, 0.907313)
    """
    text = "\n".join(map(text_of, (seed, *key)))
    # Halves of letters, which text in memory may hold, have bytes too.
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53


def uniforms(seed: object, keys: Iterable[Key]) -> FloatArray:
    """The number [N] of each key."""
    return np.array([uniform_of(seed, *key) for key in keys], np.float64)


def text_of(value: object) -> str:
    """A name as text, by which files of all kinds agree: a whole number has no decimals.

    >>> text_of(4.0), text_of(4), text_of("4")
    ('4', '4', '4')
    """
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


class KnownDraws:
    """Numbers that were drawn already, where a generator is asked for some."""

    def __init__(self, uniform: FloatArray) -> None:
        self._uniform = uniform

    def random(self, shape: object) -> FloatArray:
        """These numbers, whatever shape is asked for; they are the asker's to change."""
        return self._uniform.copy()
