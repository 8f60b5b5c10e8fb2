"""Tools and approval requests for the tests of the approval chain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.contract.call import Caller
from holdfast.contract.enums import AUTO_APPROVED_IF_SANDBOXED, RUNS_COMMANDS, Effect, Risk
from holdfast.contract.json import Args
from holdfast.contract.tool import Reach, Tool
from holdfast.rules.chain import ApprovalRequest

ROOT = Path("/srv/project")


def _execute(args: Args) -> str:
    return "ok"


def tool(name: str = "file.read", **fields: Any) -> Tool:
    effects = fields.pop("effects", None)
    return Tool(name=name, execute=_execute, effects=None if effects is None else frozenset(effects), **fields)


def touches_path(args: Args) -> list[str]:
    path = args.get("path")
    return [path] if isinstance(path, str) else []


READ = tool("file.read", aliases=("read", "read_file"), effects={"fs.read"}, risk=Risk.LOW, touches=touches_path,
            presets=("$readonly",), source="builtin")  # fmt: skip
WRITE = tool("file.write", aliases=("write",), effects={"fs.write"}, touches=touches_path, groups=("fs",),
             presets=("$default",), source="builtin")  # fmt: skip
EDIT = tool("file.edit", aliases=("edit",), effects={"fs.read", "fs.write"}, touches=touches_path,
            presets=("$default",), source="builtin")  # fmt: skip
SHELL = tool("shell.exec", aliases=("bash",), effects={"process"}, risk=Risk.HIGH, source="builtin",
             groups=("runtime",), capabilities=frozenset({AUTO_APPROVED_IF_SANDBOXED, RUNS_COMMANDS}))  # fmt: skip
CALCULATOR = tool("calculator", effects=(), risk=Risk.LOW, source="builtin")
UNKNOWN = tool("acme.thing")
FETCH = tool("web.fetch", effects={"network"}, source="builtin")


def reaches_host(args: Args) -> Reach:
    return Reach((str(args["host"]),), sends=args.get("method", "GET") != "GET")


REQUEST = tool("net.request", effects={"network"}, reaches=reaches_host, source="builtin")
"""Contacts the host in its arguments, and sends with any method but GET."""


HOST_EFFECTS: list[tuple[tuple[Effect, ...] | None, bool]] = [
    (("network",), True),
    (("network", "external", "fs.read", "person"), True),
    (("network", "fs.write"), False),
    (("network", "process"), False),
    (("network", "secrets"), False),
    (None, False),
]
"""Declared effects, and whether the host that a tool only reads from is a reason to approve it."""


def approval_request(about: Tool = READ, args: Args | None = None, **fields: Any) -> ApprovalRequest:
    given = args or {}
    touched = about.touches(given) if about.touches is not None else ()
    values: dict[str, Any] = {
        "tool": about,
        "args": given,
        "call_id": "call-1",
        "name_used": about.name,
        "cwd": str(ROOT),
        "caller": Caller(),
        "risk": about.risk,
        "paths": tuple(ROOT / path for path in touched),
        "root": ROOT,
        "session": "session-1",
    }
    return ApprovalRequest(**(values | fields))
