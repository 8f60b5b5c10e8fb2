"""The child process of a tool that runs in a process: one request on stdin, one reply on stdout.

It is isolated until everything of ours is imported. Only then does it enter the project and learn where the tool is.
"""

from __future__ import annotations

import asyncio
import ctypes
import importlib
import inspect
import os
import runpy
import signal
import sys
from functools import reduce
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Any

from holdfast.contract.tool import Tool
from holdfast.contract.values import encode_json, parse_json

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    reply_to = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the function prints must not be taken for the reply
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    request: Any = parse_json(sys.stdin.buffer.readline())
    try:
        reply = {"value": _call(request)}
        encoded = encode_json(reply)
    except BaseException as error:
        encoded = encode_json({"error": str(error) or type(error).__name__})
    reply_to.write(encoded + b"\n")
    reply_to.flush()
    os._exit(0)


def _call(request: Any) -> Any:
    os.chdir(request["cwd"])
    sys.path += [entry for entry in request["path"] if entry not in sys.path]
    _take(request["module"].partition(".")[0], request["folder"])
    if request["module"].endswith(".py"):
        names = runpy.run_path(request["module"], run_name="__holdfast_child__")
        head, *rest = request["name"].split(".")
        found = reduce(getattr, rest, names[head])
    else:
        found = reduce(getattr, request["name"].split("."), importlib.import_module(request["module"]))
    function: Any = found
    value = function.execute(request["args"], None) if isinstance(found, Tool) else function(request["args"])
    return asyncio.run(_finish(value)) if inspect.isawaitable(value) else value


def _take(package: str, folder: str | None) -> None:
    """Import the tool's topmost package from where the parent has it, whatever else has that name."""
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
