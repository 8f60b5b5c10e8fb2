"""What goes to a client can be written down: no half characters, no numbers that JSON does not have."""

from __future__ import annotations

import logging
from base64 import b64encode
from math import isfinite
from typing import Any, Final, cast

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from msgspec import to_builtins
from pydantic import ValidationError

from holdfast.contract.json import encode_json
from holdfast.contract.result import Attachment, Result

_MAX_BITS: Final = 4096
"""Of a whole number: longer ones cannot be read by many, nor be written by every one of our own transports."""
_CLEAN_ALREADY: Final = frozenset({"tools/list"})
"""Answers that are cleaned when they are made, and not each time they are given."""
_FAILED: Final = "holdfast failed at this request; its log says how."
_UNWRITABLE: Final = "The answer cannot be written as JSON."


def clean(value: Any) -> Any:
    """The same value, such that every transport can write it. Raises `ValueError` where that cannot be."""
    kind = cast("type[Any]", type(value))
    if kind is str:
        return value if value.isascii() else clean_text(value)
    if kind is dict:
        return {clean_text(str(key)): clean(item) for key, item in cast("dict[Any, Any]", value).items()}
    if kind is list or kind is tuple:
        return [clean(item) for item in cast("list[Any]", value)]
    if kind is float:
        return value if isfinite(value) else None
    if kind is int:
        if value.bit_length() > _MAX_BITS:
            raise ValueError(f"a whole number of {value.bit_length():,} bits")
        return value
    if value is None or kind is bool:
        return value
    if isinstance(value, str):
        return clean_text(str(value))
    raise ValueError(f"a {kind.__name__}")


def clean_text(text: str) -> str:
    """Halves of characters that belong together are joined; one that is alone becomes `\\ufffd`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def writable(message: types.JSONRPCMessage) -> bytes | None:
    """A message as it is written; an answer that cannot be is an error under its id, anything else is nothing."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except Exception:
        if isinstance(message, types.JSONRPCRequest | types.JSONRPCNotification):
            return None
    try:
        return refusal(types.INTERNAL_ERROR, _UNWRITABLE, message.id)
    except Exception:
        return None


def refusal(code: int, text: str, number: types.RequestId | None = None) -> bytes:
    error = types.JSONRPCError(jsonrpc="2.0", id=number, error=types.ErrorData(code=code, message=clean_text(text)))
    return error.model_dump_json(by_alias=True, exclude_unset=True).encode()


async def clean_answers(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Around every request: what is answered, a result or an error, is clean whatever made it."""
    try:
        result = await call_next(ctx)
        if not isinstance(result, dict) or ctx.method in _CLEAN_ALREADY:
            return result
        return _written(result)
    except MCPError as error:
        said = error.error
        raise MCPError(said.code, clean_text(said.message), _clean_data(said.data)) from error
    except ValidationError:
        raise  # of what the client sent, which the SDK puts into words
    except Exception as error:
        logging.getLogger("holdfast").error("A request over MCP failed inside holdfast.", exc_info=error)
        raise MCPError(types.INTERNAL_ERROR, _FAILED) from error


def _written(result: dict[str, Any]) -> dict[str, Any]:
    try:
        return clean(result)
    except (ValueError, RecursionError) as error:
        raise MCPError(types.INTERNAL_ERROR, _UNWRITABLE) from error


def _clean_data(data: Any) -> Any:
    try:
        return clean(data)
    except (ValueError, RecursionError):
        return None


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
