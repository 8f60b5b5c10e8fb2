"""What a conversation is made of: messages and their parts, as a model is sent them and as it answers."""

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
    """Some of it was taken from a file: it is material, and nobody's request."""


class Thinking(Struct, frozen=True, tag_field="type", tag="thinking"):
    """What a model thought, with the provider's proof of it."""

    text: str
    provider: str | None = None
    """Whose signature it is; None for thinking nobody signed."""
    signature: str | None = None
    redacted: bool = False
    """The text is the provider's own secret form of it."""


class ToolUse(Struct, frozen=True, tag_field="type", tag="tool_use"):
    """A model asks for an action."""

    id: str
    """Given by the model or its provider; unique only within its message."""
    name: str
    """The tool's own name where it is known, else what the model wrote."""
    arguments: str = "{}"
    """JSON as the model wrote it: the same bytes every time it is sent again. It may be broken."""

    @property
    def parsed(self) -> Args | None:
        """The arguments; None where they cannot be read."""
        try:
            value = parse_json(self.arguments.strip() or "{}")
        except BadJson:
            return None
        return value if isinstance(value, dict) else None


class ToolResult(Struct, frozen=True, tag_field="type", tag="tool_result"):
    """What came of a `ToolUse` of the message before."""

    id: str
    name: str
    output: str
    error: bool = False
    attachments: tuple[Attachment, ...] = ()


class Aborted(Struct, frozen=True, tag_field="type", tag="aborted"):
    """The message ends here because something or somebody stopped it."""

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
        """What its author wrote in it: never what a tool gave back."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text)).strip()

    @property
    def has_included_content(self) -> bool:
        """Something in it was not written there: a file is attached, or its text was put in."""
        return any(isinstance(part, Attachment) or (isinstance(part, Text) and part.included) for part in self.parts)
