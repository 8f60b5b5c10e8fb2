"""`TextModel` gives tool calls to models without native ones, and corrects what they write wrong."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from enum import StrEnum
from typing import Final, cast

from msgspec.structs import replace

from holdfast.contract.message import Message, Text, Thinking, ToolUse
from holdfast.contract.tool import Tool
from holdfast.models.call_arguments import encode_arguments
from holdfast.models.port import (
    COMPLETE_STOPS,
    CORRECTION_MARK,
    Model,
    ModelError,
    ModelEvent,
    ModelFault,
    PartEnded,
    ProtocolChoice,
    Retrying,
    Settings,
    Usage,
    WrappedModel,
)
from holdfast.models.requests.masked_text import find_fences
from holdfast.models.schema_outline import shorten
from holdfast.models.text_protocol.prompt import CALL_FORMS, NO_TOOLS, failed_edit_path, to_plain_text, write_call
from holdfast.models.text_protocol.stream import TextReply
from holdfast.models.text_protocol.syntax import WRITE_EMPTY, ProblemKind, SyntaxProblem
from holdfast.models.written_calls import WrittenCalls, find_calls

_MAX_TAG: Final = 60
_NO_FORM: Final = re.compile(
    r"[ \t]*\[(?P<name>edit_file(?=:)|git_(?:status|diff|log)(?=:)|(?:read_file|list_dir|call)(?=\]))"
    r":?(?P<rest>[^\[\]\n]*+)\][ \t]*"
)
"""A known name in brackets, alone on its line, in a form that no call has."""


class CorrectionKind(StrEnum):
    """A kind of mistake; a model is corrected once for each."""

    FABRICATED = "fabricated"
    EDIT = "edit"
    MALFORMED = "malformed"
    OTHER_FORM = "other_form"


_CAUSED_BY_TRUNCATION: Final = frozenset({ProblemKind.UNCLOSED, ProblemKind.OPEN_FENCE})
_CORRECTED_AS: Final = {
    ProblemKind.FABRICATED: CorrectionKind.FABRICATED,
    ProblemKind.UNREADABLE_EDIT: CorrectionKind.EDIT,
}
_MISTAKES: Final = {
    CorrectionKind.FABRICATED: "wrote the result of a tool itself",
    CorrectionKind.EDIT: "wrote an edit in a form that cannot be read",
    CorrectionKind.MALFORMED: "wrote a tool call in a form that cannot be read",
    CorrectionKind.OTHER_FORM: "wrote a tool call in a form of its own",
}


def worst_problem(problems: Sequence[SyntaxProblem], *, cut: bool) -> tuple[CorrectionKind, SyntaxProblem] | None:
    """Return the most serious problem of a reply, or None. `cut`: the reply was truncated, not ended by the model."""
    counted = [problem for problem in problems if not (cut and problem.kind in _CAUSED_BY_TRUNCATION)]
    found = {_CORRECTED_AS.get(problem.kind, CorrectionKind.MALFORMED): problem for problem in reversed(counted)}
    return next(((kind, found[kind]) for kind in CorrectionKind if kind in found), None)


def retry_reason(kind: CorrectionKind) -> str:
    """Shown to the user while the model is corrected."""
    return f"The model {_MISTAKES[kind]}; nothing was run, and the model was asked to correct it."


def give_up_message(name: str, kind: CorrectionKind) -> str:
    return (
        f"{name} {_MISTAKES[kind]}, and again after it was corrected; nothing was run; "
        "ask for less at a time, or choose another model."
    )


def correction_message(kind: CorrectionKind, problem: SyntaxProblem, *, failed_edit: str | None = None) -> str:
    """Return the message to send. `failed_edit`: the path of the failed edit that this one was meant to repair."""
    if kind is CorrectionKind.FABRICATED:
        return (
            f"{CORRECTION_MARK} Line {problem.line} of your reply is a tool result that you wrote yourself. "
            "Only the runtime writes results. Nothing was run. Write the call alone, then stop and wait for its result."
        )
    if kind is CorrectionKind.EDIT and failed_edit is not None:
        return (
            f"{CORRECTION_MARK} Your edit of {failed_edit} failed, and the [edit_file] block that was to repair it "
            "cannot be read. Nothing was changed. Copy OLD TEXT from the file as it is now, and write exactly:\n"
            f"{CALL_FORMS['edit_file'].replace('PATH', failed_edit, 1)}"
        )
    form = CALL_FORMS.get(problem.tag.strip("[/]:"))
    shown = f" Write it exactly like this:\n{form}" if form else ""
    return f"{CORRECTION_MARK} Nothing was run: {_describe_problem(problem)}.{shown}"


def other_form_message(written: WrittenCalls) -> str:
    """Return the message for calls in another form that were not made, each in the form to write."""
    made_up = " Only the runtime writes results." if written.fabricated else ""
    forms = [write_call(ToolUse("", call.name, encode_arguments(call.args))) for call in written.calls]
    wanted = "\n".join(forms) or CALL_FORMS["call"]
    return (
        f"{CORRECTION_MARK} Nothing was run: your reply has a tool call in another form.{made_up} Write exactly this, "
        f"and nothing else:\n{wanted}"
    )


def misspelt_call(text: str) -> str:
    """Return how to write a call that has a known name but no known form; empty if there is none.

    `text` is a reply without calls. What it quotes in fences does not count.
    """
    lines = text.splitlines()
    fenced = {place for start, end in find_fences(lines).items() for place in range(start, end + 1)}
    found = (_NO_FORM.fullmatch(line) for place, line in enumerate(lines) if place not in fenced)
    match = next(filter(None, found), None)
    if match is None:
        return ""
    path = match["rest"].strip()
    form = CALL_FORMS[match["name"]].replace("PATH", path, 1) if path else CALL_FORMS[match["name"]]
    return f"{shorten(match[0].strip(), _MAX_TAG)} is no call. Write it exactly like this:\n{form}"


def _describe_problem(problem: SyntaxProblem) -> str:
    tag, where = shorten(problem.tag, _MAX_TAG), f"on line {problem.line}"
    match problem.kind:
        case ProblemKind.UNOPENED:
            return f"{tag} {where} closes nothing"
        case ProblemKind.UNCLOSED:
            return f"{tag} {where} is not closed"
        case ProblemKind.OPEN_FENCE if not tag.startswith("["):
            return f"the code fence {where} is not closed, so it is unclear which of your calls are quoted"
        case ProblemKind.OPEN_FENCE:
            return f"the code fence {where} is not closed, and {tag} in it does not count; write calls outside fences"
        case ProblemKind.UNREADABLE if problem.tag == WRITE_EMPTY:
            return f"{tag} PATH] {where} writes an empty file, and what was to be in it follows"
        case _:
            return f"the {tag} block {where} cannot be read"


class TextModel(WrappedModel):
    """Prompts `inner` with the call syntax, parses calls from its replies, and corrects each kind of mistake once."""

    def __init__(
        self, inner: Model, *, choice: ProtocolChoice | None = None, edit_repair: bool = True, system_role: bool = True
    ) -> None:
        super().__init__(inner, choice or ProtocolChoice("text"))
        self.edit_repair = edit_repair
        self.system_role = system_role
        """Whether it accepts a system message; otherwise the prompt goes into the first user message."""
        self._tools: dict[str, Tool] = {}
        """All tools that were offered: a call of one that is no longer offered is still no answer."""

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Tool], settings: Settings
    ) -> AsyncGenerator[ModelEvent]:
        self._tools |= {tool.name: tool for tool in tools}
        sent = to_plain_text(messages, tools, system_role=self.system_role)
        corrected: list[CorrectionKind] = []
        spent: Usage | None = None
        """By all complete replies, including corrected ones."""
        while True:
            reply = TextReply(self.name)
            stream = cast(AsyncGenerator[ModelEvent], self.inner.stream(sent, (), settings))
            try:
                async with aclosing(stream) as events:
                    async for event in events:
                        if isinstance(event, Retrying):
                            reply = TextReply(self.name)
                            yield event
                        for ours in reply.feed(event):
                            yield ours
            except ModelError as error:
                error.add_usage(spent)
                raise
            ended = reply.ended
            if ended is None:
                raise self.incomplete_reply(spent)
            spent = ended.usage if spent is None else spent + ended.usage
            whole = ended.stop in COMPLETE_STOPS
            wrong = worst_problem(reply.problems, cut=not whole)
            is_answer = wrong is None and whole and not reply.has_calls
            written = find_calls(reply.text, tuple(self._tools.values())) if is_answer else None
            misspelt = misspelt_call(reply.text) if is_answer else ""
            if wrong is not None:
                kind, problem = wrong
                edited = failed_edit_path(messages) if self.edit_repair else None
                note = correction_message(kind, problem, failed_edit=edited)
            elif written is None or not (written.are_any or misspelt):
                break
            elif not written.are_any:
                what = misspelt if tools else NO_TOOLS
                kind, note = CorrectionKind.MALFORMED, f"{CORRECTION_MARK} Nothing was run: {what}"
            elif written.may_be_made(corrected=CorrectionKind.OTHER_FORM in corrected):
                yield Retrying(len(corrected) + 1, 0.0, "The model wrote its call in another form; the call is made.")
                for thought in reply.raw.parts:
                    if isinstance(thought, Thinking):
                        yield PartEnded(thought)
                for ours in written.events():
                    yield ours
                yield replace(ended, stop="tool_use", usage=spent)
                return
            else:
                kind, note = CorrectionKind.OTHER_FORM, other_form_message(written)
            if kind in corrected:
                raise ModelError(ModelFault.MALFORMED, give_up_message(self.name, kind), usage=spent)
            corrected.append(kind)
            yield Retrying(len(corrected), 0.0, retry_reason(kind))
            sent = [*sent, reply.raw, Message("user", (Text(note),))]
        # The last block of a truncated reply may be incomplete.
        calls = reply.has_calls and not reply.problems and whole
        for ours in reply.finish(calls=calls):
            yield ours
        yield replace(ended, stop="tool_use" if calls else ended.stop, usage=spent)
