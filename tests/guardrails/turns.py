"""Turns made by hand for the tests of the guard-rails, with typed results as the built-in tools give them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from holdfast.agent.guard import AskModel, CallTools, EndTurn, PastReply, ReplyCall, TurnHistory
from holdfast.config.config import GuardrailsConfig
from holdfast.contract.enums import Failure, State
from holdfast.contract.message import Part, Text, ToolResult, ToolUse
from holdfast.contract.result import Result, fail, ok
from holdfast.contract.tool import Tool
from holdfast.guardrails.guardrails import GuardRails
from holdfast.tools import builtin_tools

TOOLS = {tool.name: tool for tool in builtin_tools()}
RULES = tuple(rule for rule in GuardrailsConfig.__struct_fields__ if rule not in ("enabled", "edit_repair"))
OFF = GuardrailsConfig(**dict.fromkeys(RULES, False))

WHERE = "Where is parse_line defined?"
USES = "Where is parse_line used?"
ALL_USES = "Find all usages of parse_line"


def only(*rules: str) -> GuardrailsConfig:
    return replace(OFF, **dict.fromkeys(rules, True))


def without(*rules: str) -> GuardrailsConfig:
    return replace(GuardrailsConfig(), **dict.fromkeys(rules, False))


def rails(config: GuardrailsConfig | None = None, tools: Sequence[Tool] | None = None) -> GuardRails:
    there = list(TOOLS.values()) if tools is None else list(tools)
    return GuardRails(config or GuardrailsConfig(), lambda: there)


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


def found(files: Mapping[str, Sequence[str]], *, exact: str = "", query: str = "parse_line") -> Result:
    """A search result: by file, its matching lines."""
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
            "total_files": len(files),
            "shown": 15,
            "definition": exact or None,
            "files": listed,
            "unreadable_files": 0,
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


def acted(move: Any) -> tuple[str, str, dict[str, Any]]:
    """The rule, the tool and the arguments of the one call the runtime asks for; its tool takes them as they are."""
    assert isinstance(move, CallTools), move
    (asked,) = move.uses
    args = json.loads(asked.arguments)
    TOOLS[asked.name].schema.validate(args)
    assert asked.id.startswith("runtime-")
    return move.rule, asked.name, args


def finished(move: Any) -> EndTurn:
    assert isinstance(move, EndTurn), move
    return move


def direct_round(name: str, result: Result, **args: Any) -> Any:
    return round_of((use(name, "runtime-1", **args), result))
