"""Parsing of proxy requests: exactly one host, or a refusal."""

from __future__ import annotations

import pytest

from holdfast.net.proxy import parse_request


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("CONNECT example.org:443 HTTP/1.1", ("example.org", 443)),
        ("CONNECT EXAMPLE.org.:443 HTTP/1.1", ("example.org", 443)),
        ("CONNECT [::1]:443 HTTP/1.1", ("::1", 443)),
        ("GET http://example.org/a?b HTTP/1.1", ("example.org", 80)),
        ("GET HTTP://example.org:8080 HTTP/1.0", ("example.org", 8080)),
        ("CONNECT example.org HTTP/1.1", None),
        ("CONNECT good.org@evil.test:443 HTTP/1.1", None),
        ("GET http://good.org@evil.test/ HTTP/1.1", None),
        ("GET http://good.org\\@evil.test/ HTTP/1.1", None),
        ("GET https://example.org/ HTTP/1.1", None),
        ("GET ftp://example.org/ HTTP/1.1", None),
        ("GET /path HTTP/1.1", None),
        ("GET http:///path HTTP/1.1", None),
        ("GET http://example.org/ HTTP/2", None),
        ("GET http://example.org/", None),
        ("\x16\x03\x01", None),
    ],
)
@pytest.mark.spec("N2")
def test_a_request_is_parsed_to_one_host_or_refused(line: str, wanted: tuple[str, int] | None) -> None:
    found = parse_request(line.encode("latin-1") + b"\r\nHost: evil.test\r\nProxy-Authorization: x\r\n\r\n")
    assert (found and found[:2]) == wanted
    if found is not None and found[2]:
        assert b"evil" not in found[2]
        assert b"Proxy" not in found[2]


@pytest.mark.parametrize("stray", [b"\n", b"\r", b"\0", b"\r\r\n\n", b"\nHost: evil.test"])
@pytest.mark.parametrize(
    "head",
    [
        b"GET http://example.org/a%sb HTTP/1.1\r\n\r\n",
        b"GET%s http://example.org/ HTTP/1.1\r\n\r\n",
        b"GET http://example.org/ HTTP/1.1\r\nX-A: b%sc\r\n\r\n",
        b"GET http://example.org/ HTTP/1.1\r\nProxy-A: b%sc\r\n\r\n",
        b"CONNECT example.org:443 HTTP/1.1\r\nX-A: b%sc\r\n\r\n",
    ],
)
@pytest.mark.spec("N2")
def test_a_head_with_bare_control_characters_is_refused(head: bytes, stray: bytes) -> None:
    assert parse_request(head % b"") is not None
    assert parse_request(head % stray) is None
