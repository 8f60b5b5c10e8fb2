"""Hypothesis strategies for attachments of every kind, with hostile names, and small images."""

from __future__ import annotations

from typing import Any, Literal, cast

from hypothesis import strategies as st

from holdfast.contract.result import Attachment
from tests.text.strategies import TRICKS

PNG = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x02\x00\x00\x00\x03\x08\x02\x00\x00\x00\x36\x88\x49\xd6"
    b"\x00\x00\x00\x0cIDATx\x9cc```\x00\x00\x00\x04\x00\x01\xf6\x178U\x00\x00\x00\x00IEND\xaeB`\x82"
)
"""The header says 2 × 3 pixels."""
_CHARS = st.sampled_from(f"aé東🙂 ‹›\\/:*?\"'<>|()[]!`=,;%{{}}.-~{TRICKS}".replace("\ud800", ""))
NAMES = st.sampled_from(
    [
        "shot.png",
        "../../etc/passwd",
        "..",
        "con",
        "NUL.txt",
        ".bashrc",
        "a" * 300,
        "東" * 200 + ".pdf",
        "](x)",
        "\u202egnp",
    ]
) | st.text(_CHARS, min_size=1, max_size=24)
MIME_TYPES = st.sampled_from(
    (
        *("image/png", "image/jpeg", "audio/wav", "application/pdf", "text/plain", "text/plain; charset=utf-8"),
        *("application/json", "application/octet-stream", "image/svg+xml", "x/\u202ey", "weird"),
    )
)
URIS = st.sampled_from(["https://example.com/a.png", "file:///a/../b", "memo:1"])
CONTENT = st.binary(min_size=1, max_size=40) | st.sampled_from([PNG, b"plain text\n", "é\r\n".encode(), b"\x00"])


@st.composite
def attachments(draw: st.DrawFn, *, links: bool = True) -> Attachment:
    """An attachment with bytes, or with `links` also one that only has an address."""
    kind = cast("Literal['image', 'audio', 'file']", draw(st.sampled_from(["image", "audio", "file"])))
    audience = cast("Literal['everyone', 'person']", draw(st.sampled_from(["everyone", "person"])))
    fields: dict[str, Any] = {"name": draw(st.none() | NAMES), "uri": draw(st.none() | URIS)}
    if links and draw(st.integers(0, 4)) == 0:
        fields["uri"] = draw(URIS)
    else:
        fields["data"] = draw(CONTENT)
    return Attachment(kind=kind, mime_type=draw(MIME_TYPES), audience=audience, **fields)
