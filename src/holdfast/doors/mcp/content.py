"""A result as an MCP client gets it: text first, then what else it carries, in the order it was given."""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final

from msgspec import to_builtins

from holdfast.contract.result import Attachment, Result
from holdfast.contract.values import encode_json

CALL: Final = "holdfast/call"
STATE: Final = "holdfast/state"
_PLACED: Final = frozenset(
    {"success", "output", "error", "structured", "attachments", "state", "call_id", "failure", "metadata"}
)
"""Fields of a result that have their own place in the answer, or are for holdfast alone; any other goes to `_meta`."""
_TEXTS: Final = ("text/", "application/json", "application/xml", "application/yaml", "application/toml")


def to_wire(result: Result, *, modern: bool, limit: int | None = None) -> dict[str, Any]:
    """The answer to `tools/call`. In the modern protocol structured content need not be an object.

    `limit` is in bytes and for the structure: its text has been cut to what a model may see, and it may be as long.
    """
    content = [block_of(item, result.call_id, place) for place, item in enumerate(result.attachments)]
    if result.text or not content:
        content.insert(0, {"type": "text", "text": result.text})
    answer: dict[str, Any] = {
        "content": content,
        "isError": not result.success,
        "_meta": {CALL: result.call_id, STATE: result.state.value, **_others(result)},
    }
    sent = isinstance(result.structured, dict) or (modern and result.structured is not None)
    if sent and (limit is None or len(encode_json(result.structured)) <= limit):
        answer["structuredContent"] = result.structured
    return complete(answer) if modern else answer


def _others(result: Result) -> dict[str, Any]:
    known = {name: getattr(result, name) for name in result.__struct_fields__ if name not in _PLACED}
    return {f"holdfast/{name}": to_builtins(value) for name, value in known.items()}


def complete(answer: dict[str, Any]) -> dict[str, Any]:
    """Marked as no question, as the modern protocol wants it of every answer."""
    return {"resultType": "complete", **answer}


def block_of(item: Attachment, call_id: str, place: int) -> dict[str, Any]:
    """One attachment: an image, a sound, the content of a file, or where that is."""
    if item.kind in ("image", "audio") and item.data:
        return {"type": item.kind, "data": b64encode(item.data).decode(), "mimeType": item.mime_type}
    uri = item.uri or f"holdfast:{call_id}/{place}"
    if not item.data and item.uri:
        return {"type": "resource_link", "uri": uri, "name": item.name or uri, "mimeType": item.mime_type}
    return {"type": "resource", "resource": {"uri": uri, "mimeType": item.mime_type, **_body(item)}}


def _body(item: Attachment) -> dict[str, str]:
    if item.mime_type.startswith(_TEXTS) or item.mime_type.endswith(("+json", "+xml")):
        try:
            return {"text": item.data.decode()}
        except UnicodeDecodeError:
            pass
    return {"blob": b64encode(item.data).decode()}
