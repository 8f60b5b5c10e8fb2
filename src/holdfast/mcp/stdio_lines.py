"""Splits the output of a stdio peer into lines in linear time, and lines into JSON-RPC messages."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable
from math import isfinite
from typing import Any, ClassVar, Final, cast

import msgspec
from mcp_types import ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

MAX_LINE: Final = 16 * 1024 * 1024
MAX_VALUES: Final = 1_000_000
"""Values in one message. `{},` is three bytes on the wire and a hundred in memory."""
_SMALL: Final = 1024 * 1024
"""Lines up to this size cannot hold too many values."""
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""Also matches a string without an end, which must not be searched again from each of its characters."""
_BRACKET: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
_SHALLOW: Final = 150
"""Nesting levels kept of a message that is nested too deeply; more than any definition may have."""
_DIGITS: Final = 4000
_SKIPPED: Final = 16
"""Factor by which a skipped response may exceed the limit. A server that continues is given up."""
_ANSWER: Final = re.compile(
    rb'\s*+\{\s*+(?:"jsonrpc"\s*+:\s*+"2\.0"\s*+,\s*+)?"id"\s*+:\s*+(\d{1,18}|"[\w-]{1,64}")\s*+,\s*+"result"\s*+:'
)
"""The start of a response, as servers write it."""
TOO_LONG: Final = -32010
"""Error code that replaces a response that is too long."""
_REFUSED: Final = b'{"jsonrpc":"2.0","id":%b,"error":{"code":%d,"message":"the answer is %b"}}'
_decode: Final[Callable[[bytes | bytearray], Any]] = msgspec.json.Decoder().decode


class LineTooLong(Exception):
    """A line or message that is larger than any of a healthy server."""


class NotAMessage(Exception):
    """A line that is not a JSON-RPC message."""


class UnreadableItem(dict[str, Any]):
    """A tool in a list that contains invalid JSON: only its name is left."""

    WHY: ClassVar = "it contains a number or text that is not JSON, such as Infinity or a lone surrogate"


class LineSplitter:
    """Yields whole lines of the fed bytes. Of an incomplete line at most the limit is buffered.

    A response that is longer becomes an error with the same id, so that only its request fails.
    """

    def __init__(self, limit: int = MAX_LINE, *, skips: bool = False) -> None:
        self.ready: deque[bytes | bytearray] = deque()
        self.skipped = 0
        """Lines skipped because they were too long; only with `skips`, which continues after them."""
        self._limit = limit
        self._skips = skips
        self._skipping = False
        self._left = 0
        """Remaining bytes of the skipped line that are tolerated."""
        self._open = bytearray()

    def feed(self, block: bytes) -> None:
        """Feed bytes; each is scanned once. Raises `LineTooLong` and drops the line."""
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
            self._left -= len(piece)
            if self._left < 0 and not self._skips:
                raise LineTooLong(f"a line of more than {_SKIPPED * self._limit // 1024**2} MiB")
            return
        if len(self._open) + len(piece) > self._limit:
            answered = None if self._skips else _ANSWER.match(self._open)
            self._open = bytearray()
            told = f"a line of more than {self._limit // 1024**2} MiB"
            if not self._skips and answered is None:
                raise LineTooLong(told)
            if answered is not None:
                self.ready.append(_REFUSED % (answered[1], TOO_LONG, told.encode()))
            self.skipped += 1
            self._skipping = True
            self._left = (_SKIPPED - 1) * self._limit
            return
        self._open += piece


def message_of(line: bytes | bytearray) -> JSONRPCMessage:
    """The message in a line. Raises `NotAMessage`, or `LineTooLong` before anything is built from it."""
    if len(line) > _SMALL:
        _count(line)
    try:
        found = _decode(line)
    except (RecursionError, ValueError):
        return _list_message(line)
    if type(found) is not dict:
        raise NotAMessage
    return _message(cast("dict[str, Any]", found))


def _list_message(line: bytes | bytearray) -> JSONRPCMessage:
    """A list of tools of which some cannot be parsed: nested too deeply, or not JSON (`Infinity`, a lone surrogate,
    invalid UTF-8). They are left out later by name, and the others are kept. Anything else is not a message: a
    partial result must never be delivered."""
    if b'"tools"' not in line:
        raise NotAMessage
    text = _without_depths(line).decode("utf-8", "surrogateescape")
    try:
        found: Any = json.loads(text, strict=False, parse_int=_whole)
        tools: Any = found["result"]["tools"]
    except (ValueError, TypeError, LookupError, RecursionError):
        raise NotAMessage from None
    if type(tools) is not list:
        raise NotAMessage
    found["result"]["tools"] = [tool if is_json(tool) else _unreadable(tool) for tool in cast("list[Any]", tools)]
    if not is_json(found):
        raise NotAMessage
    return _message(found)


def _without_depths(line: bytes | bytearray) -> bytes:
    """The line with a number in place of everything that is nested too deeply."""
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
    return b"".join((*kept, line[start:]))


def _unreadable(tool: Any) -> UnreadableItem:
    name = cast("dict[str, Any]", tool).get("name") if isinstance(tool, dict) else None
    return UnreadableItem(name=str(name or "").encode("utf-8", "replace").decode())


def _whole(text: str) -> float:
    """Parse a float. Python limits the length of integers because of the time parsing takes."""
    return int(text) if len(text) < _DIGITS else float("inf")


def is_json(value: Any) -> bool:
    """Whether a value can be serialised as JSON again, unlike values that a lenient parser accepts."""
    if isinstance(value, UnreadableItem):
        return False
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, float):
            if not isfinite(item):
                return False
        elif isinstance(item, str):
            if not item.isascii() and any("\ud800" <= char <= "\udfff" for char in item):
                return False
        elif isinstance(item, dict):
            fields = cast("dict[str, Any]", item)
            waiting += (*fields, *fields.values())
        elif isinstance(item, list):
            waiting += cast("list[Any]", item)
    return True


def _message(found: dict[str, Any]) -> JSONRPCMessage:
    """Build the message. Validated here and not by the SDK's models, whose union parses everything up to four times."""
    if found.get("jsonrpc") != "2.0":
        raise NotAMessage
    number = found.get("id")
    if "method" in found:
        return _asked(found, number)
    if "result" in found and type(number) in (int, str) and type(found["result"]) is dict:
        return JSONRPCResponse.model_construct(jsonrpc="2.0", id=number, result=found["result"])
    if "error" in found and (number is None or type(number) in (int, str)):
        try:
            error = ErrorData.model_validate(found["error"])
        except ValueError:
            raise NotAMessage from None
        return JSONRPCError.model_construct(jsonrpc="2.0", id=number, error=error)
    raise NotAMessage


def _asked(found: dict[str, Any], number: Any) -> JSONRPCRequest | JSONRPCNotification:
    method, params = found["method"], found.get("params")
    if type(method) is not str or not (params is None or type(params) is dict):
        raise NotAMessage
    if "id" not in found:
        return JSONRPCNotification.model_construct(jsonrpc="2.0", method=method, params=params)
    if type(number) not in (int, str):
        raise NotAMessage
    return JSONRPCRequest.model_construct(jsonrpc="2.0", id=number, method=method, params=params)


def _count(line: bytes | bytearray) -> None:
    """Check the number of values. Strings are excluded only where it matters, because finding them is slow."""
    if _marks(line) <= MAX_VALUES:
        return
    if line.count(b'"') > 4 * MAX_VALUES or _marks(_STRING.sub(b"", line)) > MAX_VALUES:
        raise LineTooLong(f"a message of more than {MAX_VALUES:,} values")


def _marks(line: bytes | bytearray) -> int:
    """The number of separators: one per value except the first."""
    return line.count(b",") + line.count(b"[") + line.count(b"{")
