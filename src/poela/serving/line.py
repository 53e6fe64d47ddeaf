"""The line in which work waits for the one thread that does it: clients take turns, and nobody's piece is large."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from poela.core.errors import PoelaError

MOST_TOGETHER = 256  # steps that are worked on in one go, of all clients
SHARE_ALONE, SHARE = 64, 32  # steps of one client in one go: while nobody else waits, and beside others
MOST_NUMBERS = 1 << 28  # stored numbers that one go looks at, in some ten milliseconds
MOST_WAITING = 1024  # pieces of all clients
MOST_OF_ONE = 256  # pieces of one client, and one more request


def together_at(numbers: int) -> int:
    """How many steps are worked on in one go, where so many stored numbers are looked at for each: by work, not count.

    >>> together_at(0), together_at(117_000 * 44), together_at(10**9)
    (256, 52, 32)
    """
    return max(min(MOST_TOGETHER, MOST_NUMBERS // max(numbers, 1)), SHARE)


class TooBusy(PoelaError):
    """More requests are waiting than can be answered soon."""


@dataclass(frozen=True, eq=False)
class _Piece:
    item: Any
    steps: int
    future: "asyncio.Future[Any]"


Answer = Any | BaseException


class FairLine:
    """Gathers pieces of work that come while others are worked on, and has them done in one go, by one thread.

    A policy takes hardly longer for a few cases than for one, so more clients at once wait little longer. Each go takes
    a small share of every client in turn: who asks for much waits for themselves, and who comes during a go that is
    theirs alone waits for few steps, too. A piece beyond the share, which cannot be split, has its client's turn alone.
    """

    def __init__(self, work: Callable[[Sequence[Any]], Sequence[Any]], most_together: int = MOST_TOGETHER) -> None:
        self._work_on, self._most = work, most_together
        self._waiting: dict[str, deque[_Piece]] = {}
        self._worker = ThreadPoolExecutor(1)
        self._task: asyncio.Task[None] | None = None

    async def ask(self, client: str, items: Sequence[tuple[Any, int]]) -> list[Any]:
        """What comes of each item, given with its number of steps."""
        if len(self._waiting.get(client, ())) >= MOST_OF_ONE or sum(map(len, self._waiting.values())) >= MOST_WAITING:
            raise TooBusy("too many requests are waiting: try again in a second")
        loop = asyncio.get_running_loop()
        pieces = [_Piece(item, steps, loop.create_future()) for item, steps in items]
        self._waiting.setdefault(client, deque()).extend(pieces)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        try:
            return await asyncio.gather(*(piece.future for piece in pieces))
        except BaseException:
            for piece in pieces:  # one of them failed, or whoever asked has gone
                piece.future.cancel()
            raise

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while batch := self._next():
            answers = await loop.run_in_executor(self._worker, self._answers, [piece.item for piece in batch])
            for piece, answer in zip(batch, answers, strict=True):
                if piece.future.done():
                    continue
                if isinstance(answer, BaseException):
                    piece.future.set_exception(answer)
                else:
                    piece.future.set_result(answer)

    def _next(self) -> list[_Piece]:
        """Pieces for one go: clients in turn, until it is large enough."""
        self._forget_the_gone()
        share = min(SHARE if len(self._waiting) > 1 else SHARE_ALONE, self._most)
        batch: list[_Piece] = []
        steps = 0
        for client, queue in list(self._waiting.items()):
            own = 0
            while queue and (not own or own + queue[0].steps <= share):
                if batch and steps + queue[0].steps > self._most:
                    return batch
                batch.append(queue.popleft())
                own += batch[-1].steps
                steps += batch[-1].steps
            del self._waiting[client]
            if queue:
                self._waiting[client] = queue  # to the end of the line
        return batch

    def _forget_the_gone(self) -> None:
        """Pieces that nobody waits for any longer are no work."""
        for client, queue in list(self._waiting.items()):
            self._waiting[client] = deque(piece for piece in queue if not piece.future.done())
            if not self._waiting[client]:
                del self._waiting[client]

    def _answers(self, items: Sequence[Any]) -> list[Answer]:
        try:
            return list(self._work_on(items))
        except Exception:
            # Something is wrong with one of them, which the others must not suffer from.
            return [self._answer(one) for one in items]

    def _answer(self, item: Any) -> Answer:
        try:
            return self._work_on([item])[0]
        except Exception as error:
            return error
