"""Files that go to a model: as the kind of content its API takes, as text, or as a line that says what is missing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from holdfast.config.model import ModelApi
from holdfast.contract.result import Attachment
from holdfast.models.arguments import sendable
from holdfast.text.visible import visible

if TYPE_CHECKING:
    from pydantic_ai.messages import BinaryContent

_IMAGES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_PDF: Final = frozenset({"application/pdf"})
_GEMINI: Final = frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "application/pdf"})
_AUDIO: Final = frozenset({"audio/wav", "audio/mpeg"})
_GEMINI_AUDIO: Final = frozenset({"audio/wav", "audio/mpeg", "audio/aiff", "audio/aac", "audio/ogg", "audio/flac"})
_TAKEN: Final[dict[ModelApi, frozenset[str]]] = {
    "anthropic": _IMAGES | _PDF,
    "openai": _IMAGES | _PDF,
    "openai-chat": _IMAGES | _AUDIO,
    "google": _GEMINI | _GEMINI_AUDIO,
    "vertex": _GEMINI | _GEMINI_AUDIO,
}
_ALSO_TEXT: Final = frozenset(
    {"application/json", "application/xml", "application/yaml", "application/toml", "application/javascript"}
)
_CLOSING: Final = re.compile(r"</(?=\s*attachment)", re.IGNORECASE)
_MARKS: Final = str.maketrans({'"': "'", "<": "‹", ">": "›"})


def content(attachments: Sequence[Attachment], api: ModelApi) -> list[str | BinaryContent]:
    return [_one(attachment, api) for attachment in attachments]


def _one(attachment: Attachment, api: ModelApi) -> str | BinaryContent:
    kind = _framed(attachment.mime_type.partition(";")[0].strip().lower())
    name = _framed(sendable(attachment.name or attachment.uri or "attachment"))
    if not attachment.data:
        place = _framed(sendable(attachment.uri or ""))
        where = f" at {place}" if place and place != name else ""
        return f"[{name} ({kind}){where}: the content is not included]"
    if kind.startswith("text/") or kind in _ALSO_TEXT:
        text = attachment.data.decode("utf-8", "replace")
        return f'<attachment name="{name}" type="{kind}">\n{_CLOSING.sub(_opened, text)}\n</attachment>'
    if kind not in _TAKEN[api]:
        return f"[{name} ({kind}, {len(attachment.data)} bytes) is left out: this model's API does not take it]"
    from pydantic_ai.messages import BinaryContent

    return BinaryContent(data=attachment.data, media_type=kind)


def _framed(text: str) -> str:
    """On one line, and unable to end what it is written into: whoever made the file named it."""
    return visible(text).translate(_MARKS)


def _opened(found: re.Match[str]) -> str:
    return f"<\\{found[0][1:]}"
