"""`process.start`: a process that goes on after the call."""

from __future__ import annotations

from pathlib import Path
from typing import Final, cast

from msgspec.structs import replace

from holdfast.contract.call import Proposal
from holdfast.contract.command import Command, Outlook
from holdfast.contract.context import Context
from holdfast.contract.errors import HoldfastError, SandboxRefused
from holdfast.contract.processes import Processes
from holdfast.contract.result import Result, fail, ok
from holdfast.contract.tool import Tool
from holdfast.contract.values import Args
from holdfast.contract.vocabulary import RUNS_COMMANDS, Risk
from holdfast.tools.processes.naming import PROCESS, plain
from holdfast.tools.schemas import LABEL, optional, strict_object, text
from holdfast.tools.shell import running

_UNDO: Final = "cannot be undone: what a process changes while it runs is not recorded"
_ENDS: Final = "The process would end with this command, which makes only one call; use detached=true."


async def _propose(args: Args, ctx: Context) -> Proposal | Result:
    command = cast(str, args["command"])
    if not command.strip():
        return fail("No command provided")
    detached = bool(args.get("detached"))
    if _would_end(detached, ctx):
        return fail(_ENDS)
    try:
        folder = running.folder_of(args, ctx)
        payload: Args = {
            "command": command,
            "args": args.get("args"),
            "cwd": folder,
            "label": args.get("label"),
            "detached": detached,
        }
        planned = _command(payload, ctx)
        outlook = await ctx.sandbox.outlook(planned)
    except HoldfastError as error:
        return fail(str(error))
    shown = _shown(payload)
    until = "runs on after holdfast has ended" if detached else "runs until it ends or holdfast does"
    return Proposal(
        tool_name="process.start",
        summary=f"start {shown.strip().partition(chr(10))[0]}" + (" (detached)" if detached else ""),
        risk=running.risk_of(outlook),
        payload=payload,
        preview=shown,
        surroundings=running.surroundings(folder, _without_hosts(outlook), ctx, undo=_UNDO, lasts=until),
        preconditions=(running.conditions(planned, outlook),),
    )


async def _apply(payload: Args, ctx: Context) -> Result:
    if _would_end(bool(payload["detached"]), ctx):
        return fail(_ENDS)
    try:
        info = await ctx.service(Processes).start(
            ctx,
            _command(payload, ctx),
            shown=_shown(payload),
            label=cast("str | None", payload["label"]),
            detached=bool(payload["detached"]),
        )
    except SandboxRefused as error:
        return fail(f"Sandbox error: {error}")
    return ok(
        f"Started {info.command} as process {info.pid} ({info.id}). "
        f"process.output shows what it prints, process.kill ends it.",
        structured=plain(info),
    )


def _without_hosts(outlook: Outlook) -> Outlook:
    """The way out to a list of hosts ends with the call, so that a process has none."""
    return outlook if outlook.network in ("on", "off") else replace(outlook, network="off")


def _would_end(detached: bool, ctx: Context) -> bool:
    return not detached and ctx.service(Processes).end_with_call


def _command(payload: Args, ctx: Context) -> Command:
    words = payload["args"]
    command, folder = cast(str, payload["command"]), cast("str | None", payload["cwd"])
    shell, env = running.settings(ctx)
    argv = (shell, "-c", command) if words is None else (command, *cast(list[str], words))
    return Command(argv=argv, cwd=None if folder is None else Path(folder), env=env)


def _shown(payload: Args) -> str:
    command, words = cast(str, payload["command"]), payload["args"]
    if words is None:
        return command
    from shlex import join

    return join([command, *cast(list[str], words)])


PROCESS_START: Final = Tool(
    name="process.start",
    description="Start a background process. It ends, with all it started, when its first process ends, when it is "
    "killed, or when holdfast ends, unless it is detached.",
    input_schema=strict_object(
        command=text("Command to execute: a program if there are args, else a line for the shell."),
        args=optional("array", "Command arguments.", items={"type": "string"}),
        cwd=optional("string", "Working directory, in the project."),
        detached=optional("boolean", "Let it run on when holdfast ends (default false)."),
        label=LABEL,
    ),
    output_schema=PROCESS,
    propose=_propose,
    apply=_apply,
    strict=True,
    risk=Risk.HIGH,
    effects=frozenset({"process", "fs.read", "fs.write", "network"}),
    capabilities=frozenset({RUNS_COMMANDS}),
    format_preview=running.preview,
    groups=("runtime",),
    needs_root=True,
    source="builtin",
)
