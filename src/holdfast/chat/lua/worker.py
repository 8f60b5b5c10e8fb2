"""The worker process for a document's Lua. Standard library and lupa only; it drops all privileges before it starts.

Frames on both pipes: four bytes of length, then JSON whose strings are bytes as Latin-1.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MEMORY = 64 << 20
ADDRESS_SPACE = 1 << 30
_CPU_SECONDS = 10
_PR_SET_PDEATHSIG = 1
_SOURCES = ("environment", "options", "templates")


class Interpreter:
    """One Lua state for the frontmatter and its functions, and a fresh one for every expanded text."""

    def __init__(self, lua: Any) -> None:
        self._lua = lua
        self._sources = {name: Path(__file__).with_name(f"{name}.lua").read_text("latin-1") for name in _SOURCES}
        self._state: Any = None
        self._document: Any = None

    def handle(self, request: dict[str, Any]) -> str:
        action = request.pop("do")
        try:
            if action == "frontmatter":
                self._state, self._document = self._new()
                return self._document.frontmatter(request["code"], self._table(self._state, request["given"]))
            if action == "call" and self._document is not None:
                args, ctx = (self._table(self._state, request[name]) for name in ("args", "ctx"))
                return self._document.call(request["id"], request["tool"], args, ctx)
            if action == "expand":
                state, document = self._new()
                return document.expand(self._table(state, request))
        except MemoryError:  # includes lupa's LuaMemoryError
            return '{"ok":false,"error":"not enough memory"}'
        except Exception as error:
            return json.dumps({"ok": False, "error": f"{type(error).__name__}: {error}"[:500]})
        return '{"ok":false,"error":"there is nothing to call"}'

    def _new(self) -> tuple[Any, Any]:
        state = self._lua.LuaRuntime(
            max_memory=MEMORY,
            encoding="latin-1",
            source_encoding="latin-1",
            unpack_returned_tuples=False,
            register_eval=False,
            register_builtins=False,
            attribute_filter=_refuse,
        )

        def ask(question: str) -> Any:
            write(b"?" + question.encode("ascii"))
            return self._table(state, json.loads(read()))

        def run(name: str, *args: Any) -> Any:
            return state.execute(self._sources[name], *args, name=f"={name}", mode="t")

        core = run("environment")
        document = run("options", core)
        run("templates", core, document, ask)
        return state, document

    @staticmethod
    def _table(state: Any, value: dict[str, Any]) -> Any:
        return state.table_from(value, recursive=True)


def _refuse(owner: object, name: str, setting: bool) -> str:
    raise AttributeError("access denied")


def read() -> bytes:
    size = int.from_bytes(_exactly(4), "big")
    return _exactly(size)


def _exactly(size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        block = os.read(0, min(size - len(found), 1 << 20))
        if not block:
            os._exit(0)  # the parent has exited
        found += block
    return bytes(found)


def write(body: bytes) -> None:
    view = memoryview(len(body).to_bytes(4, "big") + body)
    while view:
        view = view[os.write(1, view) :]


def drop_privileges() -> None:
    time.localtime()  # loads the time zone while files can still be opened
    limits = {"AS": ADDRESS_SPACE, "FSIZE": 0, "CORE": 0, "NPROC": 0, "NOFILE": 3}
    try:
        from holdfast.privileges import apply_landlock

        apply_landlock((), net=True)
    except (OSError, ImportError, AttributeError):
        pass  # without Landlock the other limits still hold, and Lua has no function that opens files
    for name, value in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is not None:
            resource.setrlimit(kind, (value, value))


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process with its parent: an endless loop does not notice closed pipes."""
    import ctypes

    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # the parent died before prctl took effect
        os._exit(0)


def limit_cpu_time(seconds: int = _CPU_SECONDS) -> None:
    """Allow this much more CPU time, so that an endless loop ends even without a parent."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + seconds, resource.RLIM_INFINITY))


def main(lupa_folder: str, parent: str) -> None:
    die_with_parent(int(parent))
    sys.path.append(lupa_folder)
    from lupa import lua54

    interpreter = Interpreter(lua54)
    drop_privileges()
    write(b"!")  # ready
    while True:
        request = json.loads(read())
        limit_cpu_time()
        write(b"=" + interpreter.handle(request).encode("ascii"))
