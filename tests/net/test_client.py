"""The HTTP client: redirects, credentials, decompression, limits, and one sentence for every fault."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.contract.errors import HoldfastError, NetworkRefused
from holdfast.net.client import (
    HttpClient,
    HttpRequest,
    HttpResponse,
    Limits,
    RedirectRefused,
    RequestFailed,
    header_problem,
    trusted_certificates,
)
from holdfast.net.network import Network
from holdfast.net.urls import parse_url
from tests.runtime.support import run
from tests.tools.web.certificates import authority
from tests.tools.web.site import Page, Reply, Seen, Site, Writer, serving

pytestmark = pytest.mark.spec("B6h")
QUICK = Limits(seconds=0.4)
"""For servers that never finish: the time that the test takes."""


@asynccontextmanager
async def client_of(*sites: Site, private: tuple[str, ...] = ()) -> AsyncGenerator[HttpClient]:
    network = Network(private=(*(site.entry for site in sites), *private))
    async with HttpClient(network.gateway("test"), user_agent="tests/1") as client:
        yield client


def get(
    pages: dict[str, Page], path: str = "/", limits: Limits | None = None, **fields: object
) -> tuple[HttpResponse, Site]:
    async def work() -> tuple[HttpResponse, Site]:
        async with serving(pages) as site, client_of(site) as client:
            request = HttpRequest(url=parse_url(site.url + path), **fields)  # pyright: ignore[reportArgumentType]
            return await client.request(request, limits or Limits(seconds=50)), site

    return run(work())


def failure(
    pages: dict[str, Page], path: str = "/", limits: Limits | None = None, method: str = "GET"
) -> HoldfastError:
    with pytest.raises(HoldfastError) as caught:
        get(pages, path, limits, method=method)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")
    return caught.value


def echo(seen: Seen) -> Reply:
    return Reply(f"{seen.method} {seen.body.decode()}", "text/plain")


def redirect(to: str, status: int = 302) -> Reply:
    return Reply(status=status, headers={"Location": to})


async def stall(writer: Writer) -> None:
    """Keep the connection open; the test's end cancels it."""
    await asyncio.Event().wait()


async def flood(writer: Writer) -> None:
    while True:
        writer.write(b"x" * 65_536)
        await writer.drain()


async def drip(writer: Writer) -> None:
    while True:
        writer.write(b"X-A: b\r\n")
        await writer.drain()
        await asyncio.sleep(0.02)


def test_a_request_names_the_client_honestly_and_takes_nothing_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    response, site = get({"/": Reply("hi", headers={"Set-Cookie": "a=b"})})
    assert (response.status, response.body, response.redirects) == (200, b"hi", ())
    assert site.seen[0].headers == {
        "host": site.entry, "user-agent": "tests/1", "accept": "*/*", "accept-encoding": "gzip, identity",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("status", "method", "arrives"),
    [
        (301, "POST", "GET "), (302, "POST", "GET "), (303, "POST", "GET "), (303, "PUT", "GET "),
        (307, "POST", "POST data"), (308, "POST", "POST data"), (302, "PUT", "PUT data"),
    ],
)  # fmt: skip
def test_a_redirect_keeps_or_changes_the_method_as_http_says(status: int, method: str, arrives: str) -> None:
    pages: dict[str, Page] = {"/": redirect("/there", status), "/there": echo}
    response, site = get(pages, method=method, body=b"data", headers=(("Content-Type", "text/x"),))
    assert response.body.decode() == arrives
    assert [hop.status for hop in response.redirects] == [status]
    assert ("content-type" in site.seen[1].headers) == ("data" in arrives)


def test_a_head_request_stays_one_after_a_redirect() -> None:
    response, site = get({"/": redirect("/there", 303), "/there": Reply("body")}, method="HEAD")
    assert (site.seen[1].method, response.body) == ("HEAD", b"")


def test_credentials_and_cookies_stay_at_their_origin() -> None:
    async def work() -> tuple[Site, Site]:
        async with serving() as there, serving() as here, client_of(here, there) as client:
            there.pages["/"] = Reply("ok")
            here.pages |= {"/": redirect("/same"), "/same": Reply(status=302, headers={"Location": f"{there.url}/"})}
            names = ("Authorization", "Cookie", "X-Api-Key", "Accept")
            headers = tuple((name, "mine") for name in names)
            await client.request(HttpRequest(url=parse_url(here.url), headers=headers), Limits(seconds=50))
            return here, there

    here, there = run(work())
    assert here.seen[1].headers["authorization"] == here.seen[1].headers["x-api-key"] == "mine"
    assert there.seen[0].headers["accept"] == "mine"
    assert not {"authorization", "cookie", "x-api-key"} & there.seen[0].headers.keys()


async def straight_to(url: str) -> None:
    async with client_of() as client:
        await client.request(HttpRequest(url=parse_url(url)), Limits(seconds=50))


def test_every_hop_is_decided_by_the_gateway() -> None:
    refused = failure({"/": redirect("http://169.254.169.254/latest/meta-data/")})
    assert "cloud" in str(refused) and isinstance(refused, RequestFailed) and refused.sent
    with pytest.raises(NetworkRefused, match="cloud"):
        run(straight_to("http://169.254.169.254/"))


def test_a_redirect_that_may_not_be_followed_says_where_it_leads() -> None:
    async def work() -> RedirectRefused:
        async with serving({"/": redirect("/away")}) as site, client_of(site) as client:
            with pytest.raises(RedirectRefused, match=r"^no$") as caught:
                await client.request(
                    HttpRequest(url=parse_url(site.url)), Limits(), may_follow=lambda source, following: "no"
                )
            assert caught.value.location == f"{site.url}/away"
            return caught.value

    assert [hop.status for hop in run(work()).redirects] == [302]


def test_redirects_without_end_are_given_up() -> None:
    assert "in a loop" in str(failure({"/": redirect("/b"), "/b": redirect("/")}))
    chain: dict[str, Page] = {f"/{number}": redirect(f"/{number + 1}") for number in range(20)}
    assert "more than 10 times" in str(failure(chain, "/0"))
    assert "cannot be fetched" in str(failure({"/": redirect("javascript:alert(1)")}))


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(gzip.compress(b"a" * 50_000_000), headers={"Content-Encoding": "gzip"}), "a decompression bomb"),
        (Reply(gzip.compress(b"abc" * 99)[:-20], headers={"Content-Encoding": "gzip"}), "ends too early"),
        (Reply(b"\x1f\x8b\x08\0 not gzip at all", headers={"Content-Encoding": "gzip"}), "is damaged"),
        (Reply(b"x", headers={"Content-Encoding": "br"}), "'br', which was not asked for"),
        (Reply(b"x", headers={"Content-Encoding": "gzip, gzip"}), "which was not asked for"),
        (Reply(b"short", headers={"Content-Length": "500"}, then=lambda writer: asyncio.sleep(0)), "too early"),
        (Reply(raw=b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 5000), "not valid HTTP"),
        (Reply(raw=b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 300 + b"\r\n"), "too many headers"),
        (Reply(raw=b"SSH-2.0-OpenSSH_9.2\r\n"), "not valid HTTP"),
        (Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello"), "not valid HTTP"),
        (Reply(raw=b""), "closed the connection"),
    ],
)
def test_a_damaged_answer_is_one_sentence(reply: Reply, words: str) -> None:
    assert words in str(failure({"/": reply}))


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(raw=b"", then=stall), "accepted the connection, but did not answer within"),
        (Reply(raw=b"HTTP/1.1 200 OK\r\n", then=drip), "accepted the connection, but did not answer within"),
        (Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nab", then=stall), "sent only 2 bytes"),
    ],
)
def test_a_slow_server_costs_no_more_than_the_time_limit(reply: Reply, words: str) -> None:
    error = failure({"/": reply}, limits=QUICK)
    assert words in str(error) and isinstance(error, RequestFailed) and error.timed_out


def test_a_request_that_may_have_arrived_says_so() -> None:
    error = failure({"/": Reply(raw=b"", then=stall)}, limits=QUICK, method="POST")
    assert isinstance(error, RequestFailed) and error.sent


def ever_further(seen: Seen) -> Reply:
    return redirect(f"{seen.target}x", 307)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(b"x", headers={"Content-Encoding": "br"}),
        redirect("/", 307),
        redirect("javascript:alert(1)", 307),
        redirect("http://127.0.0.1:1/", 307),
        ever_further,
    ],
)
def test_a_request_that_arrived_says_so_whatever_the_answer_was(reply: Page) -> None:
    pages: dict[str, Page] = {"/" + "x" * number: reply for number in range(20)}
    error = failure(pages, method="POST")
    assert isinstance(error, RequestFailed) and error.sent


def test_a_request_that_was_never_sent_says_so() -> None:
    with pytest.raises(RequestFailed) as caught:
        run(straight_to("http://nowhere.invalid/"))
    assert not caught.value.sent


def test_an_endless_body_is_cut_at_the_limit() -> None:
    response, _ = get({"/": Reply(raw=b"HTTP/1.1 200 OK\r\n\r\n", then=flood)}, limits=Limits(max_bytes=100_000))
    assert response.cut and response.body == b"x" * 100_000


def test_a_compressed_body_is_inflated_and_cut_after_decompression() -> None:
    text = b"".join(b"%d " % number for number in range(100_000))
    packed = gzip.compress(text[:300_000]) + gzip.compress(text[300_000:])
    pages: dict[str, Page] = {"/": Reply(packed, headers={"Content-Encoding": "gzip"})}
    whole, _ = get(pages)
    assert (whole.body, whole.cut) == (text, False)
    cut, _ = get(pages, limits=Limits(max_bytes=1000))
    assert (cut.body, cut.cut) == (text[:1000], True)
    assert zlib.decompress(packed, 31) == text[:300_000]


def test_more_bytes_than_the_length_says_are_not_read() -> None:
    assert get({"/": Reply(b"hello", headers={"Content-Length": "2"})})[0].body == b"he"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:1/", "127.0.0.1:1 cannot be reached: it refused the connection"),
        ("http://nowhere.invalid/", "nowhere.invalid cannot be reached: there is no such host"),
    ],
)
def test_a_dead_host_is_one_sentence(url: str, words: str) -> None:
    async def work() -> None:
        private = ("127.0.0.1:1", "nowhere.invalid")
        async with client_of(private=private) as client:
            await client.request(HttpRequest(url=parse_url(url)), Limits(seconds=50))

    with pytest.raises(RequestFailed, match=words):
        run(work())


@pytest.mark.parametrize(
    ("certificate", "words"),
    [
        ("self-signed", "not valid: self-signed certificate"),
        ("expired", "not valid: certificate has expired"),
        ("other-host", "not valid: IP address mismatch"),
        ("good", None),
    ],
)
def test_an_invalid_certificate_is_one_sentence(certificate: str, words: str | None) -> None:
    async def work() -> HttpResponse:
        ca = authority()
        async with serving({"/": Reply("ok")}, tls=ca.server(certificate)) as site:
            network = Network(private=(site.entry,))
            async with HttpClient(network.gateway("test"), user_agent="t", tls=ca.client()) as client:
                return await client.request(HttpRequest(url=parse_url(site.url)), Limits(seconds=50))

    if words is None:
        assert run(work()).body == b"ok"
    else:
        with pytest.raises(RequestFailed, match=rf"The certificate of 127\.0\.0\.1:\d+ is {words}"):
            run(work())


def test_the_environment_does_not_choose_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ca = authority()
    (tmp_path / "ca.pem").write_text(ca.certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    trusted_certificates.cache_clear()

    async def work() -> None:
        async with serving({"/": Reply("ok")}, tls=ca.server("good")) as site, client_of(site) as client:
            await client.request(HttpRequest(url=parse_url(site.url)), Limits(seconds=50))

    with pytest.raises(RequestFailed, match=r"The certificate of .* is not valid"):
        run(work())


def test_a_server_without_tls_is_one_sentence() -> None:
    async def work() -> None:
        async with serving({"/": Reply("ok")}) as site, client_of(site) as client:
            url = parse_url(site.url.replace("http:", "https:"))
            await client.request(HttpRequest(url=url), Limits(seconds=2))

    with pytest.raises(RequestFailed, match=r"TLS|could not be reached"):
        run(work())


def test_https_is_never_left_for_http() -> None:
    async def work() -> None:
        ca = authority()
        async with serving(tls=ca.server("good")) as site:
            site.pages["/"] = redirect(site.url.replace("https", "http"))
            network = Network(private=(site.entry,))
            async with HttpClient(network.gateway("test"), user_agent="t", tls=ca.client()) as client:
                await client.request(HttpRequest(url=parse_url(site.url)), Limits(seconds=50))

    with pytest.raises(RedirectRefused, match="not encrypted"):
        run(work())


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("X-A", "b", None),
        ("Authorization", "Bearer x", None),
        ("Host", "evil.example", "is set by the client"),
        ("Content-Length", "5", "is set by the client"),
        ("Proxy-Authorization", "x", "is set by the client"),
        ("User-Agent", "Mozilla", "web.user_agent"),
        ("X A", "b", "not a valid header name"),
        ("X-A", "b\r\nHost: evil", "cannot carry"),
        ("X-A", "ж", "cannot carry"),
    ],
)
def test_a_caller_can_set_only_headers_that_are_not_the_clients(name: str, value: str, words: str | None) -> None:
    problem = header_problem(name, value)
    assert problem is None if words is None else problem is not None and words in problem


async def blocks() -> AsyncIterator[bytes]:
    for block in (b"one ", b"two"):
        yield block


def test_a_body_can_be_sent_in_blocks_and_follows_no_redirect() -> None:
    sent: dict[str, Any] = {"method": "PUT", "headers": (("Content-Length", "7"),), "stream": blocks}
    response, site = get({"/": echo}, **sent)
    assert response.body == b"PUT one two"
    assert "transfer-encoding" not in site.seen[0].headers
    with pytest.raises(RedirectRefused, match="redirects an upload"):
        get({"/": redirect("/next", 307), "/next": echo}, **sent)


def test_an_address_that_is_too_long_is_one_sentence() -> None:
    """Such as one with a token that a server chose."""

    async def work() -> None:
        async with serving({"/": Reply("x")}) as site, client_of(site) as client:
            url = replace(parse_url(site.url), target=f"/?token={'t' * 70_000}")
            await client.request(HttpRequest(url=url), Limits(seconds=50))

    with pytest.raises(RequestFailed):
        run(work())
