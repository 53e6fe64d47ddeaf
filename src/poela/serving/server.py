"""The server as a process: where it listens, who may ask, and how it ends."""

import os
import socket
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poela.core.errors import InputError, PoelaError
from poela.core.interruption import safe_point
from poela.core.registry import how_to_install
from poela.data.receipts import Receipts
from poela.serving.source import PolicySource

if TYPE_CHECKING:
    from poela.serving.application import Limits

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
    from poela.serving.connections import connections

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
