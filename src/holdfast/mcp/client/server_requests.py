"""What a server asks and logs while it works: questions go to the person behind the interface, never to the model."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, cast

from holdfast.contract.elicitation import (
    CANCELLED,
    Elicitation,
    ElicitationReply,
    FormRequest,
    Question,
    SamplingMessage,
    SamplingRequest,
    UrlRequest,
)
from holdfast.contract.errors import InvalidSchema
from holdfast.contract.event import ServerLogged
from holdfast.contract.json import Args, Json, encode_json
from holdfast.contract.schema import CompiledSchema, compile_schema
from holdfast.mcp.client.active_calls import ActiveCalls
from holdfast.mcp.client.definitions import cut_text, source_of
from holdfast.net.hosts import url_problem

if TYPE_CHECKING:
    from mcp.client import ClientRequestContext
    from mcp_types import (
        CreateMessageRequestParams,
        CreateMessageResult,
        CreateMessageResultWithTools,
        ElicitRequestFormParams,
        ElicitRequestParams,
        ElicitResult,
        ErrorData,
        ListRootsResult,
        LoggingMessageNotificationParams,
    )

    from holdfast.runtime.runtime import Runtime

MAX_OPEN: Final = 8
MAX_MESSAGE: Final = 8 * 1024
MAX_SCHEMA: Final = 64 * 1024
MAX_WEIGHT: Final = 1_000_000
MAX_MESSAGES: Final = 1024 * 1024
MAX_URL: Final = 4096
_SCALARS: Final = ("string", "number", "integer", "boolean")
_OPTION: Final = {"const", "title", "description"}
_NESTING: Final = frozenset({
    "$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "properties",
    "patternProperties", "propertyNames", "dependentSchemas", "dependencies", "unevaluatedProperties", "items",
    "prefixItems", "additionalItems", "contains", "unevaluatedItems", "contentSchema",
})  # fmt: skip
"""Keywords with schemas in them."""
_REFUSED_BY_PERSON: Final = -1
"""The code the protocol's own examples give for a sampling request that a person refused."""


class ServerRequests:
    """The answers of one client to its server's questions."""

    def __init__(self, runtime: Runtime, name: str, flights: ActiveCalls) -> None:
        self._runtime = runtime
        self._source = source_of(name)
        self._flights = flights
        self._open = 0

    async def elicit(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        from mcp_types import ElicitResult
        from pydantic import ValidationError

        if params.mode == "url":
            if (why := _fault(params.url)) is not None:
                return refusal(why)
            message = cut_text(params.message, MAX_MESSAGE)
            reply = await self._ask(UrlRequest(message=message, url=params.url, id=(params.elicitation_id or "")[:256]))
            return reply if not isinstance(reply, ElicitationReply) else ElicitResult(action=reply.action)
        schema = _form_schema(params)
        if isinstance(schema, str):
            return refusal(schema)
        asked: Args = dict(params.requested_schema)
        reply = await self._ask(FormRequest(message=cut_text(params.message, MAX_MESSAGE), schema=asked))
        if not isinstance(reply, ElicitationReply):
            return reply
        if reply.action != "accept":
            return ElicitResult(action=reply.action)
        values = _filled(reply.content or {}, asked)
        try:
            if schema.accepts(values):
                return ElicitResult.model_validate({"action": "accept", "content": values})
            faults = "; ".join(schema.violations(values))
            why = f"does not fit what it asked for, so that nothing was sent: {faults}"
        except ValidationError:
            why = "cannot be sent as a form, so that nothing was."
        self._runtime.events.warn(f"What was answered to '{self._source}' {why}")
        return ElicitResult(action="cancel")

    async def sample(
        self, context: ClientRequestContext, params: CreateMessageRequestParams
    ) -> CreateMessageResult | CreateMessageResultWithTools | ErrorData:
        from mcp_types import CreateMessageResult, ErrorData
        from pydantic import ValidationError

        if params.tools or params.tool_choice:
            return refusal("this client does not take tools in a sampling request")
        wire: dict[str, Any] = params.model_dump(by_alias=True, mode="json", exclude_none=True)
        if len(encode_json(wire)) > MAX_MESSAGES:
            return refusal(f"a sampling request may be {MAX_MESSAGES:,} bytes long")
        messages = tuple(SamplingMessage(message["role"], message["content"]) for message in wire.pop("messages"))
        system, most = wire.pop("systemPrompt", ""), wire.pop("maxTokens")
        wire.pop("_meta", None)
        reply = await self._ask(SamplingRequest(messages=messages, system=system, max_tokens=most, extra=wire or None))
        if not isinstance(reply, ElicitationReply):
            return reply
        if reply.action != "accept":
            return ErrorData(code=_REFUSED_BY_PERSON, message="User rejected sampling request")
        try:
            return CreateMessageResult.model_validate(reply.content)
        except ValidationError:
            self._runtime.events.warn(f"What was answered to '{self._source}' is no message, so that nothing was sent.")
            return ErrorData(code=_REFUSED_BY_PERSON, message="No reply was given")

    async def roots(self, context: ClientRequestContext) -> ListRootsResult | ErrorData:
        from mcp_types import ListRootsResult

        root = self._runtime.workspace.root
        listed = [] if root is None else [{"uri": root.as_uri(), "name": root.name}]
        return ListRootsResult.model_validate({"roots": listed})

    async def visit(self, elicitations: Json) -> str:
        """Put the pages to the person that a server wants visited before it does what it was called for."""
        listed = elicitations if isinstance(elicitations, list) else []
        visits: list[UrlRequest] = []
        for item in listed[:MAX_OPEN]:
            url, message = (item.get("url"), item.get("message")) if isinstance(item, dict) else (None, None)
            if isinstance(url, str) and _fault(url) is None:
                visits.append(
                    UrlRequest(message=cut_text(message if isinstance(message, str) else "", MAX_MESSAGE), url=url)
                )
        if not visits or not self._runtime.interfaces.can_elicit:
            return "it wants a page to be visited first, and nobody is there to do it"
        replies = await self._put(tuple(visits))
        agreed = replies is not None and all(reply.action == "accept" for reply in replies)
        if agreed:
            return "the page it wanted to be visited first was opened; call it again when that is done"
        return "it wants a page to be visited first, and that was declined"

    async def _ask(self, question: Question) -> ElicitationReply | ErrorData:
        if self._open >= MAX_OPEN:
            return refusal(f"{MAX_OPEN} questions of this server already wait for an answer")
        replies = await self._put((question,))
        return CANCELLED if not replies else replies[0]

    async def _put(self, questions: tuple[Question, ...]) -> tuple[ElicitationReply, ...] | None:
        """The replies; None if the call they are wanted for is over."""
        flight = self._flights.current()
        call = None if flight is None else flight.ctx.call_record
        about = {"call_id": call.id, "group": call.group} if call else {}
        elicitation = Elicitation(asked_by=self._source, questions=questions, **about)
        self._open += 1
        try:
            if flight is None:
                return await self._runtime.interfaces.elicit(elicitation)
            return await flight.while_it_lasts(self._runtime.interfaces.elicit(elicitation))
        finally:
            self._open -= 1


def refusal(why: str) -> ErrorData:
    from mcp_types import INVALID_PARAMS, ErrorData

    return ErrorData(code=INVALID_PARAMS, message=f"Refused: {why}.")


def _form_schema(params: ElicitRequestFormParams) -> CompiledSchema | str:
    """The schema of a form, or what is wrong with it: a form is a flat list of simple values."""
    schema = params.requested_schema
    if len(encode_json(schema)) > MAX_SCHEMA:
        return f"the schema of a form may be {MAX_SCHEMA:,} bytes long"
    properties: Any = schema.get("properties")
    is_flat = schema.get("type") == "object" and schema.keys().isdisjoint(_NESTING - {"properties"})
    if not is_flat or not isinstance(properties, dict) or not all(map(_is_simple, properties.values())):  # pyright: ignore
        return "a form has properties that are strings, numbers, booleans or choices of them, and nothing else"
    try:
        compiled = compile_schema(schema, "The schema of the form")
    except InvalidSchema as error:
        return str(error).rstrip(".")
    return compiled if compiled.weight <= MAX_WEIGHT else "the patterns of the form take too long to check"


def _is_simple(part: Any) -> bool:
    """A scalar, a choice among constants, or several of those: what a person can be asked for in one line."""
    if not isinstance(part, dict):
        return False
    said = cast("dict[str, Any]", part)
    if said.get("type") == "array":
        return said.keys().isdisjoint(_NESTING - {"items"}) and _is_choice(said.get("items"))
    scalar = said.get("type") in _SCALARS and said.keys().isdisjoint(_NESTING)
    return scalar or _is_choice(said)


def _is_choice(part: Any) -> bool:
    if not isinstance(part, dict):
        return False
    said = cast("dict[str, Any]", part)
    listed: Any = said.get("oneOf", said.get("anyOf"))
    if listed is None:
        return _is_scalar_or(said) and isinstance(said.get("enum"), list) and said.keys().isdisjoint(_NESTING)
    options = cast("list[Any]", listed) if isinstance(listed, list) else [None]
    named = all(isinstance(option, dict) and option.keys() <= _OPTION and "const" in option for option in options)  # pyright: ignore
    return named and _is_scalar_or(said) and len(said.keys() & _NESTING) == 1


def _is_scalar_or(said: dict[str, Any]) -> bool:
    return said.get("type", "string") in _SCALARS


def _filled(content: Args, schema: Args) -> Args:
    """What was asked for and nothing else, with the default of what was left out."""
    properties = schema.get("properties")
    values: Args = {}
    for name, part in (properties if isinstance(properties, dict) else {}).items():
        if name in content:
            values[name] = content[name]
        elif isinstance(part, dict) and "default" in part:
            values[name] = part["default"]
    return values


def _fault(url: str) -> str | None:
    """Why a page must not be shown to the person as one to open; None if it may be."""
    if len(url) > MAX_URL:
        return f"an address may be {MAX_URL:,} characters long"
    why = url_problem(url, loopback=True)
    return None if why is None else f"the page cannot be opened: {why}"


MAX_BYTES: Final = 4 * 1024
PER_SECOND: Final = 100


class ServerLog:
    def __init__(self, runtime: Runtime, name: str, flights: ActiveCalls, now: Callable[[], float] = monotonic) -> None:
        self._runtime = runtime
        self._source = source_of(name)
        self._flights = flights
        self._now = now
        self._second = 0.0
        self._told = 0
        self._lost = 0

    async def log(self, params: LoggingMessageNotificationParams) -> None:
        if self._runtime.events.idle or not self._has_room():
            return
        said = params.data if isinstance(params.data, str) else encode_json(params.data).decode()
        text = f"{params.logger[:80]}: {said}" if params.logger else said
        self._tell(params.level, text)

    def _has_room(self) -> bool:
        now = self._now()
        if now - self._second >= 1.0:
            lost, self._lost = self._lost, 0
            self._second, self._told = now, 0
            if lost:
                self._told += 1
                self._tell("warning", f"{lost:,} messages of its log were left out: more than {PER_SECOND} a second")
        self._told += 1
        if self._told <= PER_SECOND:
            return True
        self._lost += 1
        return False

    def _tell(self, level: str, text: str) -> None:
        flight = self._flights.current()
        clean = self._runtime.redactor(text)
        raw = clean.encode("utf-8", "replace")
        if len(raw) > MAX_BYTES:
            clean = f"{raw[:MAX_BYTES].decode('utf-8', 'ignore')} […]"
        self._runtime.events.emit_from_anywhere(
            ServerLogged("" if flight is None else flight.ctx.call_id, self._source, level, clean)
        )
