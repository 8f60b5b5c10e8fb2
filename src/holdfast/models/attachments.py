"""Which models can see, and what a model is told about an attachment that it does not get."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

from holdfast.contract.result import Attachment
from holdfast.models.call_arguments import replace_surrogates
from holdfast.text.attachments import describe, is_text_type
from holdfast.text.escape import escape

_TEXT_ONLY: Final = (
    *("gpt-3.5", "gpt-4-0", "gpt-oss", "o1-mini", "o1-preview", "o3-mini", "claude-2", "claude-instant"),
    *("deepseek", "codellama", "llama2", "llama-2", "llama3", "llama-3", "mixtral", "mistral-7b", "codestral"),
    *("phi3", "phi-3", "phi4", "phi-4", "qwen2.5-coder", "qwen3-coder", "starcoder", "command-r", "tinyllama"),
    *("smollm", "gemma-2", "gemma2", "gemma:", "granite-code", "olmo"),
)
"""How the names of well-known models begin that read only text."""
_SEES_ALL_THE_SAME: Final = re.compile(r"vision|multimodal|omni|[-_.]vl|vl[-_:.]|vlm|llava|ocr")
_SENTENCES: Final = {
    "blind": "is attached, but this model cannot take it",
    "api": "is attached, but this model's API does not take its type",
    "damaged": "is attached, but its content is not an image that can be read",
    "gone": "was attached, but its content is no longer available",
    "link": "is linked, and its content is not included",
    "person": "was shown to the user, and is not sent to you",
}
_READERS: Final = {"image": "image.analyze", "audio": "audio.transcribe"}
_BRACKETS: Final = str.maketrans({"<": "‹", ">": "›", "[": "(", "]": ")"})
Reason = Literal["blind", "api", "damaged", "gone", "link", "person"]


def can_see(model: str) -> bool:
    """Whether a model may take images: false only for well-known names of models that read only text."""
    name = model.rpartition("/")[2].lower()
    return not name.startswith(_TEXT_ONLY) or _SEES_ALL_THE_SAME.search(name) is not None


def missing_reason(item: Attachment) -> Reason | None:
    """Why no model gets the content; None if a model that takes its type can have it."""
    if item.audience == "person":
        return "person"
    if not item.data:
        return "gone" if item.digest else "link"
    return None


def describe_unsent(item: Attachment, reason: Reason, offered: Mapping[str, str]) -> str:
    """One line about an attachment whose content a model does not get, and how it can get at it.

    `offered` has the tools of the request, with the names that the model knows.
    """
    how = ""
    if item.path and item.data and reason in ("blind", "api"):
        tool = offered.get("file.read" if is_text_type(item.mime_type) else _READERS.get(item.kind, ""))
        how = f" Its file is {escape(replace_surrogates(item.path))}{f': {tool} takes that path' if tool else ''}."
    return f"[{one_line(describe(item))} {_SENTENCES[reason]}.{one_line(how)}]"


def one_line(escaped: str) -> str:
    """Escaped text that cannot close a tag or a bracket around it."""
    return escaped.translate(_BRACKETS)
