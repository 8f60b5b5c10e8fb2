"""What a response contains: its kind by header and by content, and its text in the right charset."""

from __future__ import annotations

import codecs
import re
from typing import Final, Literal, NamedTuple

from holdfast.tools.files.pages import SNIFFED_BYTES, UNKNOWN_MIME, mime_type

Kind = Literal["html", "json", "xml", "text", "pdf", "image", "binary"]
IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The image types that models accept."""
# The comments are possessive (`*+`): otherwise the number of ways to divide them doubles with each one.
_HTML_START: Final = re.compile(rb"(?:<!--.*?-->\s*)*+<(?:!doctype\s+html|html|head|body|title|script)\b", re.I | re.S)
_CHARSET_PARAMETER: Final = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9._:-]{1,40})", re.I)
_META_CHARSET: Final = re.compile(rb"<meta[^>]{0,300}charset\s*=\s*[\"']?\s*([A-Za-z0-9._:-]{1,40})", re.I)
_XML_ENCODING: Final = re.compile(rb"<\?xml[^>]{0,100}encoding\s*=\s*[\"']([A-Za-z0-9._:-]{1,40})")
_PRESCANNED: Final = 4096
_DETECTED_BYTES: Final = 65_536
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_NOT_ON_THE_WEB: Final = frozenset({"utf-7", "idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined"})
"""Codecs that a page must not choose: they decode ASCII into something else. Python spells some with `-`, some with
`_`."""
_WINDOWS: Final = frozenset({"iso8859-1", "ascii"})
"""Labels that stand for windows-1252 on the web (WHATWG)."""


class Content(NamedTuple):
    kind: Kind
    mime: str


def media_type(content_type: str | None) -> str:
    """Return the media type of a `Content-Type` header, empty if there is none."""
    media = (content_type or "").partition(";")[0].strip().lower()
    return media if re.fullmatch(r"[\w.+-]{1,80}/[\w.+-]{1,80}", media, re.ASCII) else ""


def classify(content_type: str | None, body: bytes) -> Content:
    """Return the kind of a body. What it contains overrides what the header says about binary content."""
    declared = media_type(content_type)
    head = body[:SNIFFED_BYTES]
    is_unicode = any(head.startswith(bom) for bom, _ in _BOMS)
    found = None if is_unicode else mime_type(head, "")
    if found == "application/pdf":
        return Content("pdf", found)
    if found is not None:
        mime = declared if found == UNKNOWN_MIME and declared and not declared.startswith("text/") else found
        return Content("image" if found in IMAGES else "binary", mime)
    if declared in ("text/html", "application/xhtml+xml"):
        return Content("html", declared)
    if declared == "application/json" or declared.endswith("+json"):
        return Content("json", declared)
    if declared in ("text/xml", "application/xml") or declared.endswith("+xml"):
        return Content("xml", declared)
    family = declared.partition("/")[0]
    if declared and declared != UNKNOWN_MIME:
        return Content("binary" if family in ("audio", "video", "font", "image") else "text", declared)
    return _guessed(head.lstrip())


def _guessed(start: bytes) -> Content:
    if _HTML_START.match(start):
        return Content("html", "text/html")
    if start.startswith(b"<?xml"):
        return Content("xml", "application/xml")
    return Content("json", "application/json") if start[:1] in (b"{", b"[") else Content("text", "text/plain")


class Decoded(NamedTuple):
    text: str
    charset: str
    damaged: bool
    """Whether bytes that are not valid in the charset were replaced."""


def decode(body: bytes, content_type: str | None) -> Decoded:
    """Decode text by its BOM, header, `<meta>` or XML declaration, else by detection. Never fails."""
    for bom, charset in _BOMS:
        if body.startswith(bom):
            return _decoded(body[len(bom) :], charset)
    start = body[:_PRESCANNED]
    declared = _CHARSET_PARAMETER.search(content_type or "")
    inside = _META_CHARSET.search(start) or _XML_ENCODING.match(start.lstrip())
    for label in (declared[1] if declared else None, inside[1].decode("ascii") if inside else None):
        charset = None if label is None else _known_charset(label)
        if charset is not None:
            return _decoded(body, charset)
    try:
        return Decoded(body.decode(), "utf-8", damaged=False)
    except UnicodeDecodeError:
        return _decoded(body, _detected(body))


def _known_charset(label: str) -> str | None:
    try:
        codec = codecs.lookup(label)
    except (LookupError, ValueError):
        return None
    if codec.name.replace("_", "-") in _NOT_ON_THE_WEB or not getattr(codec, "_is_text_encoding", True):
        return None
    return "cp1252" if codec.name in _WINDOWS else codec.name


def _detected(body: bytes) -> str:
    from charset_normalizer import from_bytes  # a dependency of trafilatura

    best = from_bytes(body[:_DETECTED_BYTES]).best()
    charset = None if best is None else _known_charset(best.encoding)
    return charset or "utf-8"


def _decoded(body: bytes, charset: str) -> Decoded:
    try:
        return Decoded(body.decode(charset), charset, damaged=False)
    except UnicodeDecodeError as error:
        # A multi-byte character that the size limit cut in half is not damage.
        cut = error.start >= len(body) - 4
        return Decoded(body.decode(charset, "replace"), charset, damaged=not cut)
    except (ValueError, LookupError):
        return Decoded(body.decode("utf-8", "replace"), "utf-8", damaged=True)
