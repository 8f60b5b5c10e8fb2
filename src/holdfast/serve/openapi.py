"""The OpenAPI 3.1 document of the HTTP API, generated from its endpoints, and the reference `docs/api-http.md`.

`python -m holdfast.serve.api docs/api-http.md` writes the reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Annotated, Any, Final, get_args, get_type_hints

import msgspec
from msgspec import Struct
from starlette.responses import Response

from holdfast.contract.json import Doc
from holdfast.serve.endpoint import Endpoint

Schema = dict[str, Any]
_REF: Final = "#/components/schemas/{name}"
_ERRORS: Final = {
    400: "The request cannot be understood, or is refused",
    401: "No valid token",
    403: "This person may look, but not act",
    404: "There is no such project, call or document",
    405: "The method is not used here",
    409: "Not done: the call has changed or was answered meanwhile",
    413: "The body is too large",
    415: "The body is not application/json",
    422: "The arguments do not match the tool's schema",
    503: "The ledger cannot be used now",
}
_ALWAYS: Final = (400, 401, 503)
_POSTED: Final = (403, 413, 415)


class ErrorBody(Struct, frozen=True, kw_only=True):
    kind: Annotated[str, Doc("what went wrong, as one word")]
    message: Annotated[str, Doc("the message")]


class ErrorReply(Struct, frozen=True, kw_only=True):
    """The reply to a request that failed."""

    error: ErrorBody


def openapi_document(endpoints: Sequence[Endpoint]) -> Schema:
    """The document of these endpoints."""
    kinds = [kind for one in endpoints for kind in (one.body, one.query, one.reply) if kind not in (None, Response)]
    schemas, components = msgspec.json.schema_components([*kinds, ErrorReply], ref_template=_REF)
    known = dict(zip([*kinds, ErrorReply], schemas, strict=True))
    for kind in _structs(kinds):
        _describe(components.get(kind.__name__, {}), kind)
    paths: dict[str, Schema] = {}
    for one in endpoints:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, known, components)
    for kind in {one.query for one in endpoints if one.query is not None}:
        components.pop(kind.__name__, None)  # its fields are parameters
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "holdfast",
            "version": version("holdfast"),
            "description": "Calls, answers, history and events of holdfast. Every action is also a command.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "From `holdfast serve people add NAME`."}
            },
        },
    }


def _operation(one: Endpoint, known: dict[Any, Schema], components: dict[str, Schema]) -> Schema:
    found: Schema = {
        "summary": one.summary,
        "operationId": operation_id(one),
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in one.parameters
        ],
        "responses": {"200": {"description": "Done", "content": _content(one, known)}},
    }
    if one.command:
        found["description"] = f"On the command line: `holdfast {one.command}`."
    if one.query is not None:
        found["parameters"] += _query_parameters(components[one.query.__name__])
    if one.body is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": known[one.body]}}}
    refused = {"application/json": {"schema": known[ErrorReply]}}
    for status in statuses(one):
        found["responses"][str(status)] = {"description": _ERRORS[status], "content": refused}
    return found


def statuses(one: Endpoint) -> list[int]:
    """The statuses of errors that an endpoint can reply with."""
    return sorted({*_ALWAYS, *(_POSTED if one.method == "POST" else ()), *one.errors})


def operation_id(one: Endpoint) -> str:
    """The handler's name, such as `make_call`."""
    return getattr(one.handler, "__name__", one.path)


def _content(one: Endpoint, known: dict[Any, Schema]) -> Schema:
    if one.reply is Response:
        return {"text/event-stream": {"schema": {"type": "string"}}}
    return {"application/json": {"schema": known[one.reply]}}


def _query_parameters(schema: Schema) -> Iterator[Schema]:
    for name, field in schema["properties"].items():
        plain = {key: value for key, value in field.items() if key != "description"}
        yield {"name": name, "in": "query", "description": field.get("description", ""), "schema": _without_null(plain)}


def _without_null(schema: Schema) -> Schema:
    """A query has no null: a field that may be null may be left out."""
    options = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    plain = {key: value for key, value in schema.items() if key != "anyOf" and value is not None}
    return plain | (options[0] if len(options) == 1 else {"anyOf": options} if options else {})


def _structs(kinds: Sequence[Any]) -> list[type[Struct]]:
    """The structs and those inside them."""
    found: dict[type[Struct], None] = {}

    def visit(kind: Any) -> None:
        if isinstance(kind, type) and issubclass(kind, Struct) and kind not in found:
            found[kind] = None
            for hint in get_type_hints(kind).values():
                visit(hint)
        for inner in get_args(kind):
            visit(inner)

    for kind in kinds:
        visit(kind)
    return list(found)


def _describe(schema: Schema, kind: type[Struct]) -> None:
    """Add what each field means to its schema."""
    for name, hint in get_type_hints(kind, include_extras=True).items():
        for note in getattr(hint, "__metadata__", ()):
            if isinstance(note, Doc) and name in schema.get("properties", {}):
                schema["properties"][name]["description"] = note.text


_INTRO: Final = """\
# The HTTP API

`holdfast serve` answers requests under `/api/` beside the page. The table is generated from the program by
`python -m holdfast.serve.api docs/api-http.md`; a test keeps it current. `GET /api/openapi.json` has the types of
all requests and replies. The objects in them are those that the commands print with [`--json`](cli.md#json).

A program sends its token; `holdfast serve people add NAME` prints one:

```text
curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:4632/api/pending
curl -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \\
  -d '{"digest": "8f0c…"}' http://127.0.0.1:4632/api/calls/$PROJECT/$CALL/approve
```

Your own programs can use the private socket instead, which needs no token:

```text
curl --unix-socket ~/.local/state/holdfast/serve.sock http://localhost/api/pending
```

An answer names the `digest` of the call as it was shown. If the call has changed or was answered meanwhile, the reply
is 409 and nothing is recorded. `POST` needs a person who may answer, and a body of the type `application/json`. A
request that fails gets `{"error": {"kind": …, "message": …}}`.

`GET /api/events` is a stream of server-sent events. The id of an event is the number of the last ledger entry that it
covers: a client that sends it as `Last-Event-ID` continues exactly there. The data of an event `calls` has the present
state of each call that changed; an event `reload` means that the ledger was replaced, so everything must be read again.

| request | what it does | errors | command |
|---|---|---|---|
"""


def reference(endpoints: Sequence[Endpoint]) -> str:
    """The text of `docs/api-http.md`."""
    return _INTRO + "".join(f"{row}\n" for row in _rows(endpoints))


def _rows(endpoints: Sequence[Endpoint]) -> Iterator[str]:
    for one in endpoints:
        fields = [] if one.body is None else list(one.body.__struct_fields__)
        fields += [] if one.query is None else [f"?{name}" for name in one.query.__struct_fields__]
        named = f" ({', '.join(f'`{name}`' for name in fields)})" if fields else ""
        command = f"`holdfast {one.command}`" if one.command else ""
        errors = ", ".join(map(str, statuses(one)))
        yield f"| `{one.method} {one.path}` | {one.summary}{named} | {errors} | {command} |"
