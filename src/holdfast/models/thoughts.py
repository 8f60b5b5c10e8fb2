"""Thinking on its way back to a model: to whoever signed it as it was, to everybody else as text or not at all."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from holdfast.config.model import ForeignThinking
from holdfast.contract.message import Thinking
from holdfast.models.arguments import sendable
from holdfast.models.endpoint import Endpoint

if TYPE_CHECKING:
    from pydantic_ai.messages import ThinkingPart

REDACTED: Final = "redacted_thinking"
FIELD: Final = "reasoning_content"
"""Where chat completions carry thinking, which nobody signs there."""


def native(part: Thinking, endpoint: Endpoint, system: str) -> list[ThinkingPart] | None:
    """The parts that give it back to the provider whose own it is; None if it is foreign to this one."""
    from pydantic_ai.messages import ThinkingPart

    signed = part.signature if part.provider == endpoint.signer else None
    match endpoint.api:
        case "anthropic":
            if part.redacted and not part.text.strip():
                return None  # there is nothing to give back, and it would be refused
            if part.redacted and part.provider in (None, endpoint.signer):
                return [ThinkingPart(content="", id=REDACTED, signature=sendable(part.text), provider_name=system)]
            if signed:
                return [ThinkingPart(content=sendable(part.text), signature=sendable(signed), provider_name=system)]
        case "openai":
            return _reasoning_item(signed, system) if signed else None
        case "openai-chat":
            if part.provider is None and not part.redacted and part.text.strip():
                return [ThinkingPart(content=sendable(part.text), id=FIELD, provider_name=system)]
        case "google" | "vertex":
            # Its signature goes with the part it signs, and its text is not sent again.
            return [] if signed and is_base64(signed) else None
    return None


def as_text(parts: Sequence[Thinking], foreign: ForeignThinking) -> str:
    """Foreign thinking of one message as one piece of text; empty if there is none to send."""
    texts = [sendable(part.text).strip() for part in parts if not part.redacted]
    kept = [text for text in texts if text]
    return "<thinking>\n" + "\n\n".join(kept) + "\n</thinking>" if kept and foreign == "preserve" else ""


def seal(item_id: str, encrypted: str, summaries: Sequence[str]) -> str:
    """The signature of a reasoning item of OpenAI: the whole item."""
    item = {
        "id": item_id,
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": text} for text in summaries],
        "encrypted_content": encrypted,
    }
    return b64encode(json.dumps(item, ensure_ascii=False, separators=(",", ":")).encode()).decode()


def is_base64(text: str) -> bool:
    try:
        return bool(b64decode(text, validate=True))
    except (Error, ValueError):
        return False


def _reasoning_item(signature: str, system: str) -> list[ThinkingPart] | None:
    from pydantic_ai.messages import ThinkingPart

    try:
        item: object = json.loads(b64decode(signature, validate=True))
    except (Error, ValueError, RecursionError):
        return None
    fields = cast(dict[str, Any], item) if isinstance(item, dict) else {}
    item_id, encrypted = fields.get("id"), fields.get("encrypted_content")
    if not (isinstance(item_id, str) and item_id and isinstance(encrypted, str) and encrypted):
        return None
    summaries = [text for text in map(_summary_text, _list(fields.get("summary"))) if text] or [""]
    return [
        ThinkingPart(
            content=sendable(text),
            id=sendable(item_id),
            signature=sendable(encrypted) if place == 0 else None,
            provider_name=system,
        )
        for place, text in enumerate(summaries)
    ]


def _list(value: object) -> list[object]:
    return cast(list[object], value) if isinstance(value, list) else []


def _summary_text(entry: object) -> str:
    text = cast(dict[str, object], entry).get("text") if isinstance(entry, dict) else None
    return text if isinstance(text, str) else ""
