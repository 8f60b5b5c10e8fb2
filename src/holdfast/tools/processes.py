"""`process.*`: background processes, which outlive the call that started them. Only those holdfast started are
accessible."""

from __future__ import annotations

from pathlib import Path
from shlex import join
from typing import Final, cast

import msgspec
from msgspec.structs import replace

from holdfast.contract.call import Precondition, Proposal, RunConditions
from holdfast.contract.command import Command, CommandPreview
from holdfast.contract.context import Context
from holdfast.contract.enums import RUNS_COMMANDS, Risk
from holdfast.contract.errors import HoldfastError, SandboxRefused
from holdfast.contract.json import Args, Json
from holdfast.contract.processes import Processes, ProcessInfo, ProcessOutput, Signal
from holdfast.contract.result import Result, fail, ok
from holdfast.text.preview import with_label
from holdfast.text.truncate import format_size
from holdfast.tools import shell
from holdfast.tools.output_read import Page, first_page
from holdfast.tools.schemas import (
    BOOLEAN,
    INTEGER,
    INTEGER_OR_NULL,
    LABEL,
    STRING,
    STRING_OR_NULL,
    array,
    builtin_tool,
    nullable,
    read_only_tool,
    strict_object,
    text,
)

PID: Final = {
    "type": ["integer", "string"],
    "description": "The pid or id that process.start returned.",
}
ARGUMENT_ALIASES: Final = {"id": "pid"}
STATE: Final = {"enum": ["running", "exited", "lost"]}
PROCESS: Final = {
    **strict_object(
        id=STRING,
        pid=INTEGER,
        state=STATE,
        command=STRING,
        cwd=STRING,
        label=STRING_OR_NULL,
        detached=BOOLEAN,
        contained=BOOLEAN,
        started={"type": "number"},
        ended={"type": ["number", "null"]},
        exit_code=INTEGER_OR_NULL,
        signal=STRING_OR_NULL,
    ),
    "required": ["id", "pid", "state", "command", "cwd", "detached", "contained", "started", "exit_code", "signal"],
}
_UNDO: Final = "cannot be undone: the changes of a background process are not recorded"
_WOULD_END: Final = "The process would end with this command, which makes only one call. Use detached=true."
DEFAULT_LINES: Final = 500
_DEFAULT_SIGNAL: Final = "SIGTERM"
_WAIT: Final = 1.0
"""Seconds within which most processes end after SIGTERM."""


def process_name(args: Args) -> str | int:
    """Return the pid or id argument; some models write numbers as strings."""
    name = cast("str | int", args["pid"])
    return int(name) if isinstance(name, str) and name.isdecimal() and len(name) < 10 else name


def to_json(info: ProcessInfo) -> Args:
    return cast(Args, msgspec.to_builtins(info))


def describe(info: ProcessInfo) -> str:
    """Format as `1234 (abcd) running: npm run dev`."""
    return f"{info.pid} ({info.id}) {_state(info)}: {info.command}"


def _state(info: ProcessInfo) -> str:
    if info.state == "lost":
        return "lost, because the runtime that started it has ended"
    if info.state == "exited":
        return f"ended by {info.signal}" if info.exit_code is None else f"exited with code {info.exit_code}"
    return "running, detached" if info.detached else "running"


def preview(args: Args, width: int) -> str:
    name = args.get("pid")
    return with_label("" if name is None else str(name), args)


async def _propose_start(args: Args, ctx: Context) -> Proposal | Result:
    command = cast(str, args["command"])
    if not command.strip():
        return fail("No command provided")
    detached = bool(args.get("detached"))
    if _would_end(detached, ctx):
        return fail(_WOULD_END)
    try:
        folder = shell.working_folder(args, ctx)
        payload: Args = {
            "command": command,
            "args": args.get("args"),
            "cwd": folder,
            "label": args.get("label"),
            "detached": detached,
        }
        planned = _command(payload, ctx)
        outlook = await ctx.sandbox.preview(planned)
    except HoldfastError as error:
        return fail(str(error))
    shown = _display_command(payload)
    until = "keeps running after holdfast exits" if detached else "runs until it ends or holdfast exits"
    return Proposal(
        tool_name="process.start",
        summary=f"start {shown.strip().partition(chr(10))[0]}" + (" (detached)" if detached else ""),
        risk=shell.risk_of(outlook),
        payload=payload,
        preview=shown,
        surroundings=shell.describe_surroundings(folder, _without_hosts(outlook), ctx, undo=_UNDO, lasts=until),
        preconditions=(shell.shell_precondition(planned, outlook),),
    )


async def _apply_start(payload: Args, ctx: Context) -> Result:
    if _would_end(bool(payload["detached"]), ctx):
        return fail(_WOULD_END)
    try:
        info = await ctx.service(Processes).start(
            ctx,
            _command(payload, ctx),
            shown=_display_command(payload),
            label=cast("str | None", payload["label"]),
            detached=bool(payload["detached"]),
        )
    except SandboxRefused as error:
        return fail(f"Sandbox error: {error}")
    return ok(
        f"Started {info.command} as process {info.pid} ({info.id}). "
        f"Use process.output to read its output, process.kill to stop it.",
        structured=to_json(info),
    )


def _without_hosts(outlook: CommandPreview) -> CommandPreview:
    """Report no network for a list of hosts: the proxy ends with the call, so the process cannot use it."""
    return outlook if outlook.network in ("on", "off") else replace(outlook, network="off")


def _would_end(detached: bool, ctx: Context) -> bool:
    return not detached and ctx.service(Processes).end_with_call


def _command(payload: Args, ctx: Context) -> Command:
    words = payload["args"]
    command, folder = cast(str, payload["command"]), cast("str | None", payload["cwd"])
    program, env = shell.shell_settings(ctx)
    argv = (program, "-c", command) if words is None else (command, *cast(list[str], words))
    return Command(argv=argv, cwd=None if folder is None else Path(folder), env=env)


def _display_command(payload: Args) -> str:
    command, words = cast(str, payload["command"]), payload["args"]
    return command if words is None else join([command, *cast(list[str], words)])


def _status(args: Args, ctx: Context) -> Result:
    try:
        info = ctx.service(Processes).find(process_name(args))
    except HoldfastError as error:
        return fail(str(error))
    return ok(f"Process {describe(info)}", structured=to_json(info))


def _list(args: Args, ctx: Context) -> Result:
    found = ctx.service(Processes).list()
    text = "\n".join(map(describe, found)) or "No background processes."
    return ok(text, structured=cast(Json, {"processes": [to_json(info) for info in found]}))


def _output(args: Args, ctx: Context) -> Result:
    offset = cast("int | None", args.get("offset"))
    limit = cast(int, args.get("limit") or DEFAULT_LINES)
    processes = ctx.service(Processes)
    try:
        name = process_name(args)
        page = processes.output(name, offset=offset, limit=limit)
        info = processes.find(name)
    except HoldfastError as error:
        return fail(str(error))
    if offset is not None and offset > max(1, page.total_lines):
        return fail(f"Offset {offset} is beyond the end of the output ({page.total_lines} lines so far).")
    first, shown = _end(page, ctx) if offset is None else (page.first, first_page(page.text, page.first, ctx))
    lines = shown.lines if page.text else 0
    structured: Args = {
        "id": info.id,
        "pid": info.pid,
        "state": info.state,
        "first_line": first,
        "lines": lines,
        "total_lines": page.total_lines,
        "dropped_lines": page.dropped,
        "content": shown.content,
    }
    body = shown.content if page.total_lines else "(no output)"
    notice = _notice(page, first + lines - 1, shown, whole=first == 1 and not shown.cut)
    return Result(True, f"{body}\n\n{notice}" if notice else body, structured=structured, metadata={"truncated": True})


def _end(page: ProcessOutput, ctx: Context) -> tuple[int, Page]:
    """Return the number of the first line shown, and the last lines."""
    cut = ctx.truncate.tail(page.text)
    first = page.first + cut.total_lines - cut.output_lines
    last = first + cut.output_lines - 1
    what = f"the last {format_size(cut.output_bytes)} of line {last}" if cut.last_line_partial else ""
    return first, Page(cut.content, cut.output_lines, cut.truncated, what or f"lines {first}-{last}")


def _notice(page: ProcessOutput, last: int, shown: Page, *, whole: bool) -> str:
    if whole and last >= page.total_lines:
        return ""
    dropped = f" Lines 1-{page.dropped} are no longer kept." if page.dropped else ""
    more = f" Use offset={last + 1} to continue." if last < page.total_lines else ""
    return f"[Showing {shown.range} of {page.total_lines}.{more}{dropped}]"


def _output_preview(args: Args, width: int) -> str:
    body = preview({**args, "label": None}, width)
    if args.get("offset") or args.get("limit"):
        body += f"  +{args.get('offset') or 'end'},{args.get('limit') or DEFAULT_LINES}"
    return with_label(body, args)


def _list_preview(args: Args, width: int) -> str:
    return with_label("", args).strip()


def _propose_kill(args: Args, ctx: Context) -> Proposal | Result:
    signal = cast(str, args.get("signal") or _DEFAULT_SIGNAL)
    try:
        info = ctx.service(Processes).find(process_name(args))
    except HoldfastError as error:
        return fail(str(error))
    if info.state != "running":
        return fail(f"Process {describe(info)}; there is nothing to kill.")
    return Proposal(
        tool_name="process.kill",
        summary=f"send {signal} to {info.pid}: {info.command}",
        risk=Risk.MEDIUM,
        payload={"id": info.id, "signal": signal},
        preview=f"{signal} to this process and all its descendants:\n{describe(info)}",
        surroundings=RunConditions(undo="cannot be undone"),
        preconditions=(Precondition(kind="process", subject=str(info.pid), value=f"{info.id} {info.started}"),),
    )


async def _apply_kill(payload: Args, ctx: Context) -> Result:
    signal = cast(Signal, payload["signal"])
    try:
        info = await ctx.service(Processes).kill(cast(str, payload["id"]), signal, wait=_WAIT)
    except HoldfastError as error:
        return fail(str(error))
    after = "it has not ended yet" if info.state == "running" else "it has ended"
    return ok(f"Sent {signal} to process {describe(info)}; {after}.", structured=to_json(info))


def _kill_preview(args: Args, width: int) -> str:
    name = args.get("pid")
    return with_label(f"{args.get('signal') or _DEFAULT_SIGNAL} {'' if name is None else name}", args)


PROCESS_START: Final = builtin_tool(
    name="process.start",
    description="Start a background process. It ends, with all its descendants, when its first process ends, when it "
    "is killed, or when holdfast exits, unless it is detached.",
    input_schema=strict_object(
        command=text("The command: a program if args is given, otherwise a shell command line."),
        args=nullable("array", "Command arguments.", items={"type": "string"}),
        cwd=nullable("string", "Working directory, relative to the project root (default: the root)."),
        detached=nullable("boolean", "Keep it running when holdfast exits (default false)."),
        label=LABEL,
    ),
    output_schema=PROCESS,
    propose=_propose_start,
    apply=_apply_start,
    risk=Risk.HIGH,
    effects=frozenset({"process", "fs.read", "fs.write", "network"}),
    capabilities=frozenset({RUNS_COMMANDS}),
    format_preview=shell.preview,
    groups=("runtime",),
    profiles=("coding",),
    needs_root=True,
)

PROCESS_STATUS: Final = read_only_tool(
    name="process.status",
    description="Get the status of a background process.",
    input_schema=strict_object(pid=PID, label=LABEL),
    output_schema=PROCESS,
    execute=_status,
    argument_aliases=ARGUMENT_ALIASES,
    format_preview=preview,
    groups=("runtime",),
    profiles=("coding",),
    needs_root=True,
)

PROCESS_OUTPUT: Final = read_only_tool(
    name="process.output",
    description="Read the output of a background process: the last lines, or lines from an offset.",
    input_schema=strict_object(
        pid=PID,
        offset=nullable("integer", "First line, counted from 1 (default: the last lines).", minimum=1),
        limit=nullable("integer", f"Number of lines (default {DEFAULT_LINES}).", minimum=1, maximum=2000),
        label=LABEL,
    ),
    output_schema=strict_object(
        id=STRING,
        pid=INTEGER,
        state=STATE,
        first_line=INTEGER,
        lines=INTEGER,
        total_lines=INTEGER,
        dropped_lines=INTEGER,
        content=STRING,
    ),
    execute=_output,
    argument_aliases=ARGUMENT_ALIASES,
    format_preview=_output_preview,
    groups=("runtime",),
    profiles=("coding",),
    needs_root=True,
    keeps="tail",
)

PROCESS_LIST: Final = read_only_tool(
    name="process.list",
    description="List the background processes of this project.",
    input_schema=strict_object(label=LABEL),
    output_schema=strict_object(processes=array(PROCESS)),
    execute=_list,
    format_preview=_list_preview,
    groups=("runtime",),
    profiles=("coding",),
    needs_root=True,
)

PROCESS_KILL: Final = builtin_tool(
    name="process.kill",
    description="Kill a background process started by process.start, with all its descendants.",
    input_schema=strict_object(
        pid=PID,
        signal={
            "type": ["string", "null"],
            "enum": ["SIGTERM", "SIGKILL", "SIGINT", "SIGHUP", None],
            "description": "Signal to send (default: SIGTERM).",
        },
        label=LABEL,
    ),
    output_schema=PROCESS,
    argument_aliases=ARGUMENT_ALIASES,
    propose=_propose_kill,
    apply=_apply_kill,
    risk=Risk.MEDIUM,
    effects=frozenset({"process"}),
    format_preview=_kill_preview,
    groups=("runtime",),
    profiles=("coding",),
    needs_root=True,
    runs="inline",
)
