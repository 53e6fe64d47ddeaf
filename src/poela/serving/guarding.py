"""The door of the server: who may come in, how much may be brought, and what is written down about it."""

import asyncio
import hmac
import ipaddress
import json
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from poela.serving.metrics import Metrics

LOG = logging.getLogger("poela.serving")
OPEN = "/healthz"  # the one route that answers without a token
LARGEST_BODY = 1 << 20
READ_SECONDS = 10.0
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "QUERY")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server on this host.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("::1")
    (True, True, False, True)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Refused(Exception):
    """A request that is not answered, with the status and the reason that it gets."""

    def __init__(self, status: int, reason: str, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(reason)
        self.status, self.reason, self.headers = status, reason, headers


@dataclass(frozen=True, eq=False)
class Guard:
    """Wraps an application: token, name of the host, sizes, times, counts and one line in the log for each request.

    Without a token only this machine is let in, and only under a name of its own: a page in a browser that was led to
    believe that its own site is this machine gets nothing.
    """

    app: App
    metrics: Metrics
    routes: frozenset[str]
    token: str | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        try:
            self._admit(scope)
            body = await _body(receive) if scope["method"] == "POST" else b""
            await self.app(scope, _replayed(body, receive), sent)
        except Refused as refused:
            await _answer(sent, refused)
        except _Gone:
            status = 499  # nobody is left to be answered
        finally:
            path = scope["path"] if scope["path"] in self.routes else "other"
            method = scope["method"] if scope["method"] in METHODS else "other"
            seconds = time.perf_counter() - started
            self.metrics.request(path, status, seconds)
            LOG.info("%s %s %d %.1f ms", method, path, status, 1000 * seconds)

    def _admit(self, scope: Scope) -> None:
        if scope["path"] == OPEN:
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        if self.token is None:
            if not is_loopback(_host(headers.get(b"host", b""))):
                raise Refused(421, "this server answers under a name of this machine alone: ask 127.0.0.1")
            return
        scheme, _, credentials = headers.get(b"authorization", b"").partition(b" ")
        right = hmac.compare_digest(credentials.strip(), self.token.encode())
        if scheme.lower() != b"bearer" or not right:
            raise Refused(401, "this server asks for a token", [(b"www-authenticate", b"Bearer")])


class _Gone(Exception):
    """Whoever asked has hung up."""


async def _body(receive: Receive) -> bytes:
    """All that is sent, if it is not too much and does not take too long."""
    body = bytearray()
    try:
        async with asyncio.timeout(READ_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise _Gone
                body += message.get("body", b"")
                if len(body) > LARGEST_BODY:
                    raise Refused(413, f"a request has at most {LARGEST_BODY} bytes", [(b"connection", b"close")])
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise Refused(408, "the request took too long to arrive", [(b"connection", b"close")]) from None


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body again, in one piece; then whatever comes."""
    pending = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay


async def _answer(send: Send, refused: Refused) -> None:
    content = json.dumps({"errors": [refused.reason]}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
        *refused.headers,
    ]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def _host(header: bytes) -> str:
    """The name in a Host header, without its port.

    >>> _host(b"localhost:8000"), _host(b"[::1]:8000")
    ('localhost', '::1')
    """
    text = header.decode("latin-1").strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.rpartition(":")[0] if text.count(":") == 1 else text
