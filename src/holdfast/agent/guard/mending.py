"""Calls of a reply, put right before they are kept: queries of one word, searches within the scope."""

from __future__ import annotations

import json
from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.agent.guard.calls import RUNTIME, SEARCH, is_inside
from holdfast.agent.guard.matter import Matter
from holdfast.agent.guard.queries import simplified
from holdfast.agent.guard.wording import quoted
from holdfast.agent.guarding import Accept
from holdfast.contract.message import Part, ToolUse
from holdfast.contract.values import Args


def mended(matter: Matter, parts: Sequence[Part]) -> Accept:
    changed: dict[str, str] = {}
    taken = {part.id for part in parts if isinstance(part, ToolUse)}
    made: list[Part] = []
    for part in parts:
        if isinstance(part, ToolUse):
            part = _own_id(_search(matter, part, changed), taken)  # noqa: PLW2901 - the same call, put right
        made.append(part)
    return Accept(tuple(made), changed)


def _search(matter: Matter, use: ToolUse, changed: dict[str, str]) -> ToolUse:
    called = matter.tools.called(use)
    if called.name != SEARCH or not called.args:
        return use
    right = {**called.args, **_simpler(matter, called.query, changed), **_scoped(matter, called.path, changed)}
    return use if right == called.args else replace(use, arguments=json.dumps(right, ensure_ascii=False))


def _simpler(matter: Matter, query: str | None, changed: dict[str, str]) -> Args:
    if query is None or not matter.rules.simplify_queries:
        return {}
    word = simplified(query)
    if word == query:
        return {}
    changed["simplify_queries"] = f"{quoted(query)} is searched as {quoted(word)}"
    return {"query": word}


def _scoped(matter: Matter, path: str, changed: dict[str, str]) -> Args:
    scope = matter.scope
    if scope is None or (path and is_inside(path, scope)):
        return {}
    changed["scope"] = f"the search keeps to {quoted(scope)}"
    return {"path": scope}


def _own_id(use: ToolUse, taken: set[str]) -> ToolUse:
    """A model's call does not pass for one of the runtime's."""
    fresh = use.id
    while fresh.startswith(RUNTIME) or (fresh != use.id and fresh in taken):
        fresh = f"model-{fresh}"
    taken.add(fresh)
    return use if fresh == use.id else replace(use, id=fresh)
