"""The HTTP application: decisions, explanations, health, counts, and a page for people."""

import base64
import hashlib
import json
import logging
import re
from functools import partial
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

import poela
from poela.core.errors import InputError
from poela.data.receipts import Receipts
from poela.eligibility.words import rule_in_words
from poela.serving.answering import Answering, Together, TooBusy
from poela.serving.asking import Form, is_optional
from poela.serving.guarding import Guard
from poela.serving.metrics import Metrics
from poela.serving.openapi import description
from poela.serving.source import PolicySource

LOG = logging.getLogger("poela.serving")
UNFORESEEN = "the server could not answer: its log says more"


def application(source: PolicySource, token: str | None = None, receipts: Receipts | None = None) -> Guard:
    """The application that serves this policy; with a token, every route but /healthz asks for it.

    With receipts, every decision is appended there before it is answered.
    """
    answering, metrics = Answering(source, receipts), Metrics()
    form, together = answering.form, Together(answering.decided)
    app = FastAPI(title="poela", docs_url=None, redoc_url=None, openapi_url=None)
    document = description(form, version=poela.__version__, with_token=token is not None)
    policy_document = _policy(source, form)
    page, page_headers = _page()

    @app.post("/v1/decide")
    async def decide(request: Request) -> Response:
        cases = await _parsed(request, form)
        answers = await together.ask(cases)
        metrics.decided(answers)
        return _json({"decisions": answers})

    @app.post("/v1/explain")
    async def explain(request: Request) -> Response:
        cases = await _parsed(request, form, drawing=False)
        return _json(await together.alone(partial(answering.explained, cases)))

    @app.get("/v1/policy")
    async def policy() -> Response:
        return _json(policy_document)

    @app.get("/healthz")
    async def health() -> Response:
        return _json({"status": "ok"})

    @app.get("/metrics")
    async def counts() -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/openapi.json")
    async def openapi() -> Response:
        return _json(document)

    @app.get("/")
    async def home() -> Response:
        return Response(page, media_type="text/html; charset=utf-8", headers=page_headers)

    app.add_exception_handler(InputError, _bad)
    app.add_exception_handler(TooBusy, _busy)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unforeseen)
    routes = frozenset({"/openapi.json", *document["paths"]})
    return Guard(_Quiet(app), metrics, routes, token)


class _Quiet:
    """An application whose unforeseen errors are answered and logged by kind alone: their text may quote values."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await self._app(scope, receive, send)
        except Exception as error:  # answered already, by the handler of all errors; it comes here to be logged
            LOG.error("unforeseen %s", type(error).__name__)


async def _parsed(request: Request, form: Form, *, drawing: bool = True) -> Any:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, "give application/json")
    return form.parsed(await request.body(), drawing=drawing)


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
    return {
        "name": source.name,
        "policy": source.policy.short_hash,
        "sha256": source.policy.content_hash,
        "findings": dict(source.findings),
        "rule": rule_in_words(source.policy.eligibility),
        "needs": "history" if form.wants_history else "step" if form.wants_step else "context",
        "features": [
            {
                "name": variable.name,
                "kind": variable.kind,
                "categories": list(variable.categories),
                "optional": is_optional(variable),
            }
            for variable in form.schema.variables
        ],
        "actions": list(form.action_names),
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
