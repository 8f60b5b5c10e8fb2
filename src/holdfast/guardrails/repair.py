"""Calls of a reply, put right before they are kept: queries of one word, searches within the scope."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from holdfast.agent.guarding import Accept, Step
from holdfast.contract.message import Part, ToolUse
from holdfast.contract.values import Args
from holdfast.guardrails.evidence import is_inside
from holdfast.guardrails.intent import SEARCH
from holdfast.guardrails.turn_facts import RUNTIME, TurnFacts
from holdfast.models.requests.literals import quoted
from holdfast.models.requests.words import words_of

_WORD: Final = re.compile(r"""[^\s\\()\[\]{}.,;:"'`]+""")
_SAYS_NOTHING: Final = words_of(
    # about asking
    "a an and are fn for find how in initialize initialized initialization implemented is of or the to what where "
    "initialise initialised initialisation all every does do we search locate show usage usages uses used called "
    "callers calls definition definitions defined declared "
    # like `fn` found in every file, while the word after them is the one that is meant
    "def class function func struct enum trait interface impl pub async "
    # what stands before the dot of a name that is meant
    "self this cls"
)
_SHORTEST: Final = 3


def simplified(query: str) -> str:
    """The first word that says something and would not find everything; the query itself if there is none.

    Words end at white space, quotes, brackets and ``\\ . , ; :``. Question words, the keywords of a declaration and
    `self` say nothing, in any case of letters: `where is fn parse_line` is `parse_line`, `Session::open()` is
    `Session`, `os.path.join` is `path`.
    """
    words = (match[0] for match in _WORD.finditer(query))
    return next((word for word in words if word.lower() not in _SAYS_NOTHING and not is_weak(word)), query)


def is_weak(query: str) -> bool:
    """Whether it would find everything: empty, shorter than three characters, or `git`."""
    word = query.strip()
    return len(word) < _SHORTEST or word.lower() == "git"


def repaired(turn: TurnFacts, parts: Sequence[Part]) -> Accept:
    changed: dict[str, str] = {}
    taken = {part.id for part in parts if isinstance(part, ToolUse)}
    made = [
        _own_id(_search(turn, part, changed), taken) if isinstance(part, ToolUse) else part for part in parts
    ]
    return Accept(tuple(made), changed)


def _search(turn: TurnFacts, use: ToolUse, changed: dict[str, str]) -> ToolUse:
    called = turn.tools.called(Step(use))
    if called.name != SEARCH or not called.args:
        return use
    right: Args = dict(called.args)
    query, scope = called.query, turn.scope
    if query is not None and turn.rules.simplify_queries and (word := simplified(query)) != query:
        changed["simplify_queries"] = f"{quoted(query)} is searched as {quoted(word)}"
        right["query"] = word
    if scope is not None and not (called.path and is_inside(called.path, scope)):
        changed["scope"] = f"the search keeps to {quoted(scope)}"
        right["path"] = scope
    return use if right == called.args else replace(use, arguments=json.dumps(right, ensure_ascii=False))


def _own_id(use: ToolUse, taken: set[str]) -> ToolUse:
    """A model's call does not pass for one of the runtime's."""
    fresh = use.id
    while fresh.startswith(RUNTIME) or (fresh != use.id and fresh in taken):
        fresh = f"model-{fresh}"
    taken.add(fresh)
    return use if fresh == use.id else replace(use, id=fresh)
