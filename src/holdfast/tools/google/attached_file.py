"""A file from Gmail or Drive as an attachment: its content decides what it is, not what its sender says."""

from __future__ import annotations

import re
from typing import Final

from holdfast.contract.result import Attachment
from holdfast.text.attachments import pixels
from holdfast.text.truncate import format_size
from holdfast.tools.extraction.content import IMAGES, classify
from holdfast.tools.files.pages import UNKNOWN_MIME
from holdfast.tools.google.results import one_line

MAX_ATTACHMENT: Final = 5 * 1024 * 1024
_MAX_PIXELS: Final = 40_000_000


def attached_file(name: str, declared: str, body: bytes, facts: str) -> tuple[tuple[Attachment, ...], str]:
    """Return the attachment, none if it must not be attached, and a note that continues `facts`.

    An image is attached as one only if its first bytes and its size say so.
    """
    content = classify(declared, body)
    if len(body) > MAX_ATTACHMENT:
        return (), f"{facts}. At most {format_size(MAX_ATTACHMENT)} can be attached."
    if content.kind != "image":
        mime = UNKNOWN_MIME if content.mime in IMAGES else content.mime
        return (Attachment(kind="file", mime_type=mime, data=body, name=_last(name)),), f"{facts}; it is attached."
    dimensions = pixels(body)
    if dimensions is None:
        return (), f"{facts}, but the image is damaged, so it is not attached."
    facts += f", {dimensions[0]} × {dimensions[1]} pixels"
    if dimensions[0] * dimensions[1] > _MAX_PIXELS:
        return (), f"{facts}, which is too large to be attached."
    attached = Attachment(kind="image", mime_type=content.mime, data=body, name=_last(name))
    return (attached,), f"{facts}; it is attached."


def _last(name: str) -> str | None:
    """The last component of a name, which a sender may have written as a path."""
    last = re.split(r"[/\\]", one_line(name, 200))[-1].strip()
    return last if last.strip(".") else None
