"""The door of the server: who may come in, how much may be brought, and what is written down about it."""

import asyncio
import hmac
import ipaddress
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from poela.serving.limits import (
    BYTES_OF_A_STEP,
    HEALTH_RATE,
    LONGEST_WAIT,
    REFUSED_COST,
    REQUEST_COST,
    Credits,
    client_of,
    retry_after,
)
from poela.serving.metrics import Metrics

LOG = logging.getLogger("poela.serving")
OPEN = "/healthz"  # the one route that answers without a token
LARGEST_BODY = 1 << 20
READ_SECONDS = 10.0
HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[a-z0-9.-]+))(?::[0-9]{1,5})?", re.ASCII)
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
    credits: Credits
    token: str | None = None
    runs: str = ""  # how the policy is run, to be said at the start
    health: Credits = field(default_factory=partial(Credits, HEALTH_RATE))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._request(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = client_of((scope.get("client") or ("",))[0])
        started, status = time.perf_counter(), 500

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        try:
            await self._paced(scope, client)
            self._admit(scope)
            body = await _body(receive) if scope["method"] == "POST" else b""
            self.credits.charge(client, len(body) / BYTES_OF_A_STEP)
            await self.app(scope, _replayed(body, receive), sent)
        except Refused as refused:
            await _answer(sent, refused)
        except _Gone:
            status = 499  # nobody is left to be answered
        finally:
            if 400 <= status < 500:
                self.credits.charge(client, REFUSED_COST)
            path = scope["path"] if scope["path"] in self.routes else "other"
            method = scope["method"] if scope["method"] in METHODS else "other"
            seconds = time.perf_counter() - started
            self.metrics.request(path, status, seconds)
            LOG.info("%s %s %d %.1f ms", method, path, status, 1000 * seconds)

    async def _paced(self, scope: Scope, client: str) -> None:
        """Let a client that asks for too much wait, and refuse it where that would take long."""
        credits = self.health if scope["path"] == OPEN else self.credits
        owed = credits.seconds_owed(client)
        credits.charge(client, REQUEST_COST)
        if owed > 0:
            await asyncio.sleep(min(owed, LONGEST_WAIT))
        if owed > LONGEST_WAIT and scope["path"] != OPEN:
            reason = "this client asks for more than its share: ask less, or later"
            raise Refused(429, reason, [(b"retry-after", retry_after(owed - LONGEST_WAIT).encode())])

    def _admit(self, scope: Scope) -> None:
        headers = {name.lower(): value for name, value in scope["headers"]}
        if b"websocket" in headers.get(b"upgrade", b"").lower():
            raise Refused(400, "this server speaks HTTP, and no WebSocket")
        if scope["path"] == OPEN:
            return
        hosts = [value for name, value in scope["headers"] if name.lower() == b"host"]
        if self.token is None:
            if len(hosts) != 1 or not is_loopback(_host(hosts[0])):
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
                    raise Refused(413, f"a request has at most {LARGEST_BODY} bytes")
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise Refused(408, "the request took too long to arrive") from None


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
        (b"connection", b"close"),  # what else it has sent is not read
        *refused.headers,
    ]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def _host(header: bytes) -> str:
    """The name in a Host header, without its port.

    >>> _host(b"localhost:8000"), _host(b"[::1]:8000"), _host(b"[::1].evil.example")
    ('localhost', '::1', '')
    """
    match = HOST.fullmatch(header.decode("latin-1").strip().lower())
    return "" if match is None else match["address"] or match["name"]
