"""What an MCP server answered to a call, made into a `Result`: text, structure and attachments, in order."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from typing import TYPE_CHECKING, Any, Final, Literal

from holdfast.contract.result import Attachment, Result
from holdfast.contract.values import encode_json
from holdfast.contract.vocabulary import Failure, State
from holdfast.text.visible import visible

if TYPE_CHECKING:
    from mcp_types import CallToolResult

MAX_ATTACHED_BYTES: Final = 16 * 1024 * 1024
MAX_ATTACHMENTS: Final = 32
_NAMED_IN_A_LINE: Final = 8
_MAX_MIME: Final = 128
_MAX_ADDRESS: Final = 4096
_NO_WORDS: Final = "The tool reported an error and did not say which."


def result_from(answer: CallToolResult) -> Result:
    """All the text there is; of everything else as much as may be carried, and a line about the rest."""
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
    """The block as an attachment, or why it is not one."""
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
    text: str | None = getattr(resource, "text", None)
    if text is None:
        mime_type = _kind(resource.mime_type, "application/octet-stream")
        return _decoded(block, "file", resource.blob, mime_type, room, uri)
    if len(text) > room or len(data := text.encode("utf-8", "replace")) > room:
        return _told(block, "too large")
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
    return Attachment(kind=kind, mime_type=mime_type, data=decoded, uri=uri)


def _told(block: Any, why: str) -> str:
    resource = getattr(block, "resource", block)
    what = getattr(resource, "uri", None) or getattr(resource, "mime_type", None) or ""
    return f"{block.type} {visible(_sound(str(what))[:80])} ({why})".replace("  ", " ")


def _line(left_out: list[str]) -> str:
    more = len(left_out) - _NAMED_IN_A_LINE
    named = ", ".join(left_out[:_NAMED_IN_A_LINE]) + (f" and {more:,} more" if more > 0 else "")
    return f"[Not attached: {named}]"


def _kind(mime_type: str | None, otherwise: str) -> str:
    return _sound(mime_type)[:_MAX_MIME] if mime_type else otherwise


def _address(uri: object) -> str:
    return _sound(str(uri))[:_MAX_ADDRESS]


def _sound(text: str) -> str:
    """Without halves of surrogate pairs, which no encoding of text can carry."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
