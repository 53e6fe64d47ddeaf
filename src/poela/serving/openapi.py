"""The server's own description (OpenAPI 3.1), with the features and actions of its policy."""

from typing import Any

from poela.data.schema import Variable
from poela.serving.requests import (
    LARGEST_NUMBER,
    LONGEST_TEXT,
    MOST_CASES,
    MOST_EARLIER,
    MOST_SEED,
    TIME,
    VISIBLE,
    Form,
    is_optional,
)

NUMBER = {"type": "number", "minimum": -LARGEST_NUMBER, "maximum": LARGEST_NUMBER}
TEXT = {"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT, "pattern": VISIBLE}


def description(form: Form, *, version: str, with_token: bool) -> dict[str, Any]:
    """The whole document."""
    asks = _request(form, MOST_CASES, drawing=True), _request(form, 1, drawing=False)
    decision, explained = (_decided_amounts, _explained_amounts) if form.real_valued else (_decision, _explained)
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "Decisions by a learned policy",
            "version": version,
            "description": "A policy learned by poela from logged decisions, under a rule of eligible actions.",
        },
        "paths": {
            "/v1/decide": {
                "post": _posted("Decide about cases", asks[0], _object({"decisions": _list(decision(form))}))
            },
            "/v1/explain": {"post": _posted("Explain one case, action by action", asks[1], explained(form))},
            "/v1/policy": {"get": _got("What the policy looks at and chooses from", {"type": "object"})},
            "/healthz": {
                "get": {**_got("Whether the server runs", _object({"status": {"const": "ok"}})), "security": []}
            },
            "/metrics": {"get": _got("Counts for Prometheus", {"type": "string"}, "text/plain")},
            "/": {"get": _got("A page for people", {"type": "string"}, "text/html")},
        },
        "components": {"schemas": {"Errors": _object({"errors": _list({"type": "string"})})}},
    }
    if with_token:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
        for path in document["paths"].values():
            for operation in path.values():
                operation["responses"]["401"] = _refused("No token, or a wrong one")
    return document


def _decision(form: Form) -> dict[str, Any]:
    chance = _nullable({"type": "number", "minimum": 0, "maximum": 1})
    return _object(
        {
            "action": _nullable(_action(form))
            | {"description": "drawn by its propensity; null where it defers or leaves a choice"},
            "propensities": _object({str(name): chance for name in form.action_names})
            | {"description": "of every action, by which it was drawn: log them; null without an action"},
            "defer": {"type": "boolean", "description": "no action is handed out; the note says why"},
            "policy": {"type": "string", "description": "a hash of the policy, as /v1/policy tells it"},
            **_nearness(),
            "eligible": {
                "type": "array",
                "items": _object({"action": _action(form), "distance": _nullable({"type": "number"})}),
                "description": "what may be done, with the distance to the nearest logged case of each",
            },
            "barred": {"type": "string", "description": "what must not be done here, separated by semicolons"},
            "similar": _nullable({"type": "integer"}) | {"description": "logged cases nearby with that action"},
            "outcome": _nullable({"type": "number"}) | {"description": "what came of the nearest of them, on average"},
            "note": _nullable({"type": "string"}) | {"description": "gaps that were filled, categories that are new"},
        }
    )


def _decided_amounts(form: Form) -> dict[str, Any]:
    each = _object({str(name): {"type": "number"} for name in form.action_names})
    number = _nullable({"type": "number"})
    return _object(
        {
            "action": _nullable(each) | {"description": "the amount of each column, drawn; null where it defers"},
            "log_density": number | {"description": "of what was drawn: log it; null where it defers"},
            "spread": _nullable(each) | {"description": "of the policy there, before its rule"},
            "defer": {"type": "boolean", "description": "no amount is handed out; the note says why"},
            "policy": {"type": "string", "description": "a hash of the policy, as /v1/policy tells it"},
            **_nearness(),
            "similar": _nullable({"type": "integer"}) | {"description": "logged pairs near the amount"},
            "outcome": number | {"description": "what came of the nearest of them, on average"},
            "note": _nullable({"type": "string"}) | {"description": "gaps that were filled, categories that are new"},
        }
    )


def _explained_amounts(form: Form) -> dict[str, Any]:
    number = _nullable({"type": "number"})
    column = {
        "action": _action(form),
        "mean": {"type": "number", "description": "of the policy there, before its rule"},
        "spread": number,
        "likeliest": number | {"description": "the eligible amount of the highest density"},
        "low": number | {"description": "the least that is eligible; null without a rule"},
        "high": number,
        "usually": number | {"description": "what the logging policy gives there, on average"},
    }
    return _object(
        {
            "defer": {"type": "boolean"},
            **_nearness(),
            "similar": _nullable({"type": "integer"}) | {"description": "logged cases nearby, of those looked at"},
            "rule": {"type": "string"},
            "log_density": number | {"description": "of the likeliest amounts"},
            "actions": {"type": "array", "items": _object(column)},
        }
    )


def _explained(form: Form) -> dict[str, Any]:
    return _object(
        {
            "defer": {"type": "boolean"},
            **_nearness(),
            "rule": {"type": "string"},
            "actions": {
                "type": "array",
                "items": _object(
                    {
                        "action": _action(form),
                        "eligible": {"type": "boolean"},
                        "probability": _nullable({"type": "number"}),
                        "distance": _nullable({"type": "number"}),
                        "similar": _nullable({"type": "integer"}),
                        "received": _nullable({"type": "number"})
                        | {"description": "the share of similar past cases that received it"},
                        "usually": _nullable({"type": "number"}) | {"description": "the share of all past cases"},
                    }
                ),
            },
        }
    )


def _nearness() -> dict[str, Any]:
    """How near a case is to the log; null where the policy does not measure it."""
    return {
        "distance": _nullable({"type": "number"}) | {"description": "to the nearest logged case"},
        "in_range": _nullable({"type": "boolean"}) | {"description": "whether each feature is within its logged range"},
    }


def _request(form: Form, most: int, *, drawing: bool) -> dict[str, Any]:
    features = {
        **_object({variable.name: _value(variable) for variable in form.schema.asked}),
        "additionalProperties": False,
    }
    whole = {"type": "integer", "minimum": -LARGEST_NUMBER, "maximum": LARGEST_NUMBER}
    what = "the name of the case: with its step, its action is drawn by it, so that asking again gives the same"
    case: dict[str, Any] = {"id": {"anyOf": [TEXT, whole], "description": what}, "features": features}
    if form.wants_history:
        acted = {} if form.real_valued else {"action": _action(form)}
        earlier = {**_object({"features": features, **acted}), "additionalProperties": False}
        what = "earlier steps of the episode, the first one first, with what was done"
        case["history"] = {"type": "array", "items": earlier, "maxItems": MOST_EARLIER, "description": what}
    if form.wants_step:
        what = "how many steps of the episode came before"
        case["step"] = {"type": "integer", "minimum": 0, "maximum": MOST_EARLIER, "description": what}
    return {
        "type": "object",
        "required": ["cases"],
        "additionalProperties": False,
        "properties": {
            "cases": {
                "type": "array",
                "minItems": 1,
                "maxItems": most,
                "items": {
                    "type": "object",
                    "required": [
                        *(["id"] if drawing else []),
                        "features",
                        *(["step"] if form.wants_step else []),
                    ],
                    "properties": case,
                    "additionalProperties": False,
                },
            },
            "seed": _nullable({"type": "integer", "minimum": 0, "maximum": MOST_SEED})
            | {"description": "draws by this number instead of the policy's hash"},
        },
    }


def _value(variable: Variable) -> dict[str, Any]:
    kinds: dict[str, dict[str, Any]] = {
        "number": NUMBER,
        "duration": NUMBER | {"description": "seconds"},
        "category": TEXT | {"examples": list(variable.categories[:10])},
        "ordinal": {"enum": list(variable.categories)},
        "time": {"type": "string", "pattern": TIME},
    }
    plain = kinds[variable.kind]
    return _nullable(plain) if is_optional(variable) else plain


def _action(form: Form) -> dict[str, Any]:
    return {"enum": list(form.action_names)}


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}


def _posted(summary: str, request: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    refusals = {
        "408": "The request took too long to arrive",
        "413": "The request is too large",
        "415": "The request is not application/json",
        "422": "The request is not as described; the errors name what is wrong, and quote no values",
        "503": "Too many requests are waiting",
    }
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": {"application/json": {"schema": request}}},
        "responses": {
            "200": {"description": "Done", "content": {"application/json": {"schema": answer}}},
            **{status: _refused(what) for status, what in refusals.items()},
        },
    }


def _got(summary: str, answer: dict[str, Any], media: str = "application/json") -> dict[str, Any]:
    return {"summary": summary, "responses": {"200": {"description": "Done", "content": {media: {"schema": answer}}}}}


def _refused(what: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Errors"}}}
    return {"description": what, "content": content}
