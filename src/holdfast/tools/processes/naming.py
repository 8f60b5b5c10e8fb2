"""What the process tools share: how a process is named, described and typed."""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

from holdfast.contract.errors import CallError
from holdfast.contract.processes import ProcessInfo
from holdfast.contract.values import Args
from holdfast.text.preview import with_label
from holdfast.tools.schemas import optional

PID: Final = optional("integer", "Process ID, as process.start gave it.")
ID: Final = optional("string", "The id process.start gave, instead of the pid.")
PROCESS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "pid": {"type": "integer"},
        "state": {"enum": ["running", "exited", "lost"]},
        "command": {"type": "string"},
        "cwd": {"type": "string"},
        "label": {"type": ["string", "null"]},
        "detached": {"type": "boolean"},
        "contained": {"type": "boolean"},
        "started": {"type": "number"},
        "ended": {"type": ["number", "null"]},
        "exit_code": {"type": ["integer", "null"]},
        "signal": {"type": ["string", "null"]},
    },
    "required": ["id", "pid", "state", "command", "cwd", "detached", "contained", "started", "exit_code", "signal"],
    "additionalProperties": False,
}


def name_of(args: Args) -> str | int:
    """The id or the pid that was given; `CallError` for neither or both."""
    pid, identifier = args.get("pid"), args.get("id")
    if (pid is None) == (identifier is None):
        raise CallError("Name one process, by its pid or by its id; process.list shows them.")
    return cast("str | int", identifier if pid is None else pid)


def plain(info: ProcessInfo) -> Args:
    return cast(Args, msgspec.to_builtins(info))


def describe(info: ProcessInfo) -> str:
    """`1234 (abcd) running: npm run dev`."""
    return f"{info.pid} ({info.id}) {_state(info)}: {info.command}"


def _state(info: ProcessInfo) -> str:
    if info.state == "lost":
        return "lost, since the runtime that started it has ended"
    if info.state == "exited":
        return f"ended by {info.signal}" if info.exit_code is None else f"exited with code {info.exit_code}"
    return "running, detached" if info.detached else "running"


def preview(args: Args, width: int) -> str:
    name = args.get("id") if args.get("pid") is None else args.get("pid")
    return with_label("" if name is None else str(name), args)
