"""Connections that cannot be held for nothing: deadlines for what comes and goes, and a limit for each client."""

import socket
from asyncio import TimerHandle, Transport
from collections import Counter
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from poela.serving.limits import client_of

HEADER_SECONDS = 10.0  # from the first byte, or the start of a connection, until a request is known
WRITE_SECONDS = 10.0  # for which a client may leave its answer unread


class Connection(H11Protocol):
    """One connection of a client; those beyond the limit are closed at once."""

    most_of_one = 100  # connections of one client
    open: ClassVar[Counter[str]] = Counter()  # by client; each server has a class, and so a count, of its own

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._who = ""
        self._header_timer: TimerHandle | None = None
        self._write_timer: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Count it, and begin to wait for a request."""
        super().connection_made(transport)
        self._who = client_of(self.client[0] if self.client else "")
        self.open[self._who] += 1
        if self.open[self._who] > self.most_of_one:
            transport.abort()
            return
        known = transport.get_extra_info("socket")
        if known is not None and hasattr(socket, "TCP_USER_TIMEOUT") and known.family != socket.AF_UNIX:
            # Who never reads the last answer would hold a connection that we have closed.
            known.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * WRITE_SECONDS))
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody waits for it any longer."""
        self._stop_awaiting()
        self._stop_writing()
        self.open[self._who] -= 1
        if not self.open[self._who]:
            del self.open[self._who]
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        """Data of a request must end in one, before long."""
        super().data_received(data)
        if self._is_answering:
            self._stop_awaiting()
        elif not self.transport.is_closing() and self.timeout_keep_alive_task is None:
            self._await_request()

    def pause_writing(self) -> None:
        """The client does not read: for a while, that is fine."""
        super().pause_writing()
        self._stop_writing()
        self._write_timer = self.loop.call_later(WRITE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """It has read."""
        self._stop_writing()
        super().resume_writing()

    def on_response_complete(self) -> None:
        """An answer has gone; what comes next has a deadline of its own."""
        self._stop_awaiting()
        super().on_response_complete()

    def end(self) -> None:
        """The server ends: what has not come by now will not be answered."""
        if self._is_answering and self.cycle.more_body:
            self.transport.abort()

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _await_request(self) -> None:
        if self._header_timer is None:
            self._header_timer = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def _stop_awaiting(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _stop_writing(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None


def connections(most_of_one: int) -> type[Connection]:
    """The connections of one server."""
    return type("Connections", (Connection,), {"most_of_one": most_of_one, "open": Counter()})
