"""Tools that run in a child process (`runs="process"`), which can be killed with all its descendants."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import importlib
import inspect
import json
import os
import runpy
import signal
import sys
import traceback
from functools import reduce
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any, cast

import msgspec

from holdfast.contract.errors import OutcomeUnknown, ToolError
from holdfast.contract.json import Args, encode_json, parse_json
from holdfast.contract.result import Result
from holdfast.contract.tool import Tool
from holdfast.helper_process import holdfast_module, start_async
from holdfast.import_path import import_order
from holdfast.runtime.cancellation import RelayedError
from holdfast.runtime.results import exception_text, to_json

_MAX_REPLY = 64 * 1024 * 1024


def reference_of(tool: Tool) -> tuple[str, str]:
    """Return where a child process finds the tool's function: a module or a file, and a name in it."""
    function: Any = tool.execute
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "<lambda>")
    if "<" in name or not module:
        raise ToolError(
            f"Tool '{tool.name}' runs in a process of its own, so its function must be defined at the top of a module."
        )
    if module == "__main__":
        file = getattr(sys.modules["__main__"], "__file__", None)
        if file is None:
            raise ToolError(f"Tool '{tool.name}' runs in a process of its own, so it must be defined in a file.")
        return str(Path(file).resolve()), name
    return module, name


def _folder_of(module: str) -> str | None:
    """Return the folder from which this process imported the module's top-level package.

    The child must import the same one: its `sys.path` has another order, and the name may exist in several folders.
    """
    found = getattr(sys.modules.get(module.partition(".")[0]), "__spec__", None)
    if found is None or found.origin is None or not found.has_location:
        return None
    file = Path(found.origin)
    return os.path.abspath(file.parent.parent if found.submodule_search_locations else file.parent)  # noqa: PTH100


async def run_in_process(tool: Tool, args: Args, cwd: Path) -> Any:
    """Run the function in a child process. Cancelling the coroutine kills the child and its descendants."""
    module, name = reference_of(tool)
    folder = _folder_of(module)
    path = import_order([*sys.path, *(() if folder is None else (folder,))])
    request = encode_json(
        {"module": module, "name": name, "folder": folder, "args": args, "path": path, "cwd": str(cwd)}
    )
    child = await start_async(
        holdfast_module("holdfast.runtime.tool_process"),
        env=os.environ,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
        limit=_MAX_REPLY,
    )
    try:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(request + b"\n")
        with contextlib.suppress(ConnectionError):
            await child.stdin.drain()
            child.stdin.close()
        reply = await child.stdout.readline()
    finally:
        kill_tree(child.pid)
        code = await asyncio.shield(child.wait())
    if not reply:
        raise OutcomeUnknown(f"The process of tool '{tool.name}' ended with code {code} and no result.")
    answer = cast(dict[str, Any], json.loads(reply))
    if "error" in answer:
        raised = RelayedError(str(answer["error"]))
        raised.add_note(str(answer.get("traceback")))
        raise raised
    return msgspec.convert(answer["result"], Result) if "result" in answer else answer.get("value")


def kill_tree(pid: int) -> None:
    """Kill a process and every descendant, including daemons and processes in other sessions.

    The child is a subreaper, so double-forked processes are still below it. All are stopped before any is killed: a
    stopped process cannot fork, so none escapes between listing and killing.
    """
    found: list[int] = []
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGSTOP)
    while fresh := [item for item in _descendants(pid) if item not in found]:
        for item in fresh:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(item, signal.SIGSTOP)
        found += fresh
    for item in (*found, pid):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(item, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            stat = entry.joinpath("stat").read_text(errors="replace")
            parents[int(entry.name)] = int(stat[stat.rindex(")") + 2 :].split()[1])
    below: list[int] = []
    level = [pid]
    while level:
        level = [child for child, parent in parents.items() if parent in level]
        below += level
    return below


_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    reply_to = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of the function must not mix with the reply
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    request: Any = parse_json(sys.stdin.buffer.readline())
    try:
        value = _call(request)
        reply = {"result": msgspec.to_builtins(value)} if isinstance(value, Result) else {"value": to_json(value)}
        encoded = json.dumps(reply)  # unlike msgspec it encodes NaN and lone surrogates; `to_result` replaces them
    except BaseException as error:
        lines = traceback.format_exception(error)
        encoded = json.dumps({"error": exception_text(error), "traceback": "".join(lines)})
    reply_to.write(encoded.encode() + b"\n")
    reply_to.flush()
    os._exit(0)


def _call(request: Any) -> Any:
    os.chdir(request["cwd"])
    sys.path += [entry for entry in request["path"] if entry not in sys.path]
    _import_from(request["module"].partition(".")[0], request["folder"])
    if request["module"].endswith(".py"):
        names = runpy.run_path(request["module"], run_name="__holdfast_child__")
        head, *rest = request["name"].split(".")
        found = reduce(getattr, rest, names[head])
    else:
        found = reduce(getattr, request["name"].split("."), importlib.import_module(request["module"]))
    function: Any = found
    value = function.execute(request["args"], None) if isinstance(found, Tool) else function(request["args"])
    return asyncio.run(_finish(value)) if inspect.isawaitable(value) else value


def _import_from(package: str, folder: str | None) -> None:
    """Import the tool's top-level package from the folder the parent imported it from."""
    if folder is None or package in sys.modules:
        return
    spec = PathFinder.find_spec(package, [folder])
    if spec is not None and spec.loader is not None:
        sys.modules[package] = module = module_from_spec(spec)
        spec.loader.exec_module(module)


async def _finish(value: Any) -> Any:
    return await value


if __name__ == "__main__":
    main()
