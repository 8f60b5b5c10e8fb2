"""The child process of a tool that runs in a process: one request on stdin, one reply on stdout."""

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
    sys.path[:] = request["path"]
    if request["module"].endswith(".py"):
        names = runpy.run_path(request["module"], run_name="__holdfast_child__")
        head, *rest = request["name"].split(".")
        found = reduce(getattr, rest, names[head])
    else:
        found = reduce(getattr, request["name"].split("."), importlib.import_module(request["module"]))
    function: Any = found
    value = function.execute(request["args"], None) if isinstance(found, Tool) else function(request["args"])
    return asyncio.run(_finish(value)) if inspect.isawaitable(value) else value


async def _finish(value: Any) -> Any:
    return await value


if __name__ == "__main__":
    main()
