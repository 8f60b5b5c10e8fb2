"""`TextModel` gives tool calls to models without native ones; the protocol is chosen per model."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from enum import StrEnum
from typing import Final, Literal, cast

from msgspec import Struct
from msgspec.structs import replace

from holdfast.config.config import ModelConfig, Protocol
from holdfast.contract.message import Message, Text
from holdfast.contract.tool import Tool
from holdfast.models.port import Model, ModelError, ModelEvent, ModelFault, Retrying, Settings, StopReason, Usage
from holdfast.models.providers import OPERATOR, api_of
from holdfast.models.text_protocol.prompt import CALL_FORMS, failed_edit_path, shorten, to_plain_text
from holdfast.models.text_protocol.stream import TextReply
from holdfast.models.text_protocol.syntax import WRITE_EMPTY, ProblemKind, SyntaxProblem

CORRECTION_MARK: Final = "[runtime:correction]"
_MAX_TAG: Final = 60


class CorrectionKind(StrEnum):
    """A kind of mistake; a model is corrected once for each."""

    FABRICATED = "fabricated"
    EDIT = "edit"
    MALFORMED = "malformed"


_CAUSED_BY_TRUNCATION: Final = frozenset({ProblemKind.UNCLOSED, ProblemKind.OPEN_FENCE})
_CORRECTED_AS: Final = {
    ProblemKind.FABRICATED: CorrectionKind.FABRICATED,
    ProblemKind.UNREADABLE_EDIT: CorrectionKind.EDIT,
}
_MISTAKES: Final = {
    CorrectionKind.FABRICATED: "wrote the result of a tool itself",
    CorrectionKind.EDIT: "wrote an edit in a form that cannot be read",
    CorrectionKind.MALFORMED: "wrote a tool call in a form that cannot be read",
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


_COMPLETE_STOPS: Final[frozenset[StopReason]] = frozenset({"end", "tool_use"})
"""Stop reasons of complete replies."""


class ProtocolChoice(Struct, frozen=True):
    """How tool calls are exchanged with a model."""

    protocol: Literal["native", "text"]
    reason: str = ""
    """Empty if the user configured the protocol."""

    def notice(self, name: str) -> str:
        """Return a notice for the user; empty if the protocol is the expected one."""
        return f"{name} writes its tool calls as text: {self.reason}." if self.reason else ""


class _WrappedModel:
    """A model that delegates to another one."""

    def __init__(self, inner: Model, choice: ProtocolChoice) -> None:
        self.inner = inner
        self.choice = choice

    @property
    def provider(self) -> str:
        return self.inner.provider

    @property
    def name(self) -> str:
        return self.inner.name


class TextModel(_WrappedModel):
    """Prompts `inner` with the call syntax, parses calls from its replies, and corrects each kind of mistake once."""

    def __init__(
        self, inner: Model, *, choice: ProtocolChoice | None = None, edit_repair: bool = True, system_role: bool = True
    ) -> None:
        super().__init__(inner, choice or ProtocolChoice("text"))
        self.edit_repair = edit_repair
        self.system_role = system_role
        """Whether it accepts a system message; otherwise the prompt goes into the first user message."""

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Tool], settings: Settings
    ) -> AsyncGenerator[ModelEvent]:
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
                error.usage = _add_usage(spent, error.usage)
                raise
            ended = reply.ended
            if ended is None:
                message = f"The reply of {self.name} ended before it was complete; send again."
                raise ModelError(ModelFault.CUT, message, usage=spent)
            spent = ended.usage if spent is None else spent + ended.usage
            whole = ended.stop in _COMPLETE_STOPS
            wrong = worst_problem(reply.problems, cut=not whole)
            if wrong is None:
                break
            kind, problem = wrong
            if kind in corrected:
                raise ModelError(ModelFault.PROTOCOL, give_up_message(self.name, kind), usage=spent)
            corrected.append(kind)
            yield Retrying(len(corrected), 0.0, retry_reason(kind))
            edited = failed_edit_path(messages) if self.edit_repair else None
            correction = Message("user", (Text(correction_message(kind, problem, failed_edit=edited)),))
            sent = [*sent, reply.raw, correction]
        # The last block of a truncated reply may be incomplete.
        calls = reply.has_calls and not reply.problems and whole
        for ours in reply.finish(calls=calls):
            yield ours
        yield replace(ended, stop="tool_use" if calls else ended.stop, usage=spent)


def _add_usage(before: Usage | None, after: Usage | None) -> Usage | None:
    return before + after if before and after else before or after


AS_OF: Final = "November 2026"
_NUMBER_END: Final = r"(?!\.?[0-9])"
"""Ends the version number of a model generation."""
_WORD_END: Final = r"(?![a-z0-9])"
_TEXT_ONLY_MODELS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        # Gemma 1 to 3; the fourth generation and `functiongemma` call tools.
        rf"(code)?gemma($|:|[-_]?[23]n?(?![a-z]){_NUMBER_END}|[-_]1\.1[-_]|[-_][27]b{_WORD_END})",
        rf"phi($|:|[-_]?(1|1[._]5|2|3|3[._]5){_NUMBER_END}(?![a-z]))",
        r"phi[-_]?4($|:|[-_]reasoning)",  # not `phi4-mini`
        r"smollm($|:|-(135m|360m|1\.7b))",
        r"smollm2[:-](135m|360m)",
        r"tiny(llama|dolphin)",
        r"llama-?2($|[-:_])",
        r"(meta-)?llama-?3($|:|-(8|70)b)",  # not 3.1 and later
        r"codellama",
        r"orca-?(mini|2)",
        r"(star|wizard)coder",
        rf"deepseek-(coder|llm)($|:|-(v2|[0-9.]+b){_WORD_END}{_NUMBER_END})",  # not a later generation
        rf"dolphin-(mistral|phi)($|:|-(7b|2){_WORD_END})",
        r"(vicuna|wizardlm|stablelm|stable-code|zephyr|neural-chat)",
        r"qwen(:|-?1\.5|-(0\.5|1\.8|4|7|14|72)b)",
    )
)
"""Name prefixes of models that were not trained to call tools, in the spelling of local servers, as of `AS_OF`. A
missing one is detected by trying; a wrong one can be configured as `native`."""
_TOOL_VARIANT: Final = re.compile(r"(?<![a-z])(tools?|functions?|functionary)(?![a-z])")
"""Marks variants that were fine-tuned for tool calls."""
_NO_SYSTEM_ROLE: Final = re.compile(
    rf"(code)?gemma($|:|[-_]?2(?![a-z]){_NUMBER_END}|[-_]1\.1[-_]|[-_][27]b{_WORD_END})"
)
"""On some servers their chat templates reject a system message; on the others its position makes no difference."""
ProtocolSelection = Literal["native", "text", "try"]


def select_protocol(config: ModelConfig) -> ProtocolSelection:
    """`try`: native calls first, the text protocol if the server reports that it does not support tools."""
    provider, _, model = config.name.partition(":")
    if config.name == OPERATOR:
        return "native"
    if (wanted := _configured_protocol(config)) != "auto":
        return wanted
    if api_of(config, provider) != "openai-chat":
        return "native"
    return "text" if is_text_only(model) else "try"


def is_text_only(model: str) -> bool:
    bare = _bare_name(model)
    return not _TOOL_VARIANT.search(bare) and any(pattern.match(bare) for pattern in _TEXT_ONLY_MODELS)


def with_protocol(model: Model, config: ModelConfig, *, edit_repair: bool = True) -> Model:
    """Wrap a model in the configured protocol. `protocol_choice` reports which one applies, and why."""
    bare = config.name.partition(":")[2]
    system_role = _NO_SYSTEM_ROLE.match(_bare_name(bare)) is None
    match select_protocol(config):
        case "native":
            return model
        case "try":
            return FallbackModel(model, TextModel(model, edit_repair=edit_repair, system_role=system_role))
        case "text":
            known = (
                "" if _configured_protocol(config) != "auto" else f"models such as {bare} were not made to call tools"
            )
            return TextModel(
                model, choice=ProtocolChoice("text", known), edit_repair=edit_repair, system_role=system_role
            )


def protocol_choice(model: Model) -> ProtocolChoice:
    """Return the current protocol of a model; a fallback may change it with the first reply."""
    found = getattr(model, "choice", None)
    return found if isinstance(found, ProtocolChoice) else ProtocolChoice("native")


class FallbackModel(_WrappedModel):
    """Uses native tool calls until the server reports that it does not support them, then the text protocol."""

    def __init__(self, inner: Model, text: TextModel) -> None:
        super().__init__(inner, ProtocolChoice("native"))
        self.text = text

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Tool], settings: Settings
    ) -> AsyncGenerator[ModelEvent]:
        if self.choice.protocol == "native":
            native = cast(AsyncGenerator[ModelEvent], self.inner.stream(messages, tools, settings))
            try:
                async with aclosing(native) as events:
                    async for event in events:
                        yield event
            except ModelError as error:
                if error.fault is not ModelFault.NO_TOOLS:
                    raise
            else:
                return
            self.choice = ProtocolChoice("text", "its server says that it takes no tools")
            yield Retrying(1, 0.0, self.choice.notice(self.name))
        async with aclosing(self.text.stream(messages, tools, settings)) as events:
            async for event in events:
                yield event


def _bare_name(model: str) -> str:
    """Strip folders and owners: `google/gemma-3-4b-it`, `hf.co/somebody/gemma-3-4b-it-GGUF:Q4_K_M`."""
    return model.rpartition("/")[2].lower()


def _configured_protocol(config: ModelConfig) -> Protocol:
    """Return the configured protocol: the provider's, else the general one."""
    own = config.providers.get(config.name.partition(":")[0])
    return (own.protocol if own else None) or config.protocol
