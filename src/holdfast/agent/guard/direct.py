"""Calls the runtime asks for itself: what a message names outright, and files that show the answer."""

from __future__ import annotations

import json
from typing import Any

from holdfast.agent.guard.asking import Direct, EditFile, ListFolder, ReadFile
from holdfast.agent.guard.calls import EDIT, LIST, READ, RUNTIME, SEARCH
from holdfast.agent.guard.matter import Matter
from holdfast.agent.guard.wording import quoted
from holdfast.agent.guarding import Act
from holdfast.contract.message import ToolUse


def named_outright(matter: Matter) -> Act | None:
    """The call a message spells out, if there is the tool for it."""
    direct = None if matter.asking is None else matter.asking.direct
    if direct is None:
        return None
    name, args = _call(direct, matter.scope)
    if not matter.tools.has(name):
        return None
    what = quoted(str(args.get("path") or args.get("query")))
    return Act("direct", (_use(name, args),), f"the message names {what}")


def reading(rule: str, path: str, why: str) -> Act:
    return Act(rule, (_use(READ, {"path": path}),), why)


def _call(direct: Direct, scope: str | None) -> tuple[str, dict[str, Any]]:
    if isinstance(direct, ReadFile):
        first, last = direct.lines or (None, None)
        lines = {} if first is None or last is None else {"offset": first, "limit": last - first + 1}
        return READ, {"path": direct.path, **lines}
    if isinstance(direct, ListFolder):
        return LIST, {"path": direct.path}
    if isinstance(direct, EditFile):
        return EDIT, {"path": direct.path, "search": direct.search, "replace": direct.replace}
    return SEARCH, {"query": direct.query} | ({} if scope is None else {"path": scope})


def _use(name: str, args: dict[str, Any]) -> ToolUse:
    return ToolUse(f"{RUNTIME}1", name, json.dumps(args, ensure_ascii=False))
