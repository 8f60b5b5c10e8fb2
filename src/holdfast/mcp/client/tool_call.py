"""Calls one tool of a server and converts the response, a refusal or an unknown outcome to a `Result`."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from typing import Any, Final, Literal, Protocol, cast

from mcp import Client
from mcp.client import InputRequiredRoundsExceededError
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    URL_ELICITATION_REQUIRED,
    CallToolResult,
)
from msgspec.structs import replace
from pydantic import ValidationError

from holdfast.contract.enums import Failure, State
from holdfast.contract.errors import OutcomeUnknown
from holdfast.contract.json import Args, encode_json
from holdfast.contract.result import Attachment, Result, fail
from holdfast.mcp import ATTACHMENT, OWN_URI
from holdfast.runtime.context import RunContext
from holdfast.runtime.runtime import Runtime
from holdfast.text.attachments import shown

MAX_PROGRESS: Final = 4 * 1024
MAX_ERROR: Final = 16 * 1024
_SDK_LOST: Final = {
    CONNECTION_CLOSED: ("SSE stream", "Connection closed"),
    PARSE_ERROR: ("Failed to parse",),
    INTERNAL_ERROR: ("Server returned an error response",),
}
"""Wordings of the SDK for missing responses; these are not errors of the server."""
_SESSION_OVER: Final = "Session terminated"


class Line(Protocol):
    """The part of the connection that a call needs."""

    @property
    def name(self) -> str: ...
    def fate_of(self, client: Client) -> str: ...
    def end_session(self, reason: str) -> None: ...
    async def visit(self, elicitations: Any) -> str: ...


async def call_tool(client: Client, tool: str, args: Args, ctx: RunContext, runtime: Runtime, line: Line) -> Result:
    """Call a tool. Timeout and cancellation are the runtime's; the SDK notifies the server of a cancellation.

    Raises `OutcomeUnknown` if the outcome is not known.
    """

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        if not ctx.cancelled:
            ctx.progress((message or "")[:MAX_PROGRESS], progress, total)

    try:
        answer = await client.call_tool(tool, args, progress_callback=None if runtime.events.idle else tell)
    except MCPError as error:
        return await _refused(error, client, line)
    except InputRequiredRoundsExceededError:
        return fail(f"MCP server '{line.name}' kept asking for input, so the call was given up.")
    except ValidationError as error:
        raise OutcomeUnknown(
            f"The response of MCP server '{line.name}' violates the protocol ({error.error_count()} errors)"
        ) from None
    return result_from(answer)


async def _refused(error: MCPError, client: Client, line: Line) -> Result:
    code, said = error.code, error.message[:MAX_ERROR]
    if code == INVALID_REQUEST and said == _SESSION_OVER:
        line.end_session("it has ended the session")
        return fail(
            f"MCP server '{line.name}' has ended the session and a new one is started. The call was not performed."
        )
    fate = line.fate_of(client) if code == CONNECTION_CLOSED else ""
    if fate or said.startswith(_SDK_LOST.get(code, ())):
        raise OutcomeUnknown(f"MCP server '{line.name}' did not respond: {fate or said}") from None
    if code == URL_ELICITATION_REQUIRED:
        data: Any = error.data
        wanted = data.get("elicitations") if isinstance(data, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return fail(f"{said}: {await line.visit(wanted)}")
    return fail(f"{said or 'The server gave no reason'} (MCP error {code})")


MAX_ATTACHED_BYTES: Final = 16 * 1024 * 1024
MAX_ATTACHMENTS: Final = 32
_NAMED_IN_A_LINE: Final = 8
_MAX_MIME: Final = 128
_MAX_ADDRESS: Final = 4096
_NO_WORDS: Final = "The tool reported an error without a message."


def result_from(answer: CallToolResult) -> Result:
    """The whole text, other content up to a limit, and a line about what was omitted."""
    texts: list[str] = []
    attached: list[Attachment] = []
    left_out: list[str] = []
    room = MAX_ATTACHED_BYTES
    for block in answer.content:
        if block.type == "text":
            texts.append(_sound(block.text))
            continue
        made = _attachment(block, room) if len(attached) < MAX_ATTACHMENTS else _told(block, "one of too many")
        if isinstance(made, str):
            left_out.append(made)
        else:
            attached.append(made)
            room -= len(made.data)
    if left_out:
        texts.append(_line(left_out))
    structured = answer.structured_content
    text = "\n".join(texts)
    if answer.is_error:
        return Result(False, "", text or _NO_WORDS, structured, {}, tuple(attached), State.FAILED, Failure.TOOL_ERROR)
    if not texts and not attached and structured is not None:
        text = encode_json(structured).decode()
    return Result(True, text, None, structured, {}, tuple(attached))


def _attachment(block: Any, room: int) -> Attachment | str:
    """The block as an attachment, or why it is none."""
    made = _content(block, room)
    if isinstance(made, str):
        return made
    audience = getattr(block.annotations, "audience", None)
    made = replace(made, audience="person" if audience == ["user"] else "everyone")
    meta = cast(dict[str, object], block.meta or {})
    facts = meta.get(ATTACHMENT)
    return made if not isinstance(facts, dict) else _with_facts(made, cast(dict[Any, Any], facts))


def _with_facts(made: Attachment, facts: dict[Any, Any]) -> Attachment:
    """The attachment with what another holdfast says about it."""
    name, uri, kind = facts.get("name"), facts.get("uri"), facts.get("kind")
    return replace(
        made,
        kind=kind if kind in ("image", "audio", "file") else made.kind,
        name=_sound(name)[:_MAX_ADDRESS] or None if isinstance(name, str) else None,
        uri=_address(uri) if isinstance(uri, str) else made.uri,
    )


def _content(block: Any, room: int) -> Attachment | str:
    if block.type == "image" or block.type == "audio":
        return _decoded(block, block.type, block.data, _kind(block.mime_type, "application/octet-stream"), room)
    if block.type == "resource_link":
        return Attachment(
            kind="file",
            mime_type=_kind(block.mime_type, "application/octet-stream"),
            name=_sound(block.title or block.name)[:_MAX_ADDRESS] or None,
            uri=_address(block.uri),
        )
    resource = block.resource
    uri = _address(resource.uri)
    uri = None if uri.startswith(OWN_URI) else uri
    text: str | None = getattr(resource, "text", None)
    if text is None:
        mime_type = _kind(resource.mime_type, "application/octet-stream")
        return _decoded(block, "file", resource.blob, mime_type, room, uri)
    if len(text) > room or len(data := text.encode("utf-8", "replace")) > room:
        return _told(block, "too large")
    if not data:
        return _told(block, "empty")
    return Attachment(kind="file", mime_type=_kind(resource.mime_type, "text/plain"), data=data, uri=uri)


def _decoded(
    block: Any, kind: Literal["image", "audio", "file"], data: str, mime_type: str, room: int, uri: str | None = None
) -> Attachment | str:
    if len(data) // 4 * 3 > room + 2:
        return _told(block, "too large")
    try:
        decoded = b64decode(data, validate=True)
    except (NotBase64, ValueError):
        return _told(block, "not valid base64")
    if len(decoded) > room:
        return _told(block, "too large")
    if not decoded:
        return _told(block, "empty")  # without bytes it would be a link
    return Attachment(kind=kind, mime_type=mime_type, data=decoded, uri=uri)


def _told(block: Any, why: str) -> str:
    resource = getattr(block, "resource", block)
    what = getattr(resource, "uri", None) or getattr(resource, "mime_type", None) or ""
    return f"{block.type} {shown(str(what), 80)} ({why})".replace("  ", " ")


def _line(left_out: list[str]) -> str:
    more = len(left_out) - _NAMED_IN_A_LINE
    named = ", ".join(left_out[:_NAMED_IN_A_LINE]) + (f" and {more:,} more" if more > 0 else "")
    return f"[Not attached: {named}]"


def _kind(mime_type: str | None, otherwise: str) -> str:
    return _sound(mime_type)[:_MAX_MIME] if mime_type else otherwise


def _address(uri: object) -> str:
    return _sound(str(uri))[:_MAX_ADDRESS]


def _sound(text: str) -> str:
    """The text with lone surrogates replaced: no encoding can carry them."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
