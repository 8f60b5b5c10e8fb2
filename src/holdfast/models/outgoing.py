"""A conversation as a request: our messages, turned into those of pydantic-ai for one provider."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from holdfast.config.model import ForeignThinking
from holdfast.contract.message import Message, Part, Text, ToolResult, ToolUse
from holdfast.contract.names import to_api_name
from holdfast.contract.result import Attachment
from holdfast.contract.tool import Tool
from holdfast.models import attachments
from holdfast.models.arguments import CallIds, sendable
from holdfast.models.endpoint import Endpoint
from holdfast.models.history import Call, reply_parts

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ToolReturnPart, UserContent

BEGINNING: Final = "(The conversation begins here.)"
"""What the user says where the assistant would have the first word: not every provider lets it."""
NO_RESULT: Final = "No result was recorded for this call; it was not run again."
_FAILED: Final = "Tool execution failed"


class Outgoing(Struct, frozen=True):
    system: str
    messages: Sequence[Any]
    """`ModelMessage`s of pydantic-ai."""
    calls_without_thinking: bool
    """The last reply asks for calls and does not begin with thinking this provider signed."""


def outgoing(
    messages: Sequence[Message], tools: Sequence[Tool], endpoint: Endpoint, system: str, foreign: ForeignThinking
) -> Outgoing:
    """`system` is the name pydantic-ai knows the provider by."""
    writer = _Writer(tools, endpoint, system, foreign)
    for message in messages:
        writer.add(message)
    writer.close()
    return Outgoing("\n\n".join(writer.instructions), writer.messages, writer.calls_without_thinking)


class _Writer:
    def __init__(self, tools: Sequence[Tool], endpoint: Endpoint, system: str, foreign: ForeignThinking) -> None:
        self.instructions: list[str] = []
        self.messages: list[ModelMessage] = []
        self.calls_without_thinking = False
        self._names = {name: tool.api_name for tool in tools for name in tool.names}
        self._endpoint = endpoint
        self._system = system
        self._foreign: ForeignThinking = foreign
        self._ids = CallIds(plain=endpoint.api != "openai-chat")
        self._open: list[Call] = []
        self._results: list[ToolReturnPart] = []
        self._said: list[UserContent] = []

    def add(self, message: Message) -> None:
        if message.role == "system":
            if text := sendable(message.text).strip():
                self.instructions.append(text)
        elif message.role == "user":
            for part in message.parts:
                self._hear(part)
        else:
            self.close()
            self._open = [self._call(use) for use in message.tool_uses]
            self._reply(message)

    def close(self) -> None:
        """End the user's turn: results come first, and every call has one."""
        from pydantic_ai.messages import ModelRequest, UserPromptPart

        for call in self._open:
            self._results.append(self._result(call, ToolResult(call.id, call.name, NO_RESULT, error=True)))
        parts: list[ModelRequestPart] = [*self._results]
        if self._said:
            alone = self._said[0] if len(self._said) == 1 else None
            parts.append(UserPromptPart(content=alone if isinstance(alone, str) else self._said))
        if parts:
            self.messages.append(ModelRequest(parts=parts))
        self._open, self._results, self._said = [], [], []

    def _call(self, use: ToolUse) -> Call:
        return Call(use.id, self._ids.give(use.id), self._names.get(use.name) or to_api_name(use.name))

    def _reply(self, message: Message) -> None:
        from pydantic_ai.messages import ModelRequest, ModelResponse, ThinkingPart, UserPromptPart

        parts = reply_parts(message, self._open, self._endpoint, self._system, self._foreign)
        self.calls_without_thinking = bool(message.tool_uses) and not isinstance(parts[0], ThinkingPart)
        if parts and not self.messages:
            self.messages.append(ModelRequest(parts=[UserPromptPart(content=BEGINNING)]))
        if parts:
            self.messages.append(ModelResponse(parts=parts, provider_name=self._system))

    def _hear(self, part: Part) -> None:
        match part:
            case Text(text) if text.strip():
                self._said.append(sendable(text))
            case Attachment():
                self._said.extend(attachments.content([part], self._endpoint.api))
            case ToolResult(wanted):
                call = next((call for call in self._open if call.id == wanted), None)
                if call is not None:
                    self._open.remove(call)
                    self._results.append(self._result(call, part))
            case _:
                pass

    def _result(self, call: Call, result: ToolResult) -> ToolReturnPart:
        from pydantic_ai.messages import ToolReturnPart

        output, error = sendable(result.output), result.error
        files = attachments.content(result.attachments, self._endpoint.api)
        given: list[Any]
        match self._endpoint.api:
            case "anthropic":
                given = [output, *files] if output else files
            case "google" | "vertex":
                given = [{"error" if error else "output": output}, *files]
            case "openai":
                given = [_marked(output, error), *files]
            case "openai-chat":
                # Tool messages carry text only: files follow in the user's message.
                given = [_marked(output, error)]
                if files:
                    self._said.extend([f"[attached to the result of {call.sent_id}]", *files])
        return ToolReturnPart(
            tool_name=call.name,
            content=given[0] if len(given) == 1 else given,
            tool_call_id=call.sent_id,
            outcome="failed" if error and self._endpoint.api == "anthropic" else "success",
        )


def _marked(output: str, error: bool) -> str:
    return f"Error: {output or _FAILED}" if error else output
