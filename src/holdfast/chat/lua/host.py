"""The host of a document's Lua: asks the child, ends what takes too long, and begins again with a new child."""

from __future__ import annotations

import contextlib
import math
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from threading import RLock
from typing import Any, Final, Self, cast

import msgspec
from msgspec import Struct

from holdfast.helper_process import start
from holdfast.import_path import import_order
from holdfast.sandbox.launch import isolated_module_argv
from holdfast.text.escape import escape

Table = dict[str, Any]


class NotRepresentable(Exception):
    """What a value holds that Lua has no equal of."""


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


def with_lua_numbers(value: Any) -> Any:
    """Whole numbers beyond what Lua has become floats, as Lua's own reader would make them."""
    if is_out_of_range(value):
        try:
            return float(value)
        except OverflowError:
            return None
    if isinstance(value, Mapping):
        return {key: with_lua_numbers(item) for key, item in cast(Mapping[str, Any], value).items()}
    if isinstance(value, list | tuple):
        return [with_lua_numbers(item) for item in cast("list[Any]", value)]
    return value


def is_lua_number(value: float) -> bool:
    """Whether Lua has a number like it."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def is_out_of_range(value: object) -> bool:
    """Whether it is a whole number larger than those of Lua."""
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def lossless_args(value: Mapping[str, Any]) -> Table:
    """The value as Lua sees it, with nothing lost; null as the value of a key is a key that is not there."""
    try:
        return {_exact(key): _exact(item) for key, item in value.items()}
    except RecursionError:
        raise NotRepresentable("its arguments are nested too deeply") from None


def _exact(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_exact(key): _exact(item) for key, item in cast(Mapping[str, Any], value).items()}
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        if any(item is None for item in items):
            raise NotRepresentable("a list in its arguments holds null, where Lua would see the list end")
        return [_exact(item) for item in items]
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise NotRepresentable("its arguments hold text that is not UTF-8") from None
        return value
    if is_out_of_range(value):
        made = with_lua_numbers(value)
        if made is None or int(made) != value:
            raise NotRepresentable("its arguments hold a whole number that is too large for Lua")
        return made
    if isinstance(value, float) and not math.isfinite(value):
        raise NotRepresentable("its arguments hold a number that is not finite")
    return value


MAX_FRAME: Final = 16 << 20
START_SECONDS: Final = 30.0
_BLOCK: Final = 1 << 18


class WorkerTimeout(Exception):
    """It did not answer in time and was killed."""


class ReplyTooLarge(Exception):
    """Its answer was larger than any answer may be; it was killed."""


class WorkerExited(Exception):
    """It ended by itself, or was ended by a limit."""


class LuaWorker:
    """A Lua process. After any of the exceptions above it is gone."""

    def __init__(self) -> None:
        found = PathFinder.find_spec("lupa", import_order(sys.path))
        if found is None or found.origin is None:
            raise WorkerExited
        folder = Path(found.origin).parent.parent
        self._process = start(
            isolated_module_argv(
                "holdfast.chat.lua.worker", str(folder), str(os.getpid())
            ),  # of what is installed only lupa
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        for fd in (self._in, self._out):
            os.set_blocking(fd, False)
        self._received = bytearray()
        try:
            self.receive(time.monotonic() + START_SECONDS)
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def send(self, body: bytes, deadline: float) -> None:
        view = memoryview(len(body).to_bytes(4, "big") + body)
        while view:
            self._wait(self._in, select.POLLOUT, deadline)
            try:
                view = view[os.write(self._in, view[:_BLOCK]) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                self._lost()

    def receive(self, deadline: float) -> bytes:
        size = int.from_bytes(self._exactly(4, deadline), "big")
        if size > MAX_FRAME:
            self.kill()
            raise ReplyTooLarge
        return self._exactly(size, deadline)

    def kill(self) -> None:
        """End it and clear up; again is harmless."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._process.wait()

    def _exactly(self, size: int, deadline: float) -> bytes:
        while len(self._received) < size:
            self._wait(self._out, select.POLLIN, deadline)
            try:
                block = os.read(self._out, _BLOCK)
            except BlockingIOError:
                continue
            if not block:
                self._lost()
            self._received += block
        found = bytes(self._received[:size])
        del self._received[:size]
        return found

    def _wait(self, fd: int, event: int, deadline: float) -> None:
        left = deadline - time.monotonic()
        poll = select.poll()
        poll.register(fd, event)
        if left <= 0 or not poll.poll(left * 1000):
            self.kill()
            raise WorkerTimeout

    def _lost(self) -> None:
        self.kill()
        raise WorkerExited


_POSITION: Final = re.compile(r"^(?:frontmatter|template|expression):([0-9]{1,9}): ")
_MAX_SHOWN: Final = 400
_ASK: Final = b"?"


class LuaLimits(Struct, frozen=True, kw_only=True):
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
    options: Table


class LuaHost:
    """The child is started when it is first needed. Close the host, or use it as a context manager."""

    def __init__(self, limits: LuaLimits | None = None) -> None:
        self.limits = limits or LuaLimits()
        self._child: LuaWorker | None = None
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
            request = {"do": "frontmatter", "code": script.code, "given": script.options}
            reply = self._exchange(request, self.limits.frontmatter, "The Lua frontmatter")
            self._loaded = script
            return reply

    def call(self, script: Script, function: int, tool: str, args: Mapping[str, Any], ctx: Mapping[str, Any]) -> object:
        """The answer of a function of a frontmatter, which is run again first if its child is gone.

        It is asked only about arguments that it can see just as they are; `LuaError` for all others.
        """
        try:
            seen = lossless_args(args)
        except NotRepresentable as error:
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
                given = {**request, "do": "expand", "variables": with_lua_numbers(request.get("variables", {}))}
            except RecursionError:
                raise LuaError("The variables of the template are nested too deeply; flatten them.") from None
            return self._exchange(given, self.limits.expand, "The template", include)

    def _exchange(
        self, request: Table, seconds: float, what: str, answer: Callable[[Table], Table] | None = None
    ) -> Table:
        child = self._running()
        try:
            reply = _table(self._converse(child, request, time.monotonic() + seconds, answer))
        except WorkerTimeout:
            problem = f"{what} did not end within {seconds:g} seconds and was stopped; make it do less."
        except ReplyTooLarge:
            problem = f"{what} gives more data than is accepted; make it give less."
        except WorkerExited:
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

    def _running(self) -> LuaWorker:
        """The child; a new one, which knows nothing yet, if it has ended since it was last asked."""
        if self._child is not None and not self._child.is_alive:
            self.close()
        if self._child is None:
            try:
                self._child = LuaWorker()
            except (OSError, WorkerExited, WorkerTimeout, ReplyTooLarge):
                raise LuaError("Lua cannot be started here: the process for it does not come up; try again.") from None
        return self._child

    @staticmethod
    def _converse(child: LuaWorker, request: Table, deadline: float, answer: Callable[[Table], Table] | None) -> bytes:
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
    shown = escape(_POSITION.sub("", text))
    shown = shown if len(shown) <= _MAX_SHOWN else f"{shown[:_MAX_SHOWN]}…"
    message = f"{what} failed: {shown.removesuffix('.')}."
    if "not enough memory" in shown:
        message = f"{what} uses more memory than it may; make it do less."
    file = reply.get("file")
    raise LuaError(message, line if isinstance(line, int) else None, file if isinstance(file, str) else None)
