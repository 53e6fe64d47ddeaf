"""The server as a process: where it listens, who may ask, and how it ends."""

import os
import socket
from asyncio import TimerHandle, Transport
from collections import Counter
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from poela.core.errors import InputError, PoelaError
from poela.core.interruption import safe_point
from poela.core.registry import how_to_install
from poela.data.receipts import Receipts
from poela.serving.limits import client_of
from poela.serving.source import PolicySource

if TYPE_CHECKING:
    from poela.serving.application import Limits

# Connections that cannot be held for nothing: deadlines for what comes and goes, and a limit for each client.

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


TOKEN = "POELA_TOKEN"
SHORTEST_TOKEN = 16
MOST_CONNECTIONS, MOST_UNANSWERED = 1000, 2048
LONGEST_END = 2  # seconds for what is being answered when the server is told to end


def token_for(host: str) -> str | None:
    """The token from the environment; anything but this machine needs one."""
    from poela.serving.middleware import is_loopback

    token = os.environ.get(TOKEN)
    if token and (len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token):
        raise InputError(f"{TOKEN} must be {SHORTEST_TOKEN} characters of ASCII or more, without spaces")
    if not token and not is_loopback(host):
        raise InputError(
            f"serving on {host} lets other machines in: set {TOKEN} in the environment (openssl rand -hex 32), "
            "or serve on 127.0.0.1"
        )
    return token or None


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there, or one sentence."""
    with ExitStack() as undo:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            listener = undo.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(MOST_UNANSWERED)  # who asks from now on waits until the server runs
        except (OSError, UnicodeError, OverflowError) as error:
            why = getattr(error, "strerror", None) or "no such address"
            where = f"{host}, port {port},"
            raise PoelaError(f"{where} cannot be served on: {why}; choose another --host or --port") from None
        undo.pop_all()
        return listener


def server_of(
    source: PolicySource, token: str | None, receipts: Path | None = None, limits: "Limits | None" = None
) -> Any:
    """The server, ready to be run."""
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise InputError(f"serving needs {' and '.join(missing)}: {how_to_install('serve')}")
    if getattr(source.policy, "builds_on_propensities", False):
        raise InputError(
            "this policy builds on the propensities that cases bring, which cannot be served: use poela decide"
        )
    import uvicorn

    from poela.serving.application import Limits, application

    limits = limits or Limits()

    guarded = application(source, token, None if receipts is None else Receipts.to_append(receipts), limits)

    class Server(uvicorn.Server):
        runs = guarded.runs

        async def startup(self, sockets: Any = None) -> None:
            safe_point()  # a signal that came before uvicorn listened for it was noted, and would be forgotten
            await super().startup(sockets)

        async def shutdown(self, sockets: Any = None) -> None:
            for one in list(self.server_state.connections):
                one.end()  # type: ignore[union-attr]
            await super().shutdown(sockets)

    config = uvicorn.Config(
        guarded,
        http=connections(limits.connections),
        ws="none",
        proxy_headers=False,  # anybody could name another client than themselves
        access_log=False,  # ours holds no query, since a careless client might put values there
        log_level="error",  # warnings are about what clients send, as often as they like
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=LONGEST_END,
    )
    return Server(config)
