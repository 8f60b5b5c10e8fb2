"""Addresses are parsed once, and refused if programs could disagree about the host."""

from __future__ import annotations

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.net.hosts import AllowList
from holdfast.net.urls import BadUrl, parse_url

pytestmark = pytest.mark.spec("B6h")


@pytest.mark.parametrize(
    ("given", "parsed", "entry"),
    [
        ("https://Example.com", "https://example.com/", "example.com"),
        ("http://example.com:443/a?b#c", "http://example.com:443/a?b", "example.com"),
        ("https://bücher.de/ü?q=ä", "https://xn--bcher-kva.de/%C3%BC?q=%C3%A4", "xn--bcher-kva.de"),
        ("http://[::1]:8080/a?b=[x]|", "http://[::1]:8080/a?b=%5Bx%5D%7C", "[::1]:8080"),
        ("https://a.example./x/../y?z=%41", "https://a.example/y?z=%41", "a.example"),
        ("http://a.example/x/%2E%2e/.%2e/./%2e/b/../c//.?d=/../e", "http://a.example/c//?d=/../e", "a.example"),
        ("http://a.example/x/..", "http://a.example/", "a.example"),
        ("http://a.example/../..", "http://a.example/", "a.example"),
        ("http://a.example/...%2e/.b/c./%252e%252e", "http://a.example/...%2e/.b/c./%252e%252e", "a.example"),
    ],
)
def test_an_address_is_normalized(given: str, parsed: str, entry: str) -> None:
    url = parse_url(given)
    assert (str(url), url.entry) == (parsed, entry)
    assert parse_url(str(url)) == url
    assert AllowList([url.entry]).allows(url.host, url.port)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("ftp://example.com/", "ftp: is not supported"),
        ("file:///etc/passwd", "file: is not supported"),
        ("view-source:http://example.com", "view-source: is not supported"),
        ("data:text/html,hi", "data: is not supported"),
        ("example.com/a", "no scheme"),
        ("example.com:80/a", "no scheme"),
        ("//example.com/", "no scheme"),
        ("", "empty"),
        ("http:///x", "names no host"),
        ("http:x", "names no host"),
        ("https://user@example.com/", "user name or password"),
        ("https://example.com%40evil.example/", "not an unambiguous host"),
        ("http://127.1/", "not an unambiguous host"),
        ("http://0x7f000001/", "not an unambiguous host"),
        ("http://2130706433/", "not an unambiguous host"),
        ("http://x:99999/", "invalid host or port"),
        ("http://x:/", "not an unambiguous host"),
        ("http://[fe80::1%25eth0]/", "network interface"),
        ("http://exa mple.com/", "a space, a backslash or a control character"),
        ("http://example.com\\@evil.example/", "a space, a backslash or a control character"),
        ("http://example.com/\u202ea", "a space, a backslash or a control character"),
        ("https://example.com/" + "a" * 10_000_000, "10,000,020 characters"),
    ],
)
def test_an_address_that_cannot_be_requested_is_refused_in_a_sentence(given: str, words: str) -> None:
    with pytest.raises(BadUrl, match=words) as caught:
        parse_url(given)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("reference", "target"),
    [
        ("/b", "http://a.example/b"),
        ("c?d", "http://a.example/x/c?d"),
        ("//b.example", "http://b.example/"),
        ("https://b.example:8443/", "https://b.example:8443/"),
    ],
)
def test_references_are_relative_to_the_address(reference: str, target: str) -> None:
    assert str(parse_url("http://a.example/x/y").join(reference)) == target


@given(st.lists(st.sampled_from(["/", "//", ".", "..", "%2e", "%2E.", "a", "%2f", "?", "ü", "|", "%"]), max_size=12))
def test_the_path_that_is_shown_is_the_path_that_is_sent(parts: list[str]) -> None:
    url = parse_url("http://a.example/" + "".join(parts))
    assert httpx2.URL(str(url)).raw_path.decode() == url.target
    path = url.target.partition("?")[0].lower().replace("%2e", ".")
    assert not {".", ".."} & set(path.split("/"))


@given(st.text(max_size=40))
def test_whatever_is_given_is_parsed_the_same_again_or_refused(text: str) -> None:
    for given_text in (text, f"http://{text}", f"https://example.com/{text}"):
        try:
            url = parse_url(given_text)
        except BadUrl:
            continue
        assert parse_url(str(url)) == url
        assert str(url).isascii() and str(url).isprintable()
