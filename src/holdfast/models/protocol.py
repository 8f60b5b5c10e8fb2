"""Chooses how a model calls tools: natively, with enforced JSON replies, or with the text protocol."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Final, Literal, cast

from msgspec.structs import replace

from holdfast.config.config import ModelConfig, Protocol
from holdfast.contract.json import Args, encode_json
from holdfast.contract.message import Message, ToolUse
from holdfast.contract.tool import Tool
from holdfast.models.constrained import ConstrainedModel, probe_schemas
from holdfast.models.constrained import write_call as write_json_call
from holdfast.models.native import NativeModel
from holdfast.models.port import (
    Model,
    ModelError,
    ModelEvent,
    ModelFault,
    ProtocolChoice,
    ReplyEnded,
    Retrying,
    Settings,
    Usage,
    WrappedModel,
)
from holdfast.models.providers import OPERATOR, api_of
from holdfast.models.text_protocol.prompt import write_call as write_text_call
from holdfast.models.text_protocol.syntax import short_name
from holdfast.models.text_protocol.text_model import TextModel

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
_SMALL: Final = re.compile(r"(?<![a-z0-9.])(?:[0-9]{2,3}m|(?:0\.[0-9]+|[1-3](?:\.[0-9]+)?|4)b)(?![a-z0-9])")
"""Sizes up to 4 billion parameters. The active parameters of a mixture of experts (`30b-a3b`) do not count."""
ProtocolSelection = Literal["native", "text", "constrained", "probe", "try"]


def select_protocol(config: ModelConfig) -> ProtocolSelection:
    """`probe`: enforced JSON if the server can, otherwise as for any other model. `try`: native calls, and if the
    server reports that it does not support tools, enforced JSON or text."""
    provider, _, model = config.name.partition(":")
    if config.name == OPERATOR:
        return "native"
    if (wanted := _configured_protocol(config)) != "auto":
        return wanted
    if api_of(config, provider) != "openai-chat":
        return "native"
    return "probe" if is_text_only(model) or is_small(model) else "try"


def is_text_only(model: str) -> bool:
    bare = _bare_name(model)
    return not _TOOL_VARIANT.search(bare) and any(pattern.match(bare) for pattern in _TEXT_ONLY_MODELS)


def is_small(model: str) -> bool:
    """Whether the name gives a size at which models rarely write a native call that can be read."""
    bare = _bare_name(model)
    return not _TOOL_VARIANT.search(bare) and _SMALL.search(bare) is not None


def with_protocol(model: Model, config: ModelConfig, *, edit_repair: bool = True) -> Model:
    """Wrap a model in the configured protocol. `protocol_choice` reports which one applies, and why."""
    bare = config.name.partition(":")[2]
    system_role = _NO_SYSTEM_ROLE.match(_bare_name(bare)) is None
    selected = select_protocol(config)
    native = NativeModel(model) if api_of(config, config.name.partition(":")[0]) == "openai-chat" else model
    if selected == "native":
        return native
    is_known = selected == "probe" and is_text_only(bare)
    why = f"models such as {bare} were not made to call tools" if is_known else ""
    text = TextModel(model, choice=ProtocolChoice("text", why), edit_repair=edit_repair, system_role=system_role)
    if selected == "text":
        return text
    constrained = ConstrainedModel(model, system_role=system_role)
    if selected == "constrained":
        return constrained
    if selected == "try":
        return FallbackModel(native, ProbedModel(model, constrained, text))
    return ProbedModel(model, constrained, text if is_known else FallbackModel(native, text))


def protocol_choice(model: Model) -> ProtocolChoice:
    """Return the current protocol of a model; the first reply may change it."""
    found = getattr(model, "choice", None)
    return found if isinstance(found, ProtocolChoice) else ProtocolChoice("native")


class CallWriter:
    """How a model writes its calls, in the protocol that it uses now."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def name(self, tool: Tool) -> str:
        return tool.api_name if protocol_choice(self._model).protocol == "native" else short_name(tool.name)

    def call(self, tool: Tool, args: Args) -> str:
        match protocol_choice(self._model).protocol:
            case "constrained":
                return write_json_call(short_name(tool.name), args)
            case "text":
                # The block for an edit always replaces the first match.
                given = {**args, "mode": args.get("mode", "first")} if short_name(tool.name) == "edit_file" else args
                return write_text_call(ToolUse("", tool.name, encode_json(given).decode()))
            case "native":
                return f"{tool.api_name} with {encode_json(args).decode()}"


class FallbackModel(WrappedModel):
    """Uses native tool calls until the server reports that it does not support them, then another protocol."""

    def __init__(self, inner: Model, otherwise: TextModel | ProbedModel) -> None:
        super().__init__(inner, ProtocolChoice("native"))
        self.otherwise = otherwise
        self._is_native = True

    @property
    def choice(self) -> ProtocolChoice:
        if self._is_native:
            return super().choice
        return replace(self.otherwise.choice, reason="its server says that it takes no tools")

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Tool], settings: Settings
    ) -> AsyncGenerator[ModelEvent]:
        spent: Usage | None = None
        if self._is_native:
            native = cast(AsyncGenerator[ModelEvent], self.inner.stream(messages, tools, settings))
            try:
                async with aclosing(native) as events:
                    async for event in events:
                        yield event
            except ModelError as error:
                if error.fault is not ModelFault.NO_TOOLS:
                    raise
                spent = error.usage
            else:
                return
            if isinstance(self.otherwise, ProbedModel):
                await self.otherwise.probe(settings)
            self._is_native = False
            yield Retrying(1, 0.0, self.choice.notice(self.name))
        async with aclosing(_with_usage(self.otherwise.stream(messages, tools, settings), lambda: spent)) as events:
            async for event in events:
                yield event


class ProbedModel(WrappedModel):
    """Asks the server once whether it enforces schemas; uses enforced JSON if it does."""

    def __init__(self, inner: Model, constrained: ConstrainedModel, otherwise: TextModel | FallbackModel) -> None:
        super().__init__(inner, constrained.choice)
        self.constrained = constrained
        self.otherwise = otherwise
        self._used: ConstrainedModel | TextModel | FallbackModel | None = None
        self._is_proven = False
        """Whether the server has accepted the schema of a real reply."""
        self._lock = asyncio.Lock()
        self._spent: Usage | None = None
        """By the probe, until a reply or an error reports it."""

    @property
    def choice(self) -> ProtocolChoice:
        """Before the probe, what most servers can do."""
        return (self._used or self.constrained).choice

    async def probe(self, settings: Settings) -> bool:
        """Choose the protocol, unless it is chosen; returns whether it was not.

        Raises `ModelError` if the server cannot be asked. Concurrent streams wait for one probe.
        """
        async with self._lock:
            if self._used is not None:
                return False
            enforced, self._spent = await probe_schemas(self.inner, settings)
            self._used = self.constrained if enforced else self.otherwise
            return True

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Tool], settings: Settings
    ) -> AsyncGenerator[ModelEvent]:
        if await self.probe(settings) and (notice := self.choice.notice(self.name)):
            yield Retrying(1, 0.0, notice)
        if self._used is self.constrained:
            try:
                stream = _with_usage(self.constrained.stream(messages, tools, settings), self._take_spent)
                async with aclosing(stream) as events:
                    async for event in events:
                        self._is_proven |= not isinstance(event, Retrying)
                        yield event
            except ModelError as error:
                # A server may enforce the simple schema of the probe, and reject the larger one of a reply.
                if error.fault is not ModelFault.BAD_REQUEST or self._is_proven:
                    raise
                self._spent = error.usage
                self._used = self.otherwise
            else:
                return
            yield Retrying(1, 0.0, f"The server of {self.name} rejects the schema of replies; it gets tools otherwise.")
        async with aclosing(_with_usage(self.otherwise.stream(messages, tools, settings), self._take_spent)) as events:
            async for event in events:
                yield event

    def _take_spent(self) -> Usage | None:
        spent, self._spent = self._spent, None
        return spent


async def _with_usage(
    stream: AsyncGenerator[ModelEvent], spent: Callable[[], Usage | None]
) -> AsyncGenerator[ModelEvent]:
    """Pass on a stream and add tokens that were spent before to its end, be it a reply or an error."""
    try:
        async with aclosing(stream) as events:
            async for event in events:
                if isinstance(event, ReplyEnded) and (before := spent()):
                    yield replace(event, usage=event.usage + before)
                else:
                    yield event
    except ModelError as error:
        error.add_usage(spent())
        raise


def _bare_name(model: str) -> str:
    """Strip folders and owners: `google/gemma-3-4b-it`, `hf.co/somebody/gemma-3-4b-it-GGUF:Q4_K_M`."""
    return model.rpartition("/")[2].lower()


def _configured_protocol(config: ModelConfig) -> Protocol:
    """Return the configured protocol: the provider's, else the general one."""
    own = config.providers.get(config.name.partition(":")[0])
    return (own.protocol if own else None) or config.protocol
