"""Makes values serialisable for every transport: no lone surrogates, no numbers that JSON does not have."""

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
from holdfast.mcp import ATTACHMENT, OWN_URI
from holdfast.text.attachments import describe, is_text_type

_MAX_BITS: Final = 4096
"""Bits of an integer. Many JSON parsers and some of our transports reject longer ones."""
_CLEAN_ALREADY: Final = frozenset({"tools/list"})
"""Results that are cleaned once when they are made, not on every response."""
_FAILED: Final = "The request failed inside holdfast. The log has the details."
_UNWRITABLE: Final = "The response cannot be written as JSON."


def clean(value: Any) -> Any:
    """The same value in a form that every transport can write. Raises `ValueError` if that is impossible."""
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
    """Join surrogate pairs, and replace a lone surrogate with U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def writable(message: types.JSONRPCMessage) -> bytes | None:
    """The message as bytes. A response that cannot be written becomes an error under its id, other messages None."""
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
    """Middleware around every request that cleans its result or error."""
    try:
        result = await call_next(ctx)
        if not isinstance(result, dict) or ctx.method in _CLEAN_ALREADY:
            return result
        return _written(result)
    except MCPError as error:
        said = error.error
        raise MCPError(said.code, clean_text(said.message), _clean_data(said.data)) from error
    except ValidationError:
        raise  # the SDK repeats the client's text in its error
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
"""Result fields that have their own place in the response, or are internal. All others go to `_meta`."""


def to_wire(result: Result, *, modern: bool, limit: int | None = None) -> dict[str, Any]:
    """The response to `tools/call`. In the modern protocol structured content need not be an object.

    `limit` bounds the structured content in bytes; the text is already cut for the model.
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
    """Mark a response as final, as the modern protocol requires."""
    return {"resultType": "complete", **answer}


def block_of(item: Attachment, call_id: str, place: int) -> dict[str, Any]:
    """One attachment as a content block: image, audio, embedded file, a link to it, or a line about what is gone."""
    if item.digest and not item.data:
        return {"type": "text", "text": f"[{describe(item)} was attached, but its content is no longer stored.]"}
    return {**_content(item, call_id, place), **_annotations(item), "_meta": {ATTACHMENT: _facts(item)}}


def _content(item: Attachment, call_id: str, place: int) -> dict[str, Any]:
    if item.kind in ("image", "audio") and item.data:
        return {"type": item.kind, "data": b64encode(item.data).decode(), "mimeType": item.mime_type}
    uri = item.uri or f"{OWN_URI}{call_id}/{place}"
    if not item.data and item.uri:
        return {"type": "resource_link", "uri": uri, "name": item.name or uri, "mimeType": item.mime_type}
    return {"type": "resource", "resource": {"uri": uri, "mimeType": item.mime_type, **_body(item)}}


def _annotations(item: Attachment) -> dict[str, Any]:
    return {"annotations": {"audience": ["user"]}} if item.audience == "person" else {}


def _facts(item: Attachment) -> dict[str, Any]:
    """What MCP has no field for in every block."""
    known: dict[str, Any] = {"kind": item.kind, "name": item.name, "uri": item.uri}
    if item.digest:
        known |= {"digest": item.digest, "size": item.size}
    return {name: value for name, value in known.items() if value is not None}


def _body(item: Attachment) -> dict[str, str]:
    if is_text_type(item.mime_type):
        try:
            return {"text": item.data.decode()}
        except UnicodeDecodeError:
            pass
    return {"blob": b64encode(item.data).decode()}
