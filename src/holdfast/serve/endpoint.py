"""An endpoint of the HTTP API, declared once: its route and its part of the OpenAPI document come from it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.serve.requests import BadRequest, json_reply, person_of, read_json, require_answer
from holdfast.store.people import Person, Right

PARAMETER: Final = re.compile(r"\{([a-z_]+)\}")
S = TypeVar("S", bound=Struct)


class ApiRequest:
    """A request that was checked against its endpoint."""

    def __init__(self, request: Request, person: Person, query: Struct | None, body: Struct | None) -> None:
        self.raw = request
        self.person = person
        self.path: dict[str, str] = request.path_params
        self._query = query
        self._body = body

    def query(self, kind: type[S]) -> S:
        assert isinstance(self._query, kind)
        return self._query

    def body(self, kind: type[S]) -> S:
        assert isinstance(self._body, kind)
        return self._body


Handler = Callable[[Any, ApiRequest], Awaitable[object]]


class Endpoint(Struct, frozen=True, kw_only=True):
    """One method of one path. A `POST` needs the right `answer`."""

    method: Literal["GET", "POST"]
    path: str
    summary: str
    handler: Handler
    """A method, as the class has it."""
    reply: Any
    """The type of the reply; `Response` for a handler that makes its own."""
    query: type[Struct] | None = None
    body: type[Struct] | None = None
    errors: tuple[int, ...] = ()
    """Statuses of errors beside those that every endpoint has."""
    command: str = ""
    """The command that does the same."""

    @property
    def right(self) -> Right:
        return "view" if self.method == "GET" else "answer"

    @property
    def parameters(self) -> list[str]:
        return PARAMETER.findall(self.path)

    def route(self, owner: object) -> Route:
        """The route to the handler, a method of `owner`."""

        async def answer(request: Request) -> Response:
            person = person_of(request) if self.right == "view" else require_answer(request)
            query = None if self.query is None else read_query(request, self.query)
            body = None if self.body is None else await read_json(request, self.body)
            found = await self.handler(owner, ApiRequest(request, person, query, body))
            return found if isinstance(found, Response) else json_reply(found)

        return Route(self.path, answer, methods=[self.method])


def read_query(request: Request, kind: type[S]) -> S:
    """The query of a request as a struct. Raises `BadRequest` for an unknown, repeated or unreadable field."""
    given = request.query_params.multi_items()
    if len(dict(given)) != len(given):
        raise BadRequest("A field is given more than once.")
    try:
        return msgspec.convert(dict(given), kind, strict=False)
    except (msgspec.ValidationError, OverflowError) as error:
        raise BadRequest(f"The query cannot be read: {error}") from None
