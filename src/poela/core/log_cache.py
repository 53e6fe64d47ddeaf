"""What was worked out for a log and will be asked again: for every checkpoint, every candidate, every estimate."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
MOST = 8  # answers kept for each log

_known: "WeakKeyDictionary[Any, OrderedDict[Hashable, tuple[object, Any]]]" = WeakKeyDictionary()
_lock = Lock()


def cached(log: Any, kind: Hashable, source: object, compute: Callable[[], T]) -> T:
    """`compute()`, or what it gave before for this log, kind and source (each the very same object).

    A log that is no longer used takes its answers with it.

    >>> class Log: ...
    >>> log, model = Log(), object()
    >>> cached(log, "square", model, lambda: 9), cached(log, "square", model, lambda: 0)
    (9, 9)
    """
    key = (kind, id(source))
    with _lock:
        answers = _known.setdefault(log, OrderedDict())
        if key in answers:
            answers.move_to_end(key)
            answer: T = answers[key][1]
            return answer
    answer = compute()
    with _lock:
        # With its source, so that no other object can come to have the same id.
        answers[key] = (source, answer)
        while len(answers) > MOST:
            answers.popitem(last=False)
    return answer
