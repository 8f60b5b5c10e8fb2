"""The host of a document's Lua: asks the child, ends what takes too long, and begins again with a new child."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from threading import RLock
from typing import Any, Final, Self, cast

import msgspec
from msgspec import Struct

from holdfast.chat.lua.process import Child, ChildLost, ChildTooLoud, ChildTooSlow
from holdfast.text.visible import visible

Table = dict[str, Any]
_POSITION: Final = re.compile(r"^(?:frontmatter|template|expression):(\d+): ")
_MAX_SHOWN: Final = 400
_ASK: Final = b"?"


class Limits(Struct, frozen=True, kw_only=True):
    """Seconds; Lua's memory and the size of answers are fixed."""

    frontmatter: float = 2.0
    call: float = 1.0
    expand: float = 5.0


class LuaError(Exception):
    """Lua code failed; the message is a sentence, without the line."""

    def __init__(self, message: str, line: int | None = None, file: str | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.file = file


class Script(Struct, frozen=True, eq=False):
    """A frontmatter as it was evaluated: code, and the values its options had before."""

    code: str
    given: Table


class LuaHost:
    """The child is started when it is first needed. Close the host, or use it as a context manager."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._child: Child | None = None
        self._loaded: Script | None = None
        self._lock = RLock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            if self._child is not None:
                self._child.kill()
            self._child = self._loaded = None

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.pid

    def evaluate(self, script: Script) -> Table:
        """Run a frontmatter: the record of its options, and what it returned. Its functions can then be called."""
        with self._lock:
            self._loaded = None
            request = {"do": "frontmatter", "code": script.code, "given": script.given}
            reply = self._exchange(request, self.limits.frontmatter, "The Lua frontmatter")
            self._loaded = script
            return reply

    def call(self, script: Script, function: int, tool: str, args: Mapping[str, Any], ctx: Mapping[str, Any]) -> object:
        """The answer of a function of a frontmatter, which is run again first if its child is gone."""
        with self._lock:
            if self._child is None or self._loaded is not script:
                self.evaluate(script)
            request = {"do": "call", "id": function, "tool": tool, "args": _numbers(args), "ctx": ctx}
            return self._exchange(request, self.limits.call, "The function of the frontmatter").get("answer")

    def expand(self, request: Table, include: Callable[[Table], Table]) -> Table:
        """Run a template in a state of its own. `include` reads the files it asks for."""
        with self._lock:
            return self._exchange({**request, "do": "expand"}, self.limits.expand, "The template", include)

    def _exchange(
        self, request: Table, seconds: float, what: str, answer: Callable[[Table], Table] | None = None
    ) -> Table:
        if self._child is None:
            try:
                self._child = Child()
            except (OSError, ChildLost, ChildTooSlow, ChildTooLoud):
                raise LuaError("Lua cannot be started here: the process for it does not come up; try again.") from None
        try:
            body = self._converse(self._child, request, time.monotonic() + seconds, answer)
        except ChildTooSlow:
            problem = f"{what} did not end within {seconds:g} seconds and was stopped; make it do less."
        except ChildTooLoud:
            problem = f"{what} gives more data than is accepted; make it give less."
        except ChildLost:
            problem = f"{what} ended the process it ran in, by using up what it may use; make it do less."
        except BaseException:
            self.close()
            raise
        else:
            return _read(body, what)
        self._child = self._loaded = None
        raise LuaError(problem)

    @staticmethod
    def _converse(
        child: Child, request: Table, deadline: float, answer: Callable[[Table], Table] | None
    ) -> bytes:
        child.send(msgspec.json.encode(to_wire(request)), deadline)
        while True:
            frame = child.receive(deadline)
            if frame[:1] != _ASK:
                return frame[1:]
            try:
                question: object = from_wire(msgspec.json.decode(frame[1:]))
            except msgspec.DecodeError:
                question = None
            known = answer is not None and isinstance(question, dict)
            given = answer(cast(Table, question)) if answer and known else {"error": "nothing can be included here"}
            child.send(msgspec.json.encode(to_wire(given)), deadline)


def _read(body: bytes, what: str) -> Table:
    try:
        reply = cast(Table, from_wire(msgspec.json.decode(body)))
    except (msgspec.DecodeError, RecursionError):
        raise LuaError(f"{what} gave an answer that cannot be read; make it simpler.") from None
    if reply.get("ok") is True:
        return reply
    text, line = str(reply.get("error", "")), reply.get("line")
    position = _POSITION.match(text)
    if line is None and position is not None:
        line = int(position[1])
    shown = visible(_POSITION.sub("", text))
    shown = shown if len(shown) <= _MAX_SHOWN else f"{shown[:_MAX_SHOWN]}…"
    message = f"{what} failed: {shown.removesuffix('.')}."
    if "not enough memory" in shown:
        message = f"{what} uses more memory than it may; make it do less."
    file = reply.get("file")
    raise LuaError(message, line if isinstance(line, int) else None, file if isinstance(file, str) else None)


def to_wire(value: Any) -> Any:
    """Text as its bytes, one letter for each, so that any bytes of a document get through."""
    if isinstance(value, str):
        try:
            return value.encode("utf-8", "surrogateescape").decode("latin-1")
        except UnicodeEncodeError:
            return value.encode("utf-8", "replace").decode("latin-1")
    if isinstance(value, Mapping):
        return {to_wire(key): to_wire(item) for key, item in cast(Mapping[str, Any], value).items()}
    if isinstance(value, list | tuple):
        return [to_wire(item) for item in cast("list[Any]", value)]
    return value


def from_wire(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("latin-1", "replace").decode("utf-8", "surrogateescape")
    if isinstance(value, dict):
        return {from_wire(key): from_wire(item) for key, item in cast(Table, value).items()}
    if isinstance(value, list):
        return [from_wire(item) for item in cast("list[Any]", value)]
    return value


def _numbers(value: Any) -> Any:
    """Whole numbers beyond what Lua has become floats, as Lua's own reader would make them."""
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        return float(value) if abs(value) < 10**300 else None
    if isinstance(value, Mapping):
        return {key: _numbers(item) for key, item in cast(Mapping[str, Any], value).items()}
    if isinstance(value, list | tuple):
        return [_numbers(item) for item in cast("list[Any]", value)]
    return value
