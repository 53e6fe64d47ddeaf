"""`poela serve`: a policy behind HTTP."""

from pathlib import Path
from typing import Annotated

import typer


def serve(
    study: Annotated[Path, typer.Argument(help="Directory of a study, or of a saved policy.")],
    host: Annotated[
        str, typer.Option(help="Address to listen on. Other than this machine: POELA_TOKEN must be set.")
    ] = ("127.0.0.1"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: any free one.")] = 8000,
    rate: Annotated[
        float, typer.Option(min=1, help="Steps per second for each client; more have to wait, or are refused.")
    ] = 2000,
    connections: Annotated[int, typer.Option(min=1, help="Open connections for each client.")] = 100,
    receipts: Annotated[
        Path | None, typer.Option(help="Folder to append every decision to before it is answered, for poela watch.")
    ] = None,
    leave: Annotated[
        bool, typer.Option("--leave", help="Leave choices to people where the policy only says what is barred.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not log requests.")] = False,
) -> None:
    """Serve a policy's decisions over HTTP, with a page where a person can ask about a case.

    POST /v1/decide takes named features and returns what `poela decide` does; /openapi.json describes the API, /healthz
    and /metrics are for monitoring. Only this machine can connect, unless POELA_TOKEN is set in the environment: then
    every request except /healthz needs the header "Authorization: Bearer TOKEN". Feature values are never logged.

    Example: poela serve study/ --port 8000
    """
    import logging
    import sys

    from poela.cli.output import say
    from poela.serving.application import Limits
    from poela.serving.server import listening, server_of, token_for
    from poela.serving.source import open_policy

    token = token_for(host)
    source = open_policy(study, leave=leave)
    server = server_of(source, token, receipts, Limits(rate, connections))
    if not quiet:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        log = logging.getLogger("poela.serving")
        log.addHandler(handler)
        log.setLevel(logging.INFO)
    sys.setswitchinterval(0.001)  # one thread answers, another works: neither should wait long for the other
    with listening(host, port) as socket:
        shown = f"[{host}]" if ":" in host else host
        say(server.runs)
        say(f"Serving {source.name} at http://{shown}:{socket.getsockname()[1]} (stop with Ctrl-C)")
        sys.stdout.flush()
        server.run(sockets=[socket])
