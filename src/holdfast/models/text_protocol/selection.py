"""Which models are spoken to in text: what the configuration says, what is known of them, and what is tried."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final, Literal, cast

from holdfast.config.model import ModelConfig, Protocol
from holdfast.contract.message import Message
from holdfast.contract.tool import Tool
from holdfast.models.port import Model, ModelError, ModelEvent, ModelFault, Retrying
from holdfast.models.providers import OPERATOR, api_of
from holdfast.models.settings import Settings
from holdfast.models.text_protocol.model import Chosen, TextModel

AS_OF: Final = "November 2026"
_END: Final = r"(?!\.?[0-9])"
"""Behind a generation: no more of its number."""
_SIZE: Final = r"(?![a-z0-9])"
_ONLY_WRITE: Final = tuple(
    re.compile(pattern)
    for pattern in (
        # Gemma 1 to 3; the fourth generation and `functiongemma` call tools.
        rf"(code)?gemma($|:|[-_]?[23]n?(?![a-z]){_END}|[-_]1\.1[-_]|[-_][27]b{_SIZE})",
        rf"phi($|:|[-_]?(1|1[._]5|2|3|3[._]5){_END}(?![a-z]))",
        r"phi[-_]?4($|:|[-_]reasoning)",  # not `phi4-mini`
        r"smollm($|:|-(135m|360m|1\.7b))",
        r"smollm2[:-](135m|360m)",
        r"tiny(llama|dolphin)",
        r"llama-?2($|[-:_])",
        r"(meta-)?llama-?3($|:|-(8|70)b)",  # not 3.1 and later
        r"codellama",
        r"orca-?(mini|2)",
        r"(star|wizard)coder",
        rf"deepseek-(coder|llm)($|:|-(v2|[0-9.]+b){_SIZE}{_END})",  # not a later generation
        rf"dolphin-(mistral|phi)($|:|-(7b|2){_SIZE})",
        r"(vicuna|wizardlm|stablelm|stable-code|zephyr|neural-chat)",
        r"qwen(:|-?1\.5|-(0\.5|1\.8|4|7|14|72)b)",
    )
)
"""How the names of models begin that were not made to call tools, as servers of one's own spell them, as of `AS_OF`.
One that is missing here is found out by asking; one that is here wrongly can be set to `native`."""
_MADE_TO_CALL: Final = re.compile(r"(?<![a-z])(tools?|functions?|functionary)(?![a-z])")
"""What variants of them say that were taught it afterwards."""
_NO_SYSTEM: Final = re.compile(rf"(code)?gemma($|:|[-_]?2(?![a-z]){_END}|[-_]1\.1[-_]|[-_][27]b{_SIZE})")
"""Their templates refuse a system message on some servers; on the others it makes no difference where it stands."""
How = Literal["native", "text", "try"]


def protocol_for(config: ModelConfig) -> How:
    """`try`: by the provider's own means, and in text if the server says that it takes no tools."""
    provider, _, model = config.name.partition(":")
    if config.name == OPERATOR:
        return "native"
    if (wanted := _wanted(config)) != "auto":
        return wanted
    if api_of(config, provider) != "openai-chat":
        return "native"
    return "text" if only_writes(model) else "try"


def only_writes(model: str) -> bool:
    bare = _bare(model)
    return not _MADE_TO_CALL.search(bare) and any(pattern.match(bare) for pattern in _ONLY_WRITE)


def with_protocol(model: Model, config: ModelConfig, *, edit_repair: bool = True) -> Model:
    """The model as the loop is to have it. What was chosen, and why, is said by `chosen_for`."""
    bare = config.name.partition(":")[2]
    system_role = _NO_SYSTEM.match(_bare(bare)) is None
    match protocol_for(config):
        case "native":
            return model
        case "try":
            return Trying(model, TextModel(model, edit_repair=edit_repair, system_role=system_role))
        case "text":
            known = "" if _wanted(config) != "auto" else f"models such as {bare} were not made to call tools"
            return TextModel(model, chosen=Chosen("text", known), edit_repair=edit_repair, system_role=system_role)


def chosen_for(model: Model) -> Chosen:
    """How a model is spoken to now; it may change with its first reply."""
    found = getattr(model, "chosen", None)
    return found if isinstance(found, Chosen) else Chosen("native")


class Trying:
    """A model that is given tools until its server says that it takes none; from then on it writes its calls."""

    def __init__(self, inner: Model, text: TextModel) -> None:
        self.inner = inner
        self.text = text
        self.chosen = Chosen("native")

    @property
    def provider(self) -> str:
        return self.inner.provider

    @property
    def name(self) -> str:
        return self.inner.name

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Tool], settings: Settings
    ) -> AsyncGenerator[ModelEvent]:
        if self.chosen.protocol == "native":
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
            self.chosen = Chosen("text", "its server says that it takes no tools")
            yield Retrying(1, 0.0, self.chosen.notice(self.name))
        async with aclosing(self.text.stream(messages, tools, settings)) as events:
            async for event in events:
                yield event


def _bare(model: str) -> str:
    """Without the folders and owners before it: `google/gemma-3-4b-it`, `hf.co/somebody/gemma-3-4b-it-GGUF:Q4_K_M`."""
    return model.rpartition("/")[2].lower()


def _wanted(config: ModelConfig) -> Protocol:
    """What the configuration says: the provider's own word, or the general one."""
    own = config.providers.get(config.name.partition(":")[0])
    return (own.protocol if own else None) or config.protocol
