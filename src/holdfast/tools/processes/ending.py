"""`process.kill`: end a process that holdfast started, and no other."""

from __future__ import annotations

from typing import Final, cast

from holdfast.contract.call import Precondition, Proposal, Surroundings
from holdfast.contract.context import Context
from holdfast.contract.errors import HoldfastError
from holdfast.contract.processes import Processes, Signal
from holdfast.contract.result import Result, fail, ok
from holdfast.contract.tool import Tool
from holdfast.contract.values import Args
from holdfast.contract.vocabulary import Risk
from holdfast.text.preview import with_label
from holdfast.tools.processes.naming import ID, PID, PROCESS, describe, name_of, plain
from holdfast.tools.schemas import LABEL, strict_object

_DEFAULT: Final = "SIGTERM"
_WAIT: Final = 1.0
"""Seconds in which a process mostly ends when it is asked to."""


def _propose(args: Args, ctx: Context) -> Proposal | Result:
    signal = cast(str, args.get("signal") or _DEFAULT)
    try:
        info = ctx.service(Processes).find(name_of(args))
    except HoldfastError as error:
        return fail(str(error))
    if info.state != "running":
        return fail(f"Process {describe(info)}; there is nothing to kill.")
    return Proposal(
        tool_name="process.kill",
        summary=f"send {signal} to {info.pid}: {info.command}",
        risk=Risk.MEDIUM,
        payload={"id": info.id, "signal": signal},
        preview=f"{signal} to this process, and to everything it started:\n{describe(info)}",
        surroundings=Surroundings(undo="cannot be undone"),
        preconditions=(Precondition(kind="process", subject=str(info.pid), value=f"{info.id} {info.started}"),),
    )


async def _apply(payload: Args, ctx: Context) -> Result:
    signal = cast(Signal, payload["signal"])
    try:
        info = await ctx.service(Processes).kill(cast(str, payload["id"]), signal, wait=_WAIT)
    except HoldfastError as error:
        return fail(str(error))
    after = "it has not ended yet" if info.state == "running" else "it has ended"
    return ok(f"Sent {signal} to process {describe(info)}; {after}.", structured=plain(info))


def _preview(args: Args, width: int) -> str:
    name = args.get("id") if args.get("pid") is None else args.get("pid")
    return with_label(f"{args.get('signal') or _DEFAULT} {'' if name is None else name}", args)


PROCESS_KILL: Final = Tool(
    name="process.kill",
    description="Kill a background process that process.start started, with everything it started.",
    input_schema=strict_object(
        pid=PID,
        id=ID,
        signal={
            "type": ["string", "null"],
            "enum": ["SIGTERM", "SIGKILL", "SIGINT", "SIGHUP", None],
            "description": "Signal to send (default: SIGTERM).",
        },
        label=LABEL,
    ),
    output_schema=PROCESS,
    propose=_propose,
    apply=_apply,
    strict=True,
    risk=Risk.MEDIUM,
    effects=frozenset({"process"}),
    format_preview=_preview,
    groups=("runtime",),
    needs_root=True,
    runs="inline",
    source="builtin",
)
