"""What a server prints, taken apart: lines in linear time, and messages from lines."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import Any, Final, cast

import msgspec
from mcp_types import ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

MAX_LINE: Final = 16 * 1024 * 1024
MAX_VALUES: Final = 1_000_000
"""Values in one message: `{},` is three bytes, and a hundred when it was read."""
_SMALL: Final = 1024 * 1024
"""Lines up to this cannot hold too many values."""
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""Also one without an end: it must not be looked for again from each of its characters."""
_BRACKET: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
_SHALLOW: Final = 150
"""Levels that are kept of a message that has too many; more than any definition may have."""
_decode: Final[Callable[[bytes | bytearray], Any]] = msgspec.json.Decoder().decode


class TooMuch(Exception):
    """A line or a message that is larger than any of a healthy server."""


class NoMessage(Exception):
    """A line that is no JSON-RPC message."""


class Lines:
    """Whole lines of what was fed; of the last one, which is not whole yet, no more than the limit is held."""

    def __init__(self, limit: int = MAX_LINE, *, skips: bool = False) -> None:
        self.ready: deque[bytes | bytearray] = deque()
        self.skipped = 0
        """Lines left out because they were too long; only with `skips`, which reads on after them."""
        self._limit = limit
        self._skips = skips
        self._skipping = False
        self._open = bytearray()

    def feed(self, block: bytes) -> None:
        """Every byte is looked at once. Raises `TooMuch`, and holds nothing of such a line any more."""
        *whole, rest = block.split(b"\n")
        if whole:
            if self._open or self._skipping:
                self._grow(whole[0])
                if not self._skipping:
                    self.ready.append(self._open)
                self._skipping = False
                self._open = bytearray()
                del whole[0]
            self.ready.extend(whole)
        if rest:
            self._grow(rest)

    def _grow(self, piece: bytes) -> None:
        if self._skipping:
            return
        if len(self._open) + len(piece) > self._limit:
            self._open = bytearray()
            if self._skips:
                self.skipped += 1
                self._skipping = True
                return
            raise TooMuch(f"a line of more than {self._limit // 1024**2} MiB")
        self._open += piece


def message_of(line: bytes | bytearray) -> JSONRPCMessage:
    """The message in a line. Raises `NoMessage`, or `TooMuch` before anything is made of it."""
    if len(line) > _SMALL:
        _count(line)
    try:
        found = _decode(line)
    except RecursionError:
        return _shallow_message(line)
    except ValueError:
        raise NoMessage from None
    if type(found) is not dict:
        raise NoMessage
    return _message(cast("dict[str, Any]", found))


def _shallow_message(line: bytes | bytearray) -> JSONRPCMessage:
    """A list of tools of which one goes too deep to be read, without its depths: it is left out later for what is
    left of them, and the others are not lost. Anything else is no message: nobody may be given half of a result."""
    kept: list[bytes | bytearray] = []
    depth = start = 0
    for found in _BRACKET.finditer(line):
        if found[0] in (b"[", b"{"):
            depth += 1
            if depth == _SHALLOW + 1:
                kept += (line[start : found.start()], b"0")
        elif found[0] in (b"]", b"}"):
            depth -= 1
            if depth == _SHALLOW:
                start = found.end()
    try:
        message = _decode(b"".join((*kept, line[start:])))
    except ValueError:
        raise NoMessage from None
    result = cast("dict[str, Any]", message).get("result") if type(message) is dict else None
    if type(result) is not dict or type(cast("dict[str, Any]", result).get("tools")) is not list:
        raise NoMessage
    return _message(cast("dict[str, Any]", message))


def _message(found: dict[str, Any]) -> JSONRPCMessage:
    """Checked here and not by the models, whose union makes everything in a message up to four times."""
    if found.get("jsonrpc") != "2.0":
        raise NoMessage
    number = found.get("id")
    if "method" in found:
        return _asked(found, number)
    if "result" in found and type(number) in (int, str) and type(found["result"]) is dict:
        return JSONRPCResponse.model_construct(jsonrpc="2.0", id=number, result=found["result"])
    if "error" in found and (number is None or type(number) in (int, str)):
        try:
            error = ErrorData.model_validate(found["error"])
        except ValueError:
            raise NoMessage from None
        return JSONRPCError.model_construct(jsonrpc="2.0", id=number, error=error)
    raise NoMessage


def _asked(found: dict[str, Any], number: Any) -> JSONRPCRequest | JSONRPCNotification:
    method, params = found["method"], found.get("params")
    if type(method) is not str or not (params is None or type(params) is dict):
        raise NoMessage
    if "id" not in found:
        return JSONRPCNotification.model_construct(jsonrpc="2.0", method=method, params=params)
    if type(number) not in (int, str):
        raise NoMessage
    return JSONRPCRequest.model_construct(jsonrpc="2.0", id=number, method=method, params=params)


def _count(line: bytes | bytearray) -> None:
    """Texts are left out only where it matters: finding them takes longer than anything else here."""
    if _marks(line) <= MAX_VALUES:
        return
    if line.count(b'"') > 4 * MAX_VALUES or _marks(_STRING.sub(b"", line)) > MAX_VALUES:
        raise TooMuch(f"a message of more than {MAX_VALUES:,} values")


def _marks(line: bytes | bytearray) -> int:
    """What comes with every value but the first."""
    return line.count(b",") + line.count(b"[") + line.count(b"{")
