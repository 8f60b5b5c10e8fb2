"""Normalized hosts, allow-lists, and checks of URLs from servers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.contract.errors import ConfigError
from holdfast.net.addresses import is_local, is_loopback
from holdfast.net.hosts import AllowList, normalize_host, parse_origin, url_problem


@pytest.mark.parametrize(
    "url", ["https://as.example/authorize", "https://as.example:8443/a?b=c", "https://[2001:db8::1]/"]
)
@pytest.mark.spec("K1")
def test_https_urls_are_accepted(url: str) -> None:
    assert url_problem(url, loopback=False) is None


@pytest.mark.parametrize(
    "url", ["http://localhost:1/a", "http://127.0.0.1/a", "http://127.1.2.3/a", "http://[::1]:80/"]
)
@pytest.mark.spec("K1")
def test_http_is_accepted_on_loopback_for_a_local_server(url: str) -> None:
    assert url_problem(url, loopback=True) is None
    assert url_problem(url, loopback=False) == "it is not https"


@pytest.mark.parametrize(
    "url",
    [
        "http://as.example/",
        "http://127.0.0.1.evil.example/",
        "http://localhost.evil.example/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://169.254.169.254/",
        "http://0.0.0.0/",
        "ftp://as.example/",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "//as.example/",
        "https:///path",
        "https://",
        "",
        "https://as.example@evil.example/",
        "https://user:pw@as.example/",
        "https://as.example\\@evil.example/",
        "https://as.exam ple/",
        "https://аѕ.example/",
        "https://as.example/\u202e",
        "https://as.example/\n",
        "https://as.example:99999/",
        "https://[::1/",
        "HTTPS//as.example",
        "https://as.example/" + "a" * 8192,
    ],
)
@pytest.mark.parametrize("loopback", [True, False])
@pytest.mark.spec("K1")
def test_other_urls_are_refused(url: str, loopback: bool) -> None:
    assert url_problem(url, loopback=loopback) is not None


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1:8443", "[::1]", "169.254.169.254", "[fe80::1]", "0.0.0.0", "127.1", "2130706433"]
)
@pytest.mark.spec("K1")
def test_a_remote_server_cannot_name_a_local_host(host: str) -> None:
    fault = url_problem(f"https://{host}/authorize", loopback=False)
    assert fault is not None and "this machine" in fault
    assert url_problem(f"https://{host}/authorize", loopback=True) is None


@given(st.text(max_size=80), st.booleans())
@pytest.mark.spec("K1")
def test_no_accepted_url_is_ambiguous_to_a_browser(text: str, loopback: bool) -> None:
    for url in (text, f"https://{text}", f"http://{text}/"):
        if url_problem(url, loopback=loopback) is None:
            scheme, host, _ = parse_origin(url)
            assert url.isascii() and url.isprintable() and " " not in url and "\\" not in url
            assert host and (scheme == "https" or (scheme == "http" and loopback and is_loopback(host)))
            assert loopback or not is_local(host)


@pytest.mark.spec("K1")
def test_the_origin_is_scheme_host_and_port() -> None:
    assert parse_origin("https://As.Example/x") == parse_origin("https://as.example:443/y")
    assert parse_origin("https://as.example") != parse_origin("http://as.example")
    assert parse_origin("https://as.example") != parse_origin("https://as.example:444")
    assert parse_origin("https://as.example") != parse_origin("https://b.as.example")


@pytest.mark.parametrize(
    ("entry", "host", "port", "allowed"),
    [
        ("example.org", "example.org", 443, True),
        ("example.org", "example.org", 80, True),
        ("example.org", "example.org", 22, False),
        ("example.org", "sub.example.org", 443, False),
        ("example.org", "badexample.org", 443, False),
        ("example.org", "example.org.evil.test", 443, False),
        ("*.example.org", "a.b.example.org", 443, True),
        ("*.example.org", "example.org", 443, False),
        ("*.example.org", "badexample.org", 443, False),
        ("example.org:8443", "example.org", 8443, True),
        ("example.org:8443", "example.org", 443, False),
        ("Example.ORG.", "example.org", 443, True),
        ("bücher.example", "xn--bcher-kva.example", 443, True),
        ("127.0.0.1:80", "127.0.0.1", 80, True),
        ("example.org", "127.0.0.1", 80, False),
        ("[::1]:80", "::1", 80, True),
    ],
)
@pytest.mark.spec("N2")
def test_an_allow_list_matches_exactly_its_entries(entry: str, host: str, port: int, allowed: bool) -> None:
    assert AllowList([entry]).allows(host, port) is allowed


@pytest.mark.parametrize(
    "entry", ["", "*", "*.", "http://example.org", "a b", "example.org:0", "x:99999", "a@b", "a/b", "a:x"]
)
@pytest.mark.spec("N2")
def test_an_invalid_entry_is_refused(entry: str) -> None:
    with pytest.raises(ConfigError, match="use host"):
        AllowList([entry])


@pytest.mark.parametrize(
    "name", ["127.1", "2130706433", "0x7f000001", "0x7f.1", "a..b", "-a", "a b", "a\0b", "a@b", "x" * 300, "", "a%2eb"]
)
@pytest.mark.spec("N2")
def test_an_ambiguous_host_is_not_normalized(name: str) -> None:
    assert normalize_host(name) is None
