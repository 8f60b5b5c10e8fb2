"""The question a call puts to the gate, with the real paths it touches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.config import paths
from holdfast.contract.call import Call, NamedFile, Proposal
from holdfast.contract.errors import PathRefused
from holdfast.contract.tool import Tool
from holdfast.rules.question import Question
from holdfast.rules.shell.calls import command_of, is_shell_tool

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
        confinement=lambda: runtime.hands.confinement(tool),
        files=lambda: files_named(runtime, tool, call, proposal),
    )


def files_named(runtime: Runtime, tool: Tool, call: Call, proposal: Proposal | None) -> tuple[NamedFile, ...]:
    """The project files that the command of a call names, unless all it does is read."""
    text = command_of(call.args) if is_shell_tool(tool) else None
    if text is None:
        return ()
    from holdfast.rules.named_files import named_files
    from holdfast.rules.shell.prefix import only_reads

    try:
        if only_reads(question_about(runtime, tool, call, proposal)):
            return ()
    except PathRefused:
        pass
    root = None if runtime.root is None else str(runtime.root)
    return named_files(text, _folders(runtime, call, proposal), root)


def _folders(runtime: Runtime, call: Call, proposal: Proposal | None) -> list[str]:
    """Where the command would run: as its tool proposes it, else wherever its own `cwd` may lead."""
    proposed = None if proposal is None else proposal.payload.get("cwd")
    if isinstance(proposed, str):
        return [proposed]
    inner = call.args.get("cwd")
    if not isinstance(inner, str):
        return [call.cwd]
    document = None if runtime.document is None else runtime.document.parent
    bases = [str(base) for base in (call.cwd, runtime.root, document) if base is not None]
    return [str(Path(base, inner)) for base in bases if "\0" not in inner]


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
