"""The guard-rails: what is done instead of asking a small model, how it is asked, and what becomes of its replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from holdfast.agent.guard import answers, wording
from holdfast.agent.guard.calls import READ, is_by_runtime
from holdfast.agent.guard.citing import files_known, loose_end
from holdfast.agent.guard.direct import named_outright, reading
from holdfast.agent.guard.matter import Matter, matter_of
from holdfast.agent.guard.mending import mended
from holdfast.agent.guard.progress import due, evidence_of, has_evidence, unread
from holdfast.agent.guard.replay import CITED, judged, replay
from holdfast.agent.guard.state import State
from holdfast.agent.guarding import Accept, Act, Again, Finish, Refused, Send, Turn
from holdfast.agent.surfaces import ANSWER_ONLY, Surface
from holdfast.config.model import GuardrailsConfig
from holdfast.contract.message import Part, Text, ToolUse
from holdfast.contract.tool import Tool

MAX_CORRECTIONS: Final = 1
"""How often a reply is sent back for the same rule."""
_ELSEWHERE: Final = frozenset({"enabled", "edit_repair"})
"""Whether there are guard-rails is for whoever makes them; unreadable edits are the text protocol's."""

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
        matter = self._matter(turn)
        if not turn.rounds and self._rules.direct:
            outright = named_outright(matter)
            if outright is not None:
                return outright
        ended = answers.own_answer(matter, turn)
        if ended is not None:
            return ended
        state = replay(matter, turn.rounds)
        return (
            answers.limit(state)
            or _read_next(state)
            or answers.failed_read(matter, turn, state)
            or answers.nothing_found(state)
            or Send(_surface(state), _notes(state))
        )

    def receive(self, turn: Turn, parts: tuple[Part, ...]) -> Accept | Again | Act | Finish:
        if self._idle:
            return Accept(parts)
        matter = self._matter(turn)
        if any(isinstance(part, ToolUse) for part in parts):
            return mended(matter, parts)
        state = replay(matter, turn.rounds)
        answer = "".join(part.text for part in parts if isinstance(part, Text))
        return _without_evidence(turn, state) or _citing(turn, state, answer) or Accept(parts)

    def surface(self, turn: Turn) -> Surface | None:
        """The runtime's own calls have all the tools there are: which they are is not the model's choice."""
        if self._idle or (turn.rounds and is_by_runtime(turn.rounds[-1])):
            return None
        return _surface(replay(self._matter(turn), turn.rounds[:-1]))

    def refusals(self, turn: Turn) -> Mapping[str, Refused]:
        if self._idle or not turn.rounds:
            return {}
        calls = judged(replay(self._matter(turn), turn.rounds[:-1]), turn.rounds[-1])
        return {call.called.id: call.refused for call in calls if call.refused is not None}

    def _matter(self, turn: Turn) -> Matter:
        return matter_of(self._rules, self._tools(), turn)


def _surface(state: State) -> Surface | None:
    surface = state.matter.surface
    return ANSWER_ONLY if surface is not None and state.answered else surface


def _notes(state: State) -> tuple[str, ...]:
    matter = state.matter
    notes: list[str] = []
    if state.answered:
        notes.append(wording.answer_now(evidence_of(state).shown))
    else:
        if matter.surface is not None:
            notes.append(wording.tools_left(matter.left))
        if state.gathers and not state.candidates and not has_evidence(state):
            notes.append(wording.look_first())
    unexplained = [each.text for each in state.just_refused if each.rule in _SAID_BY_POLICY]
    return (*notes, *dict.fromkeys(unexplained))


def _read_next(state: State) -> Act | None:
    wanted = due(state)
    return None if wanted is None else reading("evidence", wanted.path, wanted.why)


def _without_evidence(turn: Turn, state: State) -> Again | Act | Finish | None:
    """An answer that came before anything shows it."""
    if not state.gathers or has_evidence(state):
        return None
    if not state.candidates and not state.search_closed and _may_correct(turn, "evidence"):
        return Again("evidence", wording.no_evidence_yet(bool(state.searches), state.looked, state.paths_read))
    wanted = unread(state)
    return answers.no_evidence(state) if wanted is None else reading("evidence", wanted.path, wanted.why)


def _citing(turn: Turn, state: State, answer: str) -> Again | Act | Finish | None:
    """An answer that names files it does not know."""
    matter = state.matter
    loose = loose_end(turn, state, answer) if matter.rules.citations else None
    if loose is None:
        return None
    if loose.outside and matter.scope is not None:
        if _may_correct(turn, "citations"):
            return Again("citations", wording.out_of_scope(loose.path, matter.scope))
        return answers.out_of_scope(loose.path, matter.scope, state)
    if loose.found is not None and CITED not in state.acts and matter.tools.has(READ):
        return reading("citations", loose.found, f"the answer names {wording.quoted(loose.found)}")
    if _may_correct(turn, "citations"):
        return Again("citations", wording.not_read(loose.path, files_known(turn, matter.tools)))
    return answers.loose_citation(loose.path, state)


def _may_correct(turn: Turn, rule: str) -> bool:
    return turn.corrected.get(rule, 0) < MAX_CORRECTIONS
