"""Moments in a program that do not depend on how busy the machine is: they are counted in calls of functions."""

import os
import signal
import sys
from types import FrameType

WRITING = ("core/files.py", "core/temporary.py")  # where files are written


class Calls:
    """Counts calls of functions, and sends this process a signal at one of them; without a moment, it only counts.

    >>> with Calls() as calls:
    ...     _ = sorted("ba")
    >>> calls.counted > 0
    True
    """

    def __init__(
        self, moment: int | None = None, sent: signal.Signals = signal.SIGKILL, within: tuple[str, ...] = ()
    ) -> None:
        self.moment, self.sent, self.counted = moment, sent, 0
        self._within = within  # only calls out of files whose paths end so

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if self._within and not frame.f_code.co_filename.endswith(self._within):
            return
        if event in ("call", "c_call"):
            self.counted += 1
            if self.counted == self.moment:
                sys.setprofile(None)
                os.kill(os.getpid(), self.sent)

    def __enter__(self) -> "Calls":
        sys.setprofile(self)
        return self

    def __exit__(self, *how: object) -> None:
        sys.setprofile(None)
