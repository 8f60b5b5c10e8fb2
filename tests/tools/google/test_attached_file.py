"""A file from Gmail or Drive is attached as what its content is, under the last part of its name."""

from __future__ import annotations

import pytest

from holdfast.tools.google.attached_file import MAX_ATTACHMENT, attached_file
from tests.attachment_strategies import PNG

BOMB = PNG[:16] + (50_000).to_bytes(4, "big") * 2 + PNG[24:]


@pytest.mark.spec("B14e")
@pytest.mark.parametrize(
    ("declared", "body", "kind", "mime", "note"),
    [
        ("image/png", PNG, "image", "image/png", "pixels; it is attached."),
        ("text/plain", PNG, "image", "image/png", "pixels; it is attached."),
        ("image/png", b"not an image", "file", "application/octet-stream", "; it is attached."),
        ("image/png", BOMB, None, None, "too large to be attached"),
        ("image/png", PNG[:18], None, None, "damaged, so it is not attached"),
        ("application/zip", bytes(MAX_ATTACHMENT + 1), None, None, "can be attached."),
    ],
)
def test_the_content_says_what_is_attached(
    declared: str, body: bytes, kind: str | None, mime: str | None, note: str
) -> None:
    attached, told = attached_file("../x.png", declared, body, "It has a size")
    assert told.startswith("It has a size") and note in told
    assert [(item.kind, item.mime_type, item.name) for item in attached] == (
        [] if kind is None else [(kind, mime, "x.png")]
    )
