"""The question a call puts to the gate, with the real paths it touches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.config import paths
from holdfast.contract.call import Call, Proposal
from holdfast.contract.errors import PathRefused
from holdfast.contract.tool import Tool
from holdfast.rules.question import Question

if TYPE_CHECKING:
    from holdfast.runtime.runtime import Runtime


def question_about(runtime: Runtime, tool: Tool, call: Call, proposal: Proposal | None) -> Question:
    return Question(
        tool=tool,
        args=call.args,
        call_id=call.id,
        name_used=call.name_used,
        cwd=call.cwd,
        caller=call.caller,
        risk=proposal.risk if proposal is not None else tool.risk,
        paths=touched(runtime, tool, call),
        root=runtime.root,
        session=call.caller.session or runtime.session,
        document=runtime.document.name if runtime.document else None,
    )


def touched(runtime: Runtime, tool: Tool, call: Call) -> tuple[Path, ...]:
    """The real paths a call will use, as its tool names them."""
    if tool.touches is None:
        return ()
    document = runtime.document
    base = document.parent if document else runtime.root or Path(call.cwd)
    try:
        return tuple(paths.resolve(path, base).resolve() for path in tool.touches(call.args))
    except PathRefused:
        raise
    except Exception as error:
        raise PathRefused(f"The paths of tool '{tool.name}' cannot be told: {error}.") from None
