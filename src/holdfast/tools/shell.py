"""`shell.exec`: run a shell command. Streams output, keeps the end of long output, and kills all processes on timeout.

The first part is shared with `processes`: which shell, which folder, and what an approval shows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, cast

from holdfast.contract.call import Precondition, Proposal, RunConditions
from holdfast.contract.command import Command, CommandPreview, CommandResult, standard_shell
from holdfast.contract.context import Context
from holdfast.contract.enums import AUTO_APPROVED_IF_SANDBOXED, RUNS_COMMANDS, Failure, Risk, State
from holdfast.contract.errors import HoldfastError, PathRefused, SandboxRefused
from holdfast.contract.json import Args, Json, digest_of
from holdfast.contract.result import Result, fail
from holdfast.text.preview import with_label
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
    strict_object,
    text,
)

DEFAULT_SECONDS: Final = 30.0
_NO_OUTPUT: Final = "(no output)"
_MAX_HIDDEN_SHOWN: Final = 5
_STATES: Final = {"timeout": (State.TIMED_OUT, Failure.TIMEOUT), "cancelled": (State.CANCELLED, Failure.CANCELLED)}


def shell_settings(ctx: Context) -> tuple[str, dict[str, str]]:
    """Return the configured shell and environment variables."""
    given: dict[str, Any] = dict(ctx.config() or {})
    shell = given.get("shell")
    env = given.get("env")
    variables = cast(dict[str, Any], env) if isinstance(env, dict) else {}
    chosen = shell if isinstance(shell, str) and shell else standard_shell()
    return chosen, {str(name): str(value) for name, value in variables.items()}


def working_folder(args: Args, ctx: Context) -> str | None:
    """Return the requested working folder in the project; None: the call's own."""
    given = args.get("cwd")
    if not isinstance(given, str):
        return None
    folder = ctx.path.confine(given)
    if not folder.is_dir():
        raise PathRefused(f"{given} is not a folder. Name one in the project, or leave cwd out.")
    return str(folder)


def display_folder(folder: str | None, ctx: Context) -> str:
    path = Path(folder) if folder is not None else ctx.cwd
    if ctx.root is None or not path.is_relative_to(ctx.root):
        return str(path)
    inside = path.relative_to(ctx.root).as_posix()
    return "the project's root" if inside == "." else f"./{inside}"


def risk_of(outlook: CommandPreview) -> Risk:
    return Risk.HIGH if outlook.contained_by is None else Risk.MEDIUM


def describe_surroundings(
    folder: str | None, outlook: CommandPreview, ctx: Context, *, undo: str, lasts: str = ""
) -> RunConditions:
    """Describe for an approval where the command runs, what contains it, and whether it can be undone."""
    containment = "not contained" if outlook.contained_by is None else f"contained by {outlook.contained_by}"
    reach = "; ".join((containment, f"network {outlook.network}", *outlook.paths))
    return RunConditions(where=display_folder(folder, ctx), sandbox=reach, undo=undo, lasts=lasts)


def describe_undo(outlook: CommandPreview) -> str:
    """Describe what can be undone: changes to files, but not what was sent."""
    if outlook.undo_note is not None:
        return f"cannot be undone: {outlook.undo_note}"
    if outlook.undo_only_in:
        places = ", ".join(outlook.undo_only_in)
        return f"changes to files in {places} can be undone; other changes and what it sends cannot"
    return "changes to files can be undone" + ("" if outlook.network == "off" else "; what it sends cannot")


def preview(args: Args, width: int) -> str:
    given = args.get("args")
    words = [str(args.get("command", "")), *(str(word) for word in (given if isinstance(given, list) else ()))]
    return with_label(f"$ {' '.join(words)}", args)


def shell_precondition(command: Command, outlook: CommandPreview) -> Precondition:
    """Return a digest of the shell, its variables, the containment and whether it can be undone.

    These come from the configuration and the machine, which may change between the proposal and its approval.
    """
    undoable = outlook.undo_note is None
    env = cast(Json, dict(command.env))
    seen: Json = [command.argv[0], env, outlook.contained_by, outlook.network, undoable]
    return Precondition(kind="shell", subject=command.argv[0], value=digest_of(seen))


def _command(payload: Args, ctx: Context) -> Command:
    shell, env = shell_settings(ctx)
    folder = cast("str | None", payload["cwd"])
    return Command(
        argv=(shell, "-c", cast(str, payload["command"])),
        cwd=None if folder is None else Path(folder),
        env=env,
        streams=True,
        undoable=True,
    )


async def _propose(args: Args, ctx: Context) -> Proposal | Result:
    command = cast(str, args["command"])
    if not command.strip():
        return fail("No command provided")
    try:
        folder = working_folder(args, ctx)
        payload: Args = {"command": command, "cwd": folder}
        planned = _command(payload, ctx)
        outlook = await ctx.sandbox.preview(planned)
    except HoldfastError as error:
        return fail(str(error))
    return Proposal(
        tool_name="shell.exec",
        summary=command.strip().partition("\n")[0],
        risk=risk_of(outlook),
        payload=payload,
        preview=command,
        surroundings=describe_surroundings(folder, outlook, ctx, undo=describe_undo(outlook)),
        preconditions=(shell_precondition(planned, outlook),),
    )


async def _apply(payload: Args, ctx: Context) -> Result:
    try:
        ran = await ctx.sandbox.run(_command(payload, ctx))
    except SandboxRefused as error:
        return fail(f"Sandbox error: {error}")
    body = ran.output or _NO_OUTPUT
    parts = [body, *([ran.notice] if ran.notice else []), *_violations(ran)]
    parts += [*_hidden(ran, cast(str, payload["command"]), ctx), *_changed(ran, ctx)]
    metadata: Args = {"truncated": True} if ran.truncated else {}
    if ran.spill is not None:
        metadata |= {"spill": ran.spill, "spilled_bytes": ran.spilled_bytes, "spilled_lines": ran.total_lines}
    if ran.code == 0 and ran.stopped is None:
        return Result(True, "\n\n".join(parts), structured=_structured(ran), metadata=metadata)
    state, failure = (State.FAILED, Failure.TOOL_ERROR) if ran.stopped is None else _STATES[ran.stopped]
    return Result(
        False,
        error="\n\n".join((*parts, *_restrictions(ran), _end(ran, ctx))),
        structured=_structured(ran),
        metadata=metadata,
        state=state,
        failure=failure,
    )


def _end(ran: CommandResult, ctx: Context) -> str:
    if ran.stopped == "timeout":
        seconds = DEFAULT_SECONDS if ctx.timeout is None else ctx.timeout
        return f"Command timed out after {seconds:g} seconds."
    if ran.stopped is not None:
        return "Command was cancelled."
    return f"Command was ended by {ran.signal}" if ran.code is None else f"Command exited with code {ran.code}"


def _violations(ran: CommandResult) -> list[str]:
    notes = [f"[{note}]" for note in ran.notes]
    if not ran.violations:
        return notes
    listed = "\n".join(f"- {item}" for item in ran.violations)
    return [f"[The sandbox prevented these changes:\n{listed}]", *notes]


def _hidden(ran: CommandResult, command: str, ctx: Context) -> list[str]:
    """Name hidden files that the command mentions, and, if it failed, those in the project that may be the cause."""
    top = f"{ctx.root or ctx.cwd}/"
    failed = ran.code != 0
    relevant = [path for path in ran.hidden if Path(path).name in command or (failed and path.startswith(top))]
    if not relevant:
        return []
    names = [path.removeprefix(top) for path in relevant[:_MAX_HIDDEN_SHOWN]]
    more = f" and {len(relevant) - len(names)} more" if len(relevant) > len(names) else ""
    return [f"[Hidden from the command by sandbox.read_deny: {', '.join(names)}{more}]"]


def _changed(ran: CommandResult, ctx: Context) -> list[str]:
    if not ran.changes:
        return []
    one = len(ran.changes) == 1
    paths, them = ("path", "it") if one else ("paths", "them")
    undo = f"holdfast undo {ctx.call_id} puts {them} back"
    if ran.together:
        others = ", ".join(ran.together)
        return [f"[Changed {len(ran.changes)} {paths}, together with {others}, which ran at the same time; {undo}]"]
    return [f"[Changed {len(ran.changes)} {paths}; {undo}]"]


def _restrictions(ran: CommandResult) -> list[str]:
    """Describe sandbox restrictions that may explain a failure."""
    if not ran.contained or ran.stopped is not None:
        return []
    writable = f"only {', '.join(ran.writable)} is writable" if ran.writable else "nothing else is writable"
    private = "temporary files and the home folder are private to this call"
    return [f"[In the sandbox: network {ran.network}; {private}; {writable}]"]


def _structured(ran: CommandResult) -> Args:
    return {
        "exit_code": ran.code,
        "signal": ran.signal,
        "output": ran.output,
        "total_lines": ran.total_lines,
        "total_bytes": ran.total_bytes,
        "truncated": ran.truncated,
        "contained": ran.contained,
        "changed_paths": None if ran.changes is None else len(ran.changes),
        "violations": list(ran.violations),
    }


SHELL_EXEC: Final = builtin_tool(
    name="shell.exec",
    description="Run a shell command and return its output. All its processes are killed when it returns: "
    "to keep one running, use process.start.",
    input_schema=strict_object(
        command=text("The shell command to execute."),
        cwd=nullable("string", "Working directory, relative to the project root (default: the root)."),
        timeout=nullable(
            "number", "Timeout in milliseconds (default 30000); under the name bash, in seconds.", exclusiveMinimum=0
        ),
        label=LABEL,
    ),
    output_schema=strict_object(
        exit_code=INTEGER_OR_NULL,
        signal=STRING_OR_NULL,
        output=STRING,
        total_lines=INTEGER,
        total_bytes=INTEGER,
        truncated=BOOLEAN,
        contained=BOOLEAN,
        changed_paths=INTEGER_OR_NULL,
        violations=array(STRING),
    ),
    propose=_propose,
    apply=_apply,
    timeout=DEFAULT_SECONDS,
    risk=Risk.HIGH,
    effects=frozenset({"process", "fs.read", "fs.write", "network"}),
    capabilities=frozenset({AUTO_APPROVED_IF_SANDBOXED, RUNS_COMMANDS}),
    format_preview=preview,
    aliases=("bash", "shell"),
    timeout_in_seconds=("bash",),
    groups=("runtime",),
    profiles=("coding",),
    needs_root=True,
    keeps="tail",
)
