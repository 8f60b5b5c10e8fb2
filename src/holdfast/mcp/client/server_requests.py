"""Answers the requests of a server during a call: questions go to the user, never to the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from mcp.client import ClientRequestContext
from mcp_types import (
    INVALID_PARAMS,
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    ListRootsResult,
)
from pydantic import ValidationError

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
from holdfast.contract.json import Args, Json, encode_json
from holdfast.contract.schema import CompiledSchema, compile_schema
from holdfast.mcp.client.active_calls import ActiveCalls
from holdfast.mcp.client.definitions import cut_text, source_of
from holdfast.net.hosts import url_problem

if TYPE_CHECKING:
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
"""Keywords that contain schemas."""
_REFUSED_BY_PERSON: Final = -1
"""Error code for a sampling request that the user rejected, from the protocol's examples."""


class ServerRequests:
    """Answers the requests of one server."""

    def __init__(self, runtime: Runtime, name: str, active_calls: ActiveCalls) -> None:
        self._runtime = runtime
        self._source = source_of(name)
        self._active_calls = active_calls
        self._open = 0

    async def elicit(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult | ErrorData:
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
            why = f"does not fit the form, so it was not sent: {faults}"
        except ValidationError:
            why = "cannot be sent as a form, so it was not sent."
        self._runtime.events.warn(f"The answer to '{self._source}' {why}")
        return ElicitResult(action="cancel")

    async def sample(
        self, context: ClientRequestContext, params: CreateMessageRequestParams
    ) -> CreateMessageResult | CreateMessageResultWithTools | ErrorData:
        if params.tools or params.tool_choice:
            return refusal("this client does not support tools in a sampling request")
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
            self._runtime.events.warn(f"The answer to '{self._source}' is not a message, so it was not sent.")
            return ErrorData(code=_REFUSED_BY_PERSON, message="No reply was given")

    async def roots(self, context: ClientRequestContext) -> ListRootsResult | ErrorData:
        root = self._runtime.workspace.root
        listed = [] if root is None else [{"uri": root.as_uri(), "name": root.name}]
        return ListRootsResult.model_validate({"roots": listed})

    async def visit(self, elicitations: Json) -> str:
        """Ask the user to open the pages that a server requires before it performs the call."""
        listed = elicitations if isinstance(elicitations, list) else []
        visits: list[UrlRequest] = []
        for item in listed[:MAX_OPEN]:
            url, message = (item.get("url"), item.get("message")) if isinstance(item, dict) else (None, None)
            if isinstance(url, str) and _fault(url) is None:
                visits.append(
                    UrlRequest(message=cut_text(message if isinstance(message, str) else "", MAX_MESSAGE), url=url)
                )
        if not visits or not self._runtime.interfaces.can_elicit:
            return "it requires opening a page first, and no interface can show it"
        replies = await self._put(tuple(visits))
        agreed = replies is not None and all(reply.action == "accept" for reply in replies)
        if agreed:
            return "the page it requires was opened; call it again when you are done there"
        return "it requires opening a page first, and that was declined"

    async def _ask(self, question: Question) -> ElicitationReply | ErrorData:
        if self._open >= MAX_OPEN:
            return refusal(f"{MAX_OPEN} questions of this server are already open")
        replies = await self._put((question,))
        return CANCELLED if not replies else replies[0]

    async def _put(self, questions: tuple[Question, ...]) -> tuple[ElicitationReply, ...] | None:
        """The replies; None if the call they are for has ended."""
        active_call = self._active_calls.current()
        call = None if active_call is None else active_call.ctx.call_record
        about = {"call_id": call.id, "group": call.group} if call else {}
        elicitation = Elicitation(asked_by=self._source, questions=questions, **about)
        self._open += 1
        try:
            if active_call is None:
                return await self._runtime.interfaces.elicit(elicitation)
            return await active_call.while_it_lasts(self._runtime.interfaces.elicit(elicitation))
        finally:
            self._open -= 1


def refusal(why: str) -> ErrorData:
    return ErrorData(code=INVALID_PARAMS, message=f"Refused: {why}.")


def _form_schema(params: ElicitRequestFormParams) -> CompiledSchema | str:
    """The schema of a form, or what is wrong with it: a form is a flat list of simple values."""
    schema = params.requested_schema
    if len(encode_json(schema)) > MAX_SCHEMA:
        return f"the schema of a form may be {MAX_SCHEMA:,} bytes long"
    properties: Any = schema.get("properties")
    is_flat = schema.get("type") == "object" and schema.keys().isdisjoint(_NESTING - {"properties"})
    if not is_flat or not isinstance(properties, dict) or not all(map(_is_simple, properties.values())):  # pyright: ignore
        return "a form may only have string, number, boolean and choice properties"
    try:
        compiled = compile_schema(schema, "The schema of the form")
    except InvalidSchema as error:
        return str(error).rstrip(".")
    return compiled if compiled.weight <= MAX_WEIGHT else "the patterns of the form take too long to check"


def _is_simple(part: Any) -> bool:
    """Whether the field is a scalar, a choice of constants, or a list of those."""
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
    """The values of the form's fields only, with defaults for missing ones."""
    properties = schema.get("properties")
    values: Args = {}
    for name, part in (properties if isinstance(properties, dict) else {}).items():
        if name in content:
            values[name] = content[name]
        elif isinstance(part, dict) and "default" in part:
            values[name] = part["default"]
    return values


def _fault(url: str) -> str | None:
    """Why a page must not be offered to the user; None if it may."""
    if len(url) > MAX_URL:
        return f"an address may be {MAX_URL:,} characters long"
    why = url_problem(url, loopback=True)
    return None if why is None else f"the page cannot be opened: {why}"
