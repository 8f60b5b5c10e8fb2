"""Turns made by hand for the tests of the guard-rails, with typed results as the built-in tools give them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from holdfast.agent.guard import AskModel, CallTools, EndTurn, PastReply, ReplyCall, TurnHistory
from holdfast.config.config import GuardrailsConfig
from holdfast.contract.enums import Failure, State
from holdfast.contract.json import Args
from holdfast.contract.message import Part, Text, ToolResult, ToolUse
from holdfast.contract.result import Result, fail, ok
from holdfast.contract.tool import Tool
from holdfast.guardrails.guardrails import GuardRails
from holdfast.guardrails.progress import TurnProgress, replay
from holdfast.guardrails.turn_facts import ToolIndex, facts_of
from holdfast.tools import builtin_tools

TOOLS = {tool.name: tool for tool in builtin_tools()}
RULES = tuple(rule for rule in GuardrailsConfig.__struct_fields__ if rule != "enabled")
OFF = GuardrailsConfig(**dict.fromkeys(RULES, False))

WHERE = "Where is parse_line defined?"
USES = "Where is parse_line used?"
ALL_USES = "Find all usages of parse_line"


def only(*rules: str) -> GuardrailsConfig:
    return replace(OFF, **dict.fromkeys(rules, True))


def without(*rules: str) -> GuardrailsConfig:
    return replace(GuardrailsConfig(), **dict.fromkeys(rules, False))


class PlainStyle:
    """Calls as JSON, by the registered names of the tools."""

    def name(self, tool: Tool) -> str:
        return tool.name

    def call(self, tool: Tool, args: Args) -> str:
        return json.dumps([tool.name, args])


def rails(config: GuardrailsConfig | None = None, tools: Sequence[Tool] | None = None) -> GuardRails:
    there = list(TOOLS.values()) if tools is None else list(tools)
    return GuardRails(config or GuardrailsConfig(), lambda: there, PlainStyle())


def state_of(turn: TurnHistory, config: GuardrailsConfig | None = None) -> TurnProgress:
    index = ToolIndex(list(TOOLS.values()), PlainStyle())
    return replay(facts_of(config or GuardrailsConfig(), index, turn), turn.replies)


def use(name: str, use_id: str = "c1", **args: Any) -> ToolUse:
    return ToolUse(use_id, name, json.dumps(args))


def step(asked: ToolUse, result: Result | None) -> ReplyCall:
    """A call with its result, which must be one its tool could give."""
    if result is None:
        return ReplyCall(asked, ToolResult(asked.id, asked.name, "gone"))
    tool = next((tool for tool in TOOLS.values() if asked.name in tool.names), None)
    if tool is not None and tool.output_validator is not None and result.success and result.structured is not None:
        assert tool.output_validator.accepts(result.structured), tool.output_validator.violations(result.structured)
    return ReplyCall(asked, ToolResult(asked.id, asked.name, result.text, error=not result.success), result)


def read_file(path: str, content: str = "x = 1\n", **changes: Any) -> Result:
    lines = content.count("\n")
    typed = {
        "path": path, "size": len(content), "encoding": "utf8", "content": content, "mime_type": None, "offset": 1,
        "lines": lines, "total_lines": lines, "next_offset": None, "limited_by": None, "line_bytes": None, **changes,
    }  # fmt: skip
    return ok(content, structured=typed)


def found(
    files: Mapping[str, Sequence[str]],
    *,
    exact: str = "",
    query: str = "parse_line",
    more: int = 0,
    unreadable: int = 0,
) -> Result:
    """A search result: by file, its matching lines; `more`: files that are not shown."""
    listed: list[Any] = [
        {
            "path": path,
            "matches": len(lines),
            "exact_definition": path == exact,
            "lines": [{"line": place + 1, "text": line} for place, line in enumerate(lines)],
        }
        for path, lines in files.items()
    ]
    total = sum(map(len, files.values()))
    return ok(
        "found" if files else "No matches found.",
        structured={
            "query": query,
            "total_matches": total,
            "total_files": len(files) + more,
            "shown": 15,
            "definition": exact or None,
            "files": listed,
            "unreadable_files": unreadable,
        },
    )


def listing(path: str, *names: str) -> Result:
    entries: list[Any] = [{"path": name, "kind": "file", "size": 1, "link": False} for name in names]
    return ok(
        "\n".join(names),
        structured={
            "path": path,
            "depth": 1,
            "entries": entries,
            "total": len(names),
            "complete": True,
            "build_folders_not_shown": [],
        },
    )


def edited(path: str) -> Result:
    typed: Any = {
        "path": path,
        "replacements": 1,
        "lines": 1,
        "bytes": 9,
        "line_endings": "as given",
        "changes": {
            "places": [[{"line": 1, "text": "new text", "changed": True, "removed": 0}]],
            "more_lines": 0,
            "more_places": 0,
            "final_newline": True,
            "withheld": None,
        },
    }
    return ok(f"Successfully replaced text in {path}.\n> 1 | new text", structured=typed)


def denied(failure: Failure = Failure.DENIED_BY_MIDDLEWARE) -> Result:
    return Result(False, error="No.", state=State.DENIED, failure=failure)


def rejected() -> Result:
    text = "This tool has been rejected by the user."
    return Result(False, error=text, state=State.REJECTED, failure=Failure.REJECTED)


def not_found(path: str) -> Result:
    return fail(f"File not found: {path}")


def round_of(*steps: tuple[ToolUse, Result | None], text: str = "") -> PastReply:
    return PastReply(text, tuple(step(asked, result) for asked, result in steps))


def reading(path: str, result: Result | None = None, use_id: str = "c1") -> tuple[ToolUse, Result]:
    return use("file.read", use_id, path=path), result or read_file(path)


def searching(query: str, files: Mapping[str, Sequence[str]], use_id: str = "c1", exact: str = "") -> Any:
    return use("code.search", use_id, query=query), found(files, exact=exact, query=query)


def looked_up(query: str, result: Result | None = None, **args: Any) -> PastReply:
    """A round in which the runtime searches."""
    return round_of((use("code.search", "runtime-1", query=query, **args), result))


def read_by_runtime(path: str, result: Result | None = None) -> PastReply:
    return round_of((use("file.read", "runtime-1", path=path), result or read_file(path)))


def turn_of(prompt: str, *rounds: PastReply, **changes: Any) -> TurnHistory:
    return TurnHistory(number=1, prompt=prompt, replies=rounds, **changes)


def asking(turn: TurnHistory, *uses: ToolUse) -> TurnHistory:
    """The turn with a reply that asks for these calls, before any of them ran."""
    return replace(turn, replies=(*turn.replies, PastReply("", tuple(map(ReplyCall, uses)))))


def refusal(guard: GuardRails, turn: TurnHistory, *uses: ToolUse) -> str | None:
    """Why the last of these calls, asked for in one reply, is refused."""
    refused = guard.refusals(asking(turn, *uses)).get(uses[-1].id)
    return None if refused is None else refused.message


def answer(text: str) -> tuple[Part, ...]:
    return (Text(text),)


def sent(move: AskModel | CallTools | EndTurn) -> AskModel:
    assert isinstance(move, AskModel), move
    return move


def all_acted(move: Any) -> list[tuple[str, str, dict[str, Any]]]:
    """The rule, the tool and the arguments of each call the runtime asks for; its tool takes them as they are."""
    assert isinstance(move, CallTools), move
    asked: list[tuple[str, str, dict[str, Any]]] = []
    for each in move.uses:
        args = json.loads(each.arguments)
        TOOLS[each.name].schema.validate(args)
        assert each.id.startswith("runtime-")
        asked.append((move.rule, each.name, args))
    return asked


def acted(move: Any) -> tuple[str, str, dict[str, Any]]:
    (asked,) = all_acted(move)
    return asked


def finished(move: Any) -> EndTurn:
    assert isinstance(move, EndTurn), move
    return move


def direct_round(name: str, result: Result | None, **args: Any) -> Any:
    return round_of((use(name, "runtime-1", **args), result))
