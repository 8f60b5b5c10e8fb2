"""Frontmatter in Lua: the record its child keeps of what is done to the options, taken up by a draft."""

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
    """A list: what an option holds, or one that was made from such a list."""

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


def make_script(code: str, base: Baseline) -> Script:
    values = readable(base.config)
    known = {name: value for name, value in values.items() if value is not None}
    return Script(code, {"values": known, "readable": dict.fromkeys(values, True)})


def read_lua(code: str, base: Baseline, lua: LuaHost) -> tuple[OptionEdits, Script, list[Diagnostic]]:
    """Raises `LuaError` when the code fails: nothing of it counts then."""
    script = make_script(code, base)
    try:
        reply = msgspec.convert(lua.evaluate(script), LuaReply)
    except msgspec.ValidationError:
        raise LuaError("The Lua frontmatter gave an answer that cannot be read; make it simpler.") from None
    draft = OptionEdits(base, lua_option)
    lists: dict[int, tuple[Path, ListValue]] = {}
    for entry in reply.log:
        _replay(entry, draft, lists)
    said: list[Diagnostic] = []
    if reply.returned is not None:
        said.append(Diagnostic("warning", f"Frontmatter must be an object, got {reply.returned}"))
    return draft, script, said


def _replay(entry: LogEntry, draft: OptionEdits, lists: dict[int, tuple[Path, ListValue]]) -> None:
    line = entry.line
    match entry.action:
        case "set":
            draft.assign(entry.path, entry.value, line)
        case "clear":
            draft.clear(entry.path, line)
        case "function":
            draft.set_function(entry.path, entry.id, line)
        case "copy":
            _, value = _found(entry, draft, lists)
            if value is not None:
                draft.assign(entry.path, value, line)
        case "derive" | "edit":
            path, value = _found(entry, draft, lists)
            changed = draft.derive(path, value, entry.op or "append", entry.names, line)
            if changed is not None and entry.action == "derive":
                lists[entry.list] = (path, changed)
            elif changed is not None and entry.of.list is not None:
                lists[entry.of.list] = (path, changed)
            elif changed is not None:
                draft.assign(path, changed, line)
        case _:
            draft.add_error("The Lua frontmatter gave a record that cannot be read; make it simpler.", line)


def _found(
    entry: LogEntry, draft: OptionEdits, lists: dict[int, tuple[Path, ListValue]]
) -> tuple[Path, ListValue | None]:
    if entry.of.list is not None:
        return lists.get(entry.of.list, ((), None))
    path = entry.of.path or ()
    return path, draft.current(path, entry.line)


def lua_resolver(lua: LuaHost, script: Script, function: int, first_line: int) -> Resolve:
    """The document's function as a voice in the chain. It is told the seed's name of a tool; failing, it asks."""

    def approve(name: str, args: Args, ctx: ResolveContext) -> object:
        tool = ctx.request.tool
        about = {"bufnr": ctx.bufnr or 0, "tool_id": ctx.tool_id, "call_id": ctx.call_id}
        try:
            answer = lua.call(script, function, tool.aliases[0] if tool.aliases else tool.name, args, about)
        except LuaError as error:
            place = "" if error.line is None else f" (line {error.line + first_line - 1})"
            return _asking(f"{str(error).removesuffix('.')}{place}, so a person is asked.")
        if answer is None or isinstance(answer, bool) or answer in _ANSWERS:
            return answer
        return _asking(f"The function of the frontmatter answered {describe_value(answer)}, so a person is asked.")

    return approve


def _asking(reason: str) -> Decision:
    log_warning(reason)
    return Decision(Verdict.ASK, "frontmatter", reason)
