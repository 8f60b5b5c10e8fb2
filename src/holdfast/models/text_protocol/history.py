"""A conversation for a model that only writes: calls and results as text, and the instructions before all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from holdfast.contract.errors import BadJson
from holdfast.contract.message import Message, Part, Text, ToolResult, ToolUse
from holdfast.contract.tool import Tool
from holdfast.contract.values import parse_json
from holdfast.models.arguments import as_object
from holdfast.models.text_protocol.prompt import instructions
from holdfast.models.text_protocol.reading import parse
from holdfast.models.text_protocol.writing import is_text, without_frames, without_tags, write_call, write_result

_EDIT: Final = "file.edit"


def plain(messages: Sequence[Message], tools: Sequence[Tool], *, system_role: bool = True) -> list[Message]:
    """The same conversation without a single call or result in the provider's sense."""
    told = [message.text.strip() for message in messages if message.role == "system"]
    system = "\n\n".join(text for text in (*told, instructions(tools)) if text)
    spoken = [_spoken(each) for each in messages if each.role != "system"]
    if system_role:
        return [Message("system", (Text(system),)), *spoken]
    begins = bool(spoken) and spoken[0].role == "user"
    first = spoken[0].parts if begins else ()
    if first and isinstance(said := first[0], Text):
        first = (Text(f"{system}\n\n{said.text}", said.included), *first[1:])
    else:
        first = (Text(f"{system}\n\n"), *first)
    return [Message("user", first), *spoken[begins:]]


def failed_edit(messages: Sequence[Message]) -> str | None:
    """The path of an edit that has just failed; None if none has."""
    if len(messages) < 2:
        return None
    uses = {use.id: use for use in messages[-2].tool_uses}
    for part in messages[-1].parts:
        if isinstance(part, ToolResult) and part.error and part.name == _EDIT and part.id in uses:
            return _path(uses[part.id])
    return None


def _spoken(message: Message) -> Message:
    parts = tuple(_joined(_heard(message)))
    if message.role == "assistant" and not _reads_back(message, parts):
        # It is only history: what was said gives way, so that what was asked for can be read.
        parts = tuple(_joined(_heard(message), without_tags))
    return Message(message.role, parts)


def _reads_back(message: Message, parts: Iterable[Part]) -> bool:
    """Whether exactly its calls are read in what is shown of a reply."""
    read = parse("\n".join(part.text for part in parts if isinstance(part, Text)))
    asked = [(use.name, as_object(use.arguments)) for use in message.tool_uses]
    return [(call.name, call.args) for call in read.calls] == asked and not (asked and read.flaws)


def _heard(message: Message) -> Iterable[Part]:
    """Results come first, as every provider wants them; what is attached to one, and is no text, follows it."""
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    for result in results:
        yield result
        yield from (attached for attached in result.attachments if not is_text(attached))
    yield from (part for part in message.parts if not isinstance(part, ToolResult))


class _Joining:
    """Neighbouring text as it becomes one part. Frames and calls begin, and end, on their own line."""

    def __init__(self, shown: Callable[[str], str]) -> None:
        self.included = False
        self._shown = shown
        self._done: list[str] = []
        self._said: list[str] = []
        """Text that may still go on."""
        self._apart = False
        """Whether what comes next begins a line."""

    def say(self, text: Text) -> None:
        self._said.append(text.text)
        self.included = self.included or text.included

    def frame(self, text: str) -> None:
        self._end_text()
        self._add(text, apart=bool(self._done))
        self._apart = True

    def whole(self) -> str:
        self._end_text()
        return "".join(self._done)

    def _end_text(self) -> None:
        said = self._shown("".join(self._said))
        self._said.clear()
        if said:
            self._add(without_frames(said) if self.included else said, apart=self._apart)
            self._apart = False

    def _add(self, text: str, *, apart: bool) -> None:
        if apart and not self._done[-1].endswith("\n"):
            self._done.append("\n")
        self._done.append(text)


def _joined(parts: Iterable[Part], shown: Callable[[str], str] = str) -> Iterable[Part]:
    """Neighbouring text as one part: some servers take no more than one. `shown`: what text is shown as."""
    joining = _Joining(shown)
    for part in parts:
        match part:
            case Text():
                joining.say(part)
            case ToolUse():
                joining.frame(write_call(part))
            case ToolResult():
                joining.frame(write_result(part))
            case _:
                if text := joining.whole():
                    yield Text(text, joining.included)
                joining = _Joining(shown)
                yield part
    if text := joining.whole():
        yield Text(text, joining.included)


def _path(use: ToolUse) -> str | None:
    try:
        arguments = parse_json(use.arguments)
    except BadJson:
        return None
    path = arguments.get("path") if isinstance(arguments, dict) else None
    return path if isinstance(path, str) and path and path.isprintable() else None
