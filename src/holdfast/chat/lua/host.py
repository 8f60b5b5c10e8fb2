"""The host of a document's Lua: sends requests to a worker process, kills it on a timeout, and restarts it."""

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
    """A value has no exact Lua equivalent; the message says why."""


def to_wire(value: Any) -> Any:
    """Encode text as Latin-1 of its bytes, so that arbitrary bytes survive JSON."""
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
    """Convert integers beyond 64 bits to floats, as Lua's own parser does."""
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
    """Whether Lua can represent the number, at least as a float."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def is_out_of_range(value: object) -> bool:
    """Whether it is an integer beyond Lua's 64 bits."""
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def lossless_args(value: Mapping[str, Any]) -> Table:
    """Arguments for Lua without loss. Raises `NotRepresentable`. A key with null is the same as no key."""
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
    """The worker did not reply in time and was killed."""


class ReplyTooLarge(Exception):
    """The reply exceeded `MAX_FRAME`; the worker was killed."""


class WorkerExited(Exception):
    """The worker exited, or a limit killed it."""


class LuaWorker:
    """A Lua worker process. After any of the exceptions above it is dead."""

    def __init__(self) -> None:
        found = PathFinder.find_spec("lupa", import_order(sys.path))
        if found is None or found.origin is None:
            raise WorkerExited
        folder = Path(found.origin).parent.parent
        self._process = start(
            isolated_module_argv(
                "holdfast.chat.lua.worker", str(folder), str(os.getpid())
            ),  # isolated: of the installed packages only lupa is importable
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
                self._exited()

    def receive(self, deadline: float) -> bytes:
        size = int.from_bytes(self._exactly(4, deadline), "big")
        if size > MAX_FRAME:
            self.kill()
            raise ReplyTooLarge
        return self._exactly(size, deadline)

    def kill(self) -> None:
        """Kill the process and close the pipes. Idempotent."""
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
                self._exited()
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

    def _exited(self) -> None:
        self.kill()
        raise WorkerExited


_POSITION: Final = re.compile(r"^(?:frontmatter|template|expression):([0-9]{1,9}): ")
_MAX_SHOWN: Final = 400
_INCLUDE_REQUEST: Final = b"?"


class LuaLimits(Struct, frozen=True, kw_only=True):
    """Timeouts in seconds. The limits for memory and reply size are fixed."""

    frontmatter: float = 2.0
    call: float = 1.0
    expand: float = 5.0


class LuaError(Exception):
    """Lua code failed; the message is a sentence without the line."""

    def __init__(self, message: str, line: int | None = None, file: str | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.file = file


class _InvalidFrame(Exception):
    """The worker sent an invalid frame and is not used again."""


class Script(Struct, frozen=True, eq=False):
    """The code of a frontmatter, and the option values it starts with."""

    code: str
    options: Table


class LuaHost:
    """Starts the worker on first use. Close the host, or use it as a context manager."""

    def __init__(self, limits: LuaLimits | None = None) -> None:
        self.limits = limits or LuaLimits()
        self._worker: LuaWorker | None = None
        self._loaded: Script | None = None
        self._lock = RLock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            if self._worker is not None:
                self._worker.kill()
            self._worker = self._loaded = None

    @property
    def pid(self) -> int | None:
        return None if self._worker is None else self._worker.pid

    def evaluate(self, script: Script) -> Table:
        """Run a frontmatter; return its log of option edits. Its functions can then be called."""
        with self._lock:
            self._loaded = None
            request = {"do": "frontmatter", "code": script.code, "given": script.options}
            reply = self._exchange(request, self.limits.frontmatter, "The Lua frontmatter")
            self._loaded = script
            return reply

    def call(self, script: Script, function: int, tool: str, args: Mapping[str, Any], ctx: Mapping[str, Any]) -> object:
        """Call a function of a frontmatter, evaluating the frontmatter again if its worker is gone.

        Raises `LuaError` for arguments that have no exact Lua equivalent.
        """
        try:
            seen = lossless_args(args)
        except NotRepresentable as error:
            raise LuaError(f"The function of the frontmatter cannot receive this call: {error}.") from None
        with self._lock:
            self._running()
            if self._loaded is not script:
                self.evaluate(script)
            request = {"do": "call", "id": function, "tool": tool, "args": seen, "ctx": ctx}
            return self._exchange(request, self.limits.call, "The function of the frontmatter").get("answer")

    def expand(self, request: Table, include: Callable[[Table], Table]) -> Table:
        """Expand a template in a fresh Lua state. `include` reads the files that it requests."""
        with self._lock:
            try:
                given = {**request, "do": "expand", "variables": with_lua_numbers(request.get("variables", {}))}
            except RecursionError:
                raise LuaError("The variables of the template are nested too deeply. Flatten them.") from None
            return self._exchange(given, self.limits.expand, "The template", include)

    def _exchange(
        self, request: Table, seconds: float, what: str, answer: Callable[[Table], Table] | None = None
    ) -> Table:
        worker = self._running()
        try:
            reply = _decode_table(self._converse(worker, request, time.monotonic() + seconds, answer))
        except WorkerTimeout:
            problem = f"{what} timed out after {seconds:g} seconds. Make it do less."
        except ReplyTooLarge:
            problem = f"{what} returned too much data. Make it return less."
        except WorkerExited:
            problem = f"{what} exceeded a limit of its process and was killed. Make it do less."
        except (_InvalidFrame, RecursionError):
            problem = f"{what} received or returned data that cannot be encoded. Make it simpler."
        except BaseException:
            self.close()
            raise
        else:
            return _checked_reply(reply, what)
        self.close()
        raise LuaError(problem)

    def _running(self) -> LuaWorker:
        """The worker; a new one if it has exited since the last request."""
        if self._worker is not None and not self._worker.is_alive:
            self.close()
        if self._worker is None:
            try:
                self._worker = LuaWorker()
            except (OSError, WorkerExited, WorkerTimeout, ReplyTooLarge):
                raise LuaError("Cannot start the Lua process. Try again.") from None
        return self._worker

    @staticmethod
    def _converse(worker: LuaWorker, request: Table, deadline: float, answer: Callable[[Table], Table] | None) -> bytes:
        worker.send(msgspec.json.encode(to_wire(request)), deadline)
        while True:
            frame = worker.receive(deadline)
            if frame[:1] != _INCLUDE_REQUEST:
                return frame[1:]
            question = _decode_table(frame[1:])
            given = answer(question) if answer is not None else {"error": "files cannot be included here"}
            worker.send(msgspec.json.encode(to_wire(given)), deadline)


def _decode_table(body: bytes) -> Table:
    try:
        found = from_wire(msgspec.json.decode(body))
    except msgspec.DecodeError:
        raise _InvalidFrame from None
    if not isinstance(found, dict):
        raise _InvalidFrame
    return cast(Table, found)


def _checked_reply(reply: Table, what: str) -> Table:
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
        message = f"{what} exceeds its memory limit. Make it do less."
    file = reply.get("file")
    raise LuaError(message, line if isinstance(line, int) else None, file if isinstance(file, str) else None)
