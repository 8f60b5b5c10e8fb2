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
from holdfast.chat.lua.values import NotTheSame, as_it_is, from_wire, in_lua, to_wire
from holdfast.text.visible import visible

Table = dict[str, Any]
_POSITION: Final = re.compile(r"^(?:frontmatter|template|expression):([0-9]{1,9}): ")
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


class _Unreadable(Exception):
    """The child wrote what is no message; it is not asked again."""


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
        """The answer of a function of a frontmatter, which is run again first if its child is gone.

        It is asked only about arguments that it can see just as they are; `LuaError` for all others.
        """
        try:
            seen = as_it_is(args)
        except NotTheSame as error:
            raise LuaError(f"The function of the frontmatter cannot be shown this call: {error}.") from None
        with self._lock:
            self._running()
            if self._loaded is not script:
                self.evaluate(script)
            request = {"do": "call", "id": function, "tool": tool, "args": seen, "ctx": ctx}
            return self._exchange(request, self.limits.call, "The function of the frontmatter").get("answer")

    def expand(self, request: Table, include: Callable[[Table], Table]) -> Table:
        """Run a template in a state of its own. `include` reads the files it asks for."""
        with self._lock:
            try:
                given = {**request, "do": "expand", "variables": in_lua(request.get("variables", {}))}
            except RecursionError:
                raise LuaError("The variables of the template are nested too deeply; flatten them.") from None
            return self._exchange(given, self.limits.expand, "The template", include)

    def _exchange(
        self, request: Table, seconds: float, what: str, answer: Callable[[Table], Table] | None = None
    ) -> Table:
        child = self._running()
        try:
            reply = _table(self._converse(child, request, time.monotonic() + seconds, answer))
        except ChildTooSlow:
            problem = f"{what} did not end within {seconds:g} seconds and was stopped; make it do less."
        except ChildTooLoud:
            problem = f"{what} gives more data than is accepted; make it give less."
        except ChildLost:
            problem = f"{what} ended the process it ran in, by using up what it may use; make it do less."
        except (_Unreadable, RecursionError):
            problem = f"{what} gave or was given what cannot be passed on; make it simpler."
        except BaseException:
            self.close()
            raise
        else:
            return _succeeded(reply, what)
        self.close()
        raise LuaError(problem)

    def _running(self) -> Child:
        """The child; a new one, which knows nothing yet, if it has ended since it was last asked."""
        if self._child is not None and not self._child.is_alive:
            self.close()
        if self._child is None:
            try:
                self._child = Child()
            except (OSError, ChildLost, ChildTooSlow, ChildTooLoud):
                raise LuaError("Lua cannot be started here: the process for it does not come up; try again.") from None
        return self._child

    @staticmethod
    def _converse(
        child: Child, request: Table, deadline: float, answer: Callable[[Table], Table] | None
    ) -> bytes:
        child.send(msgspec.json.encode(to_wire(request)), deadline)
        while True:
            frame = child.receive(deadline)
            if frame[:1] != _ASK:
                return frame[1:]
            question = _table(frame[1:])
            given = answer(question) if answer is not None else {"error": "nothing can be included here"}
            child.send(msgspec.json.encode(to_wire(given)), deadline)


def _table(body: bytes) -> Table:
    try:
        found = from_wire(msgspec.json.decode(body))
    except msgspec.DecodeError:
        raise _Unreadable from None
    if not isinstance(found, dict):
        raise _Unreadable
    return cast(Table, found)


def _succeeded(reply: Table, what: str) -> Table:
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
