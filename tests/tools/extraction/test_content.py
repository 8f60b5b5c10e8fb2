"""Kinds of content by header and by content, charsets, and sizes of images."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tools.extraction.content import classify, decode
from tests.quick import quickly

pytestmark = pytest.mark.spec("B6b")


def test_many_comments_before_a_page_cost_no_time() -> None:
    with quickly():
        assert classify(None, b"<!---->" * 28 + b"x").kind == "text"
        assert classify(None, b"<!---->" * 500 + b"<html>").kind == "html"


@pytest.mark.parametrize(
    ("content_type", "body", "kind", "mime"),
    [
        ("text/html; charset=x", b"<p>", "html", "text/html"),
        ("application/xhtml+xml", b"<p>", "html", "application/xhtml+xml"),
        ("application/ld+json", b"{}", "json", "application/ld+json"),
        ("image/svg+xml", b"<svg/>", "xml", "image/svg+xml"),
        ("text/html", b"%PDF-1.7", "pdf", "application/pdf"),
        ("application/octet-stream", b"\x89PNG\r\n\x1a\n", "image", "image/png"),
        ("text/plain", b"a\0b", "binary", "application/octet-stream"),
        ("video/mp4", b"a\0b", "binary", "video/mp4"),
        ("video/mp4", b"text", "binary", "video/mp4"),
        ("text/plain", b"\xff\xfea\0b\0", "text", "text/plain"),
        ("application/x-sh", b"echo", "text", "application/x-sh"),
        (None, b"\n<!-- x --><!DOCTYPE html>", "html", "text/html"),
        (None, b"<?xml version='1.0'?>", "xml", "application/xml"),
        (None, b' {"a": 1}', "json", "application/json"),
        (None, b"hello", "text", "text/plain"),
        ("nonsense", b"hello", "text", "text/plain"),
    ],
)
def test_the_kind_of_a_body(content_type: str | None, body: bytes, kind: str, mime: str) -> None:
    assert classify(content_type, body) == (kind, mime)


@pytest.mark.parametrize(
    ("body", "content_type", "charset", "damaged"),
    [
        ("ü".encode(), None, "utf-8", False),
        (b"\xef\xbb\xbfa", "text/html; charset=latin-1", "utf-8", False),
        ("ü".encode("cp1252"), "text/plain; charset=iso-8859-1", "cp1252", False),
        (b"\xff\xff text and more of it", "text/plain; charset=utf-8", "utf-8", True),
        (b"<?xml version='1.0' encoding='koi8-r'?>\xc1", None, "koi8-r", False),
        ("日本語".encode("shift_jis"), "text/html; charset=Shift_JIS", "shift_jis", False),
        ("ü".encode()[:1], "text/plain; charset=utf-8", "utf-8", False),
    ],
)
def test_the_charset_of_a_text(body: bytes, content_type: str | None, charset: str, damaged: bool) -> None:
    found = decode(body, content_type)
    assert (found.charset, found.damaged) == (charset, damaged)


@pytest.mark.parametrize("label", ["utf-7", "idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined"])
@pytest.mark.parametrize("hyphen", ["-", "_"])
def test_a_codec_that_makes_something_else_of_ascii_is_not_used(label: str, hyphen: str) -> None:
    body = b"+AGE- xn--a-1 \\x1b \\u202e \\ud800"
    assert decode(body, f"text/plain; charset={label.replace('-', hyphen)}") == (body.decode(), "utf-8", False)


@given(st.binary(max_size=200), st.none() | st.text(max_size=40))
def test_no_body_and_no_header_break_the_reader(body: bytes, content_type: str | None) -> None:
    kind, mime = classify(content_type, body)
    assert mime and isinstance(decode(body, content_type).text, str)
    assert kind
