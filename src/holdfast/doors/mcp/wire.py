"""What goes to a client can be written down: no half characters, no numbers that JSON does not have."""

from __future__ import annotations

import logging
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, cast

import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

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
