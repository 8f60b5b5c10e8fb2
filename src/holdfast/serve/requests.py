"""Reading requests and reporting errors: bodies of bounded size, forms, JSON, and the status of each error."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from holdfast.chat.state_file import DocumentBusy
from holdfast.contract.errors import (
    ArgumentsError,
    CallError,
    ConfigError,
    GrantRefused,
    HoldfastError,
    LedgerError,
    NotPending,
    StaleApproval,
    UndoRefused,
    UnknownCall,
    UnknownTool,
)
from holdfast.contract.json import encode_json
from holdfast.serve.html import page
from holdfast.serve.security import MAX_BODY, PERSON, STILL
from holdfast.store.people import Person

S = TypeVar("S", bound=Struct)
MAX_FIELDS: Final = 5000
MAX_STREAMS: Final = 64
"""Open event streams of one person."""
_STATUS: Final[tuple[tuple[type[HoldfastError], int, str], ...]] = (
    (UnknownCall, 404, "unknown_call"),
    (UnknownTool, 404, "unknown_tool"),
    (StaleApproval, 409, "stale"),
    (NotPending, 409, "not_pending"),
    (ArgumentsError, 422, "invalid_arguments"),
    (GrantRefused, 409, "grant_refused"),
    (UndoRefused, 409, "undo_refused"),
    (DocumentBusy, 409, "busy"),
    (CallError, 400, "refused"),
    (ConfigError, 400, "config"),
    (LedgerError, 503, "ledger"),
)


class BadRequest(HoldfastError):
    """A request that cannot be understood."""


class Forbidden(HoldfastError):
    """The person may only look."""


class TooMany(HoldfastError):
    """The person has too many streams open."""


def person_of(request: Request) -> Person:
    return request.scope[PERSON]


def still_allowed(request: Request) -> Callable[[], bool]:
    """A function that says whether the person was not removed or logged out meanwhile."""
    return request.scope[STILL]


def require_answer(request: Request) -> Person:
    """The person, if they may answer; raises `Forbidden` otherwise."""
    person = person_of(request)
    if not person.may_answer:
        raise Forbidden(f"{person.name} may look, but not answer.")
    return person


class Streams:
    """The open event streams of each person. One person cannot take all connections of the daemon."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    def reply(self, request: Request, events: AsyncGenerator[bytes]) -> StreamingResponse:
        who = person_of(request).identity
        if self._open[who] >= MAX_STREAMS:
            raise TooMany(f"{person_of(request).name} has {MAX_STREAMS} event streams open. Close some pages.")
        headers = {"X-Accel-Buffering": "no"}
        return StreamingResponse(self._counted(who, events), media_type="text/event-stream", headers=headers)

    async def _counted(self, who: str, events: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        self._open[who] += 1
        try:
            async for block in events:
                yield block
        finally:
            self._open[who] -= 1


def stream_reply(request: Request, events: AsyncGenerator[bytes]) -> StreamingResponse:
    """Stream server-sent events. Raises `TooMany` if this person has too many streams already."""
    return request.app.state.streams.reply(request, events)


async def read_body(request: Request) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BODY:
            raise BadRequest(f"The body must not be larger than {MAX_BODY:,} bytes.")
        parts.append(part)
    return b"".join(parts)


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form; of a field that is given several times, the last one."""
    return dict(await read_fields(request))


async def read_fields(request: Request) -> list[tuple[str, str]]:
    """The fields of a form in order."""
    try:
        text = (await read_body(request)).decode("ascii")
        return parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise BadRequest(f"The form cannot be read: {error}.") from None


async def read_json(request: Request, kind: type[S]) -> S:
    """The body as a struct. Raises `BadRequest` that says what is wrong with it."""
    try:
        return msgspec.json.decode(await read_body(request), type=kind)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"The body cannot be read: {error}") from None


def json_reply(body: Any, status: int = 200) -> Response:
    return Response(encode_json(body), status, media_type="application/json")


def wants_json(request: Request) -> bool:
    return "application/json" in request.headers.get("accept", "") or request.url.path.startswith("/api/")


def status_of(error: HoldfastError) -> tuple[int, str]:
    """The HTTP status of an error and its kind, one word for programs."""
    if isinstance(error, BadRequest):
        return 400, "bad_request"
    if isinstance(error, Forbidden):
        return 403, "forbidden"
    if isinstance(error, TooMany):
        return 429, "too_many"
    return next(((status, word) for kind, status, word in _STATUS if isinstance(error, kind)), (400, "refused"))


async def on_error(request: Request, error: Exception) -> Response:
    """The reply to a request that raised a `HoldfastError`."""
    assert isinstance(error, HoldfastError)
    status, kind = status_of(error)
    if wants_json(request):
        return JSONResponse({"error": {"kind": kind, "message": str(error)}}, status)
    titles = {404: "Not found", 409: "Not done", 403: "Not allowed"}
    return page(request, "message.html", status=status, title=titles.get(status, "Error"), message=str(error))
