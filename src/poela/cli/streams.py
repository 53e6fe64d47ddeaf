"""Standard output and error as they may be: full, closed, or without most letters."""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any


@contextmanager
def forgiving_streams() -> Iterator[None]:
    """Inside the block, letters that a stream does not know become question marks, and a closed one takes everything.

    What is left in the buffer is written before the block ends, so that a full disk shows here.
    """
    with ExitStack() as undo:
        for name in ("stdout", "stderr"):
            stream: Any = getattr(sys, name)
            if stream is None:  # closed by whoever started us
                setattr(sys, name, undo.enter_context(open(os.devnull, "w", encoding="utf-8")))
                undo.callback(setattr, sys, name, None)
            elif hasattr(stream, "reconfigure"):
                undo.callback(stream.reconfigure, errors=stream.errors)
                stream.reconfigure(errors="replace" if name == "stdout" else "backslashreplace")
        yield
        sys.stdout.flush()


def silence(stream: Any) -> None:
    """Let what a broken stream still holds go nowhere, or Python would complain about it when it ends."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
