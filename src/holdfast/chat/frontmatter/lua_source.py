"""Frontmatter in Lua: replays the worker's log of option edits, and wraps a policy function as a resolver."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from holdfast.agent.conversation import Diagnostic
from holdfast.chat.frontmatter.evaluation import Baseline
from holdfast.chat.frontmatter.flemma_options import Path, readable
from holdfast.chat.frontmatter.option_edits import ListValue, OptionEdits
from holdfast.chat.lua.host import LuaError, LuaHost, Script
from holdfast.contract.call import Decision
from holdfast.contract.enums import Verdict
from holdfast.contract.json import Args
from holdfast.rules.chain import Resolve, ResolveContext, describe_value, log_warning

_ANSWERS = frozenset({"approve", "require_approval", "deny"})


class ListTarget(Struct, frozen=True):
    """A list: that of an option, or one derived from it."""

    path: tuple[str, ...] | None = None
    list: int | None = None


class LogEntry(Struct, frozen=True, rename={"action": "do"}):
    action: str
    path: tuple[str, ...] = ()
    of: ListTarget = ListTarget()
    op: Literal["", "append", "prepend", "remove"] = ""
    names: Any = None
    value: Any = None
    list: int = 0
    id: int = 0
    line: int | None = None


class LuaReply(Struct, frozen=True):
    log: list[LogEntry]
    returned: str | None = None


def lua_option(path: Path) -> str:
    return ".".join(("flemma.opt", *path))


def make_script(code: str, baseline: Baseline) -> Script:
    values = readable(baseline.config)
    known = {name: value for name, value in values.items() if value is not None}
    return Script(code, {"values": known, "readable": dict.fromkeys(values, True)})


def read_lua(code: str, baseline: Baseline, lua: LuaHost) -> tuple[OptionEdits, Script, list[Diagnostic]]:
    """Run the code and replay its edits. Raises `LuaError` if the code fails."""
    script = make_script(code, baseline)
    try:
        reply = msgspec.convert(lua.evaluate(script), LuaReply)
    except msgspec.ValidationError:
        raise LuaError("The Lua frontmatter returned an invalid log. Make it simpler.") from None
    edits = OptionEdits(baseline, lua_option)
    lists: dict[int, tuple[Path, ListValue]] = {}
    for entry in reply.log:
        _replay(entry, edits, lists)
    diagnostics: list[Diagnostic] = []
    if reply.returned is not None:
        diagnostics.append(Diagnostic("warning", f"Frontmatter must be an object, got {reply.returned}"))
    return edits, script, diagnostics


def _replay(entry: LogEntry, edits: OptionEdits, lists: dict[int, tuple[Path, ListValue]]) -> None:
    line = entry.line
    match entry.action:
        case "set":
            edits.assign(entry.path, entry.value, line)
        case "clear":
            edits.clear(entry.path, line)
        case "function":
            edits.set_function(entry.path, entry.id, line)
        case "copy":
            _, value = _target_list(entry, edits, lists)
            if value is not None:
                edits.assign(entry.path, value, line)
        case "derive" | "edit":
            path, value = _target_list(entry, edits, lists)
            changed = edits.derive(path, value, entry.op or "append", entry.names, line)
            if changed is not None and entry.action == "derive":
                lists[entry.list] = (path, changed)
            elif changed is not None and entry.of.list is not None:
                lists[entry.of.list] = (path, changed)
            elif changed is not None:
                edits.assign(path, changed, line)
        case _:
            edits.add_error("The Lua frontmatter returned an invalid log. Make it simpler.", line)


def _target_list(
    entry: LogEntry, edits: OptionEdits, lists: dict[int, tuple[Path, ListValue]]
) -> tuple[Path, ListValue | None]:
    if entry.of.list is not None:
        return lists.get(entry.of.list, ((), None))
    path = entry.of.path or ()
    return path, edits.current(path, entry.line)


def lua_resolver(lua: LuaHost, script: Script, function: int, first_line: int) -> Resolve:
    """The document's function as a resolver. It receives Flemma's tool name; a call needs approval if it fails."""

    def approve(name: str, args: Args, ctx: ResolveContext) -> object:
        tool = ctx.request.tool
        about = {"bufnr": ctx.bufnr or 0, "tool_id": ctx.tool_id, "call_id": ctx.call_id}
        try:
            answer = lua.call(script, function, tool.aliases[0] if tool.aliases else tool.name, args, about)
        except LuaError as error:
            place = "" if error.line is None else f" (line {error.line + first_line - 1})"
            return _ask(f"{str(error).removesuffix('.')}{place}, so the call needs approval.")
        if answer is None or isinstance(answer, bool) or answer in _ANSWERS:
            return answer
        return _ask(f"The function of the frontmatter returned {describe_value(answer)}, so the call needs approval.")

    return approve


def _ask(reason: str) -> Decision:
    log_warning(reason)
    return Decision(Verdict.ASK, "frontmatter", reason)
