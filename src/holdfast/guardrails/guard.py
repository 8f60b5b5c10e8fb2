"""The guard-rails: what is done instead of asking a small model, how it is asked, and what becomes of its replies."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from holdfast.agent.guarding import Accept, Act, Again, Finish, Refused, Send, Turn
from holdfast.agent.loading import ANSWER_ONLY, Surface
from holdfast.config.model import GuardrailsConfig
from holdfast.contract.message import Part, Text, ToolUse
from holdfast.contract.tool import Tool
from holdfast.guardrails import answers
from holdfast.guardrails.citations import files_known, loose_citation
from holdfast.guardrails.intent import READ, SEARCH
from holdfast.guardrails.progress import Due, State
from holdfast.guardrails.repair import repaired
from holdfast.guardrails.replay import CITED, CORRECTION, judged, replay
from holdfast.guardrails.turn_facts import RUNTIME, TurnFacts, facts_of, is_by_runtime
from holdfast.models.requests.literals import quoted, several

MAX_CORRECTIONS: Final = 1
"""How often a reply is sent back for the same rule."""
_ELSEWHERE: Final = frozenset({"enabled", "edit_repair"})
"""Whether there are guard-rails is for whoever makes them; unreadable edits are the text protocol's."""
_NOTE: Final = "[runtime:note] "
_SAID_BY_POLICY: Final = frozenset({"surfaces", "evidence"})
"""Rules that hide tools: the model was told that a call is not allowed, and not why."""


class GuardRails:
    """A `Guard`. It keeps nothing: everything follows from the turn, the rules and the tools there are."""

    def __init__(self, config: GuardrailsConfig, tools: Callable[[], Sequence[Tool]]) -> None:
        self._rules = config
        self._tools = tools
        """Those the caller can see without a surface."""
        self._idle = not any(getattr(config, rule) for rule in config.__struct_fields__ if rule not in _ELSEWHERE)

    def prepare(self, turn: Turn) -> Send | Act | Finish:
        if self._idle:
            return Send()
        facts = self._facts(turn)
        if not turn.rounds and self._rules.direct and (outright := _named_outright(facts)) is not None:
            return outright
        ended = answers.own_answer(facts, turn)
        if ended is not None:
            return ended
        state = replay(facts, turn.rounds)
        return (
            answers.limit(state)
            or _reading("evidence", state.due())
            or answers.failed_read(facts, turn, state)
            or answers.nothing_found(state)
            or Send(_surface(state), _notes(state))
        )

    def receive(self, turn: Turn, parts: tuple[Part, ...]) -> Accept | Again | Act | Finish:
        if self._idle:
            return Accept(parts)
        facts = self._facts(turn)
        if any(isinstance(part, ToolUse) for part in parts):
            return repaired(facts, parts)
        state = replay(facts, turn.rounds)
        answer = "".join(part.text for part in parts if isinstance(part, Text))
        return _without_evidence(turn, state) or _citing(turn, state, answer) or Accept(parts)

    def surface(self, turn: Turn) -> Surface | None:
        """The runtime's own calls have all the tools there are: which they are is not the model's choice."""
        if self._idle or (turn.rounds and is_by_runtime(turn.rounds[-1])):
            return None
        return _surface(replay(self._facts(turn), turn.rounds[:-1]))

    def refusals(self, turn: Turn) -> Mapping[str, Refused]:
        if self._idle or not turn.rounds:
            return {}
        calls = judged(replay(self._facts(turn), turn.rounds[:-1]), turn.rounds[-1])
        return {called.step.use.id: refused for called, refused in calls if refused is not None}

    def _facts(self, turn: Turn) -> TurnFacts:
        return facts_of(self._rules, self._tools(), turn)


def _named_outright(facts: TurnFacts) -> Act | None:
    """The call a message spells out, if there is the tool for it."""
    direct = None if facts.asking is None else facts.asking.direct
    if direct is None or not facts.tools.has(direct.tool):
        return None
    args = direct.args if direct.tool != SEARCH or facts.scope is None else {**direct.args, "path": facts.scope}
    what = quoted(str(args.get("path") or args.get("query")))
    return Act("direct", (_use(direct.tool, args),), f"the message names {what}")


def _reading(rule: str, due: Due | None) -> Act | None:
    return None if due is None else Act(rule, (_use(READ, {"path": due.path}),), due.why)


def _use(name: str, args: Mapping[str, str | int]) -> ToolUse:
    return ToolUse(f"{RUNTIME}1", name, json.dumps(args, ensure_ascii=False))


def _surface(state: State) -> Surface | None:
    surface = state.turn.surface
    return ANSWER_ONLY if surface is not None and state.answered else surface


def _notes(state: State) -> tuple[str, ...]:
    facts = state.turn
    notes: list[str] = []
    if state.answered:
        shown = several(state.evidence().shown)
        notes.append(f"You have read {shown}. Answer now from what it says, and ask for nothing more.")
    elif facts.surface is not None:
        left = f"Tools for this message: {', '.join(facts.left)}."
        notes.append(left if facts.left else "This message needs no tools: answer it in words.")
    if not state.answered and state.gathers and not state.candidates and not state.has_evidence():
        notes.append("Look before you answer: search for one word of the code, then read a file the search finds.")
    unexplained = [each.text for each in state.just_refused if each.rule in _SAID_BY_POLICY]
    return (*(f"{_NOTE}{note}" for note in notes), *dict.fromkeys(unexplained))


def _without_evidence(turn: Turn, state: State) -> Again | Act | Finish | None:
    """An answer that came before anything shows it."""
    if not state.gathers or state.has_evidence():
        return None
    if state.candidates or state.search_closed or not _may_correct(turn, "evidence"):
        return _reading("evidence", state.unread()) or answers.no_evidence(state)
    searched = bool(state.searches)
    if state.reads:
        what = f"{several(state.paths_read)} does not show it" + (", and the search found nothing" if searched else "")
    elif searched:
        what = "the search found nothing"
    else:
        what = "no file that shows it was read" if state.looked else "no search was made for this message"
    return _again(
        "evidence",
        f"That cannot be answered yet: {what}. "
        f"Search for {'another' if searched else 'one'} name of the code, and read a file that is found.",
    )


def _citing(turn: Turn, state: State, answer: str) -> Again | Act | Finish | None:
    """An answer that names files it does not know."""
    facts = state.turn
    loose = loose_citation(turn, state, answer) if facts.rules.citations else None
    if loose is None:
        return None
    path = quoted(loose.path)
    if loose.outside and facts.scope is not None:
        scope = quoted(facts.scope)
        if _may_correct(turn, "citations"):
            about = f"Answer again, about {scope} only."
            return _again("citations", f"Your answer names {path}, which is not in {scope}. {about}")
        what = f"The model was stopped: its answer is about {path}, which is not in {scope}"
        return answers.stopped("citations", what, state)
    if loose.found is not None and CITED not in state.acts and facts.tools.has(READ):
        return _reading("citations", Due(CITED, loose.found, f"the answer names {quoted(loose.found)}"))
    if _may_correct(turn, "citations"):
        read = files_known(turn, facts.tools)
        known = f"Name only files you have read: {several(read)}." if read else "You have read no file."
        return _again("citations", f"Your answer names {path}, which was not read. {known} Answer again.")
    return answers.stopped("citations", f"The model was stopped: its answer names {path}, which it has not read", state)


def _again(rule: str, note: str) -> Again:
    return Again(rule, f"{CORRECTION}{note}")


def _may_correct(turn: Turn, rule: str) -> bool:
    return turn.corrected.get(rule, 0) < MAX_CORRECTIONS
