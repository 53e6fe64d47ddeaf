"""The HTTP application: decisions, explanations, health, counts, and a page for people."""

import base64
import hashlib
import json
import logging
import re
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import Any, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import poela
from poela.core.errors import InputError
from poela.data.receipts import Receipts
from poela.eligibility.words import rule_in_words
from poela.serving.decisions import Answering, Explained, pieces_of
from poela.serving.limits import BYTES_OF_A_STEP, EXPLAINED_COST, RATE, Credits, client_of
from poela.serving.line import FairLine, TooBusy, together_at
from poela.serving.metrics import Metrics
from poela.serving.middleware import OPEN, Guard
from poela.serving.openapi import description
from poela.serving.requests import DecisionRequest, Form, is_optional
from poela.serving.source import PolicySource

LOG = logging.getLogger("poela.serving")
SMALL_BODY = 16_384  # bytes that are read at once
UNFORESEEN = "the server could not answer: its log says more"


@dataclass(frozen=True, eq=False)
class Limits:
    """What one client may ask for."""

    rate: float = RATE  # steps in a second
    connections: int = 100


def application(
    source: PolicySource, token: str | None = None, receipts: Receipts | None = None, limits: Limits | None = None
) -> Guard:
    """The application that serves this policy; with a token, every route but /healthz asks for it.

    With receipts, every decision is appended there before it is answered.
    """
    credits = Credits((limits or Limits()).rate)
    desk = _Desk(Answering(source, receipts), Metrics(), credits)
    desk.answering.warm_up()  # the first question would keep all others waiting
    document = description(desk.answering.form, version=poela.__version__, with_token=token is not None)
    policy_document = _policy(source, desk.answering.form)
    page, page_headers = _page()

    async def policy(request: Request) -> Response:
        return _json(policy_document)

    async def health(request: Request) -> Response:
        return _json({"status": "ok"})

    async def counts(request: Request) -> Response:
        return Response(desk.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def openapi(request: Request) -> Response:
        return _json(document)

    async def home(request: Request) -> Response:
        return Response(page, media_type="text/html; charset=utf-8", headers=page_headers)

    read = {"/v1/policy": policy, OPEN: health, "/metrics": counts, "/openapi.json": openapi, "/": home}
    posted = {"/v1/decide": desk.decide, "/v1/explain": desk.explain}
    handlers = {InputError: _bad, TooBusy: _busy, HTTPException: _http, Exception: _unforeseen}
    app = Starlette(
        routes=[
            *(Route(path, answer, methods=["GET"]) for path, answer in read.items()),
            *(Route(path, answer, methods=["POST"]) for path, answer in posted.items()),
        ],
        exception_handlers=handlers,
    )
    app.router.redirect_slashes = False
    routes = frozenset({"/openapi.json", *document["paths"]})
    return Guard(_Quiet(app), desk.metrics, routes, credits, token, desk.answering.runs)


class _Desk:
    """Where questions are answered: read in one line and worked on in another, so that neither holds up the rest."""

    def __init__(self, answering: Answering, metrics: Metrics, credits: Credits) -> None:
        self.answering, self.metrics, self._credits = answering, metrics, credits
        self._reading = FairLine(lambda parts: [part() for part in parts])
        self._working = FairLine(answering.answered, together_at(answering.stored_numbers))

    async def decide(self, request: Request) -> Response:
        """Decisions about the cases of a request."""
        asked = await self._read(request, drawing=True)
        pieces = await self._working.ask(_client(request), pieces_of(asked))
        answers = [answer for piece in pieces for answer in piece]
        self.metrics.decided(answers)
        return _json({"decisions": answers})

    async def explain(self, request: Request) -> Response:
        """For one case, every action."""
        asked = await self._read(request, drawing=False)
        self._credits.charge(_client(request), EXPLAINED_COST)
        steps = asked.steps + int(EXPLAINED_COST)
        (answer,) = await self._working.ask(_client(request), [(Explained(asked), steps)])
        return _json(answer)

    async def _read(self, request: Request, *, drawing: bool) -> DecisionRequest:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise HTTPException(415, "give application/json")
        body = await request.body()
        read = partial(self.answering.form.parsed, body, drawing=drawing)
        if len(body) > SMALL_BODY:
            (asked,) = await self._reading.ask(_client(request), [(read, len(body) // BYTES_OF_A_STEP)])
        else:
            asked = read()
        self._credits.charge(_client(request), asked.steps)
        return cast(DecisionRequest, asked)


def _client(request: Request) -> str:
    return client_of("" if request.client is None else request.client.host)


class _Quiet:
    """An application whose unforeseen errors are answered and logged by kind alone: their text may quote values."""

    def __init__(self, app: Starlette) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await self._app(scope, receive, send)
        except Exception as error:  # answered already, by the handler of all errors; it comes here to be logged
            LOG.error("unforeseen %s", type(error).__name__)


async def _bad(request: Request, error: Exception) -> Response:
    return _json({"errors": list(getattr(error, "problems", [str(error)]))}, 422)


async def _busy(request: Request, error: Exception) -> Response:
    return _json({"errors": [str(error)]}, 503, {"Retry-After": "1"})


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json({"errors": [str(error.detail)]}, error.status_code, dict(error.headers or {}))


async def _unforeseen(request: Request, error: Exception) -> Response:
    return _json({"errors": [UNFORESEEN]}, 500)


def _json(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    text = json.dumps(content, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    # A half of a letter in a name cannot be sent as it is.
    return Response(text.encode("utf-8", "replace"), status, headers, media_type="application/json")


def _policy(source: PolicySource, form: Form) -> dict[str, Any]:
    """What the page shows before anything is asked."""
    rule = getattr(source.policy, "eligibility", None)
    return {
        "name": source.name,
        "policy": source.policy.short_hash,
        "sha256": source.policy.content_hash,
        "findings": dict(source.findings),
        "rule": "" if rule is None else rule_in_words(rule),
        "needs": "history" if form.wants_history else "step" if form.wants_step else "context",
        "features": [
            {
                "name": variable.name,
                "kind": variable.kind,
                "categories": list(variable.categories),
                "optional": is_optional(variable),
            }
            for variable in form.schema.asked
        ],
        "actions": list(form.action_names),
        "real_valued": form.real_valued,
    }


def _page() -> tuple[bytes, dict[str, str]]:
    """The page, and headers by which a browser runs its own script and style, asks this server, and nothing else."""
    text = files("poela.serving").joinpath("page.html").read_text(encoding="utf-8")
    hashes = {
        tag: base64.b64encode(hashlib.sha256(match.group(1).encode()).digest()).decode()
        for tag in ("script", "style")
        if (match := re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL))
    }
    allowed = "; ".join(f"{tag}-src 'sha256-{value}'" for tag, value in hashes.items())
    policy = f"default-src 'none'; {allowed}; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"
    return text.encode(), {"Content-Security-Policy": policy}
