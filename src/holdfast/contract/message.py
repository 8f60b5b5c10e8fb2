"""Messages of a conversation with a model, and their parts."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from holdfast.contract.errors import BadJson
from holdfast.contract.json import Args, parse_json
from holdfast.contract.result import Attachment

Role = Literal["system", "user", "assistant"]


class Text(Struct, frozen=True, tag_field="type", tag="text", omit_defaults=True):
    text: str
    included: bool = False
    """Part of the text was included from a file, so it is data and not a request of the user."""


class Thinking(Struct, frozen=True, tag_field="type", tag="thinking"):
    """A model's reasoning, with the provider's signature."""

    text: str
    provider: str | None = None
    """The provider that signed it; None if unsigned."""
    signature: str | None = None
    redacted: bool = False
    """The text is encrypted by the provider."""


class ToolUse(Struct, frozen=True, tag_field="type", tag="tool_use"):
    """A model's request to call a tool."""

    id: str
    """Assigned by the model or provider; unique only within its message."""
    name: str
    """The canonical tool name if the tool is known, else the name as the model wrote it."""
    arguments: str = "{}"
    """The JSON exactly as the model wrote it, so that resending it is byte-identical. It may be invalid."""

    @property
    def parsed(self) -> Args | None:
        """The arguments; None if they are not a valid JSON object."""
        try:
            value = parse_json(self.arguments.strip() or "{}")
        except BadJson:
            return None
        return value if isinstance(value, dict) else None


class ToolResult(Struct, frozen=True, tag_field="type", tag="tool_result"):
    """The result of a `ToolUse` in the previous message."""

    id: str
    name: str
    output: str
    error: bool = False
    attachments: tuple[Attachment, ...] = ()


class Aborted(Struct, frozen=True, tag_field="type", tag="aborted"):
    """Marks a message that was cut off by an error or by the user."""

    message: str


Part = Text | Thinking | ToolUse | ToolResult | Aborted | Attachment


class Message(Struct, frozen=True):
    role: Role
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def tool_uses(self) -> tuple[ToolUse, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolUse))

    @property
    def own_text(self) -> str:
        """The text its author wrote, without tool results."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text)).strip()

    @property
    def has_included_content(self) -> bool:
        """Whether it contains an attachment or text included from a file."""
        return any(isinstance(part, Attachment) or (isinstance(part, Text) and part.included) for part in self.parts)
