"""Problems in words: long names are cut, long lists end in a count, and no cell of a log is ever shown."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from poela.core.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

LONG_NAME, MANY_NAMES, MANY_PROBLEMS, MANY_CHARACTERS = 48, 8, 20, 3000


def quoted(names: str | Sequence[object]) -> str:
    """One column or action, or several, in words.

    >>> quoted("age"), quoted(["a", "b"]), quoted(range(10))
    ("'age'", "'a', 'b'", '0, 1, 2, 3, 4, 5, 6, 7 and 2 more')
    """
    several = [names] if isinstance(names, str) else names
    shown = ", ".join(_short(name) for name in several[:MANY_NAMES])
    return shown if len(several) <= MANY_NAMES else f"{shown} and {len(several) - MANY_NAMES} more"


def _short(name: object) -> str:
    return repr(f"{name[: LONG_NAME - 1]}…" if isinstance(name, str) and len(name) > LONG_NAME else name)


def counted(count: int, noun: str) -> str:
    """A count in words.

    >>> counted(1, "row"), counted(2, "row")
    ('1 row', '2 rows')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def bad_log(problems: Sequence[str]) -> InputError:
    """All problems of a log in one error or, where these would fill pages, the first ones and how many follow.

    >>> bad_log([f"column {name} is null" for name in range(100)]).problems[-1]
    'and 80 more problems'
    """
    sentences: list[str] = []
    for problem in problems:
        if len(sentences) == MANY_PROBLEMS or sum(map(len, sentences)) > MANY_CHARACTERS:
            break
        sentences.append(problem)
    rest = len(problems) - len(sentences)
    return InputError([*sentences, f"and {counted(rest, 'more problem')}"] if rest else sentences)


def kind_in_words(kind: "pa.DataType") -> str:
    """A type without its parameters, whose names of fields and time zones may say anything.

    >>> import pyarrow as pa
    >>> kind_in_words(pa.struct({"Jane Doe": pa.int8()})), kind_in_words(pa.timestamp("ms"))
    ('struct', 'timestamp[ms]')
    """
    match = re.match(r"\w+(\[\w+\])?", str(kind))
    return match.group() if match else "of an unknown type"
