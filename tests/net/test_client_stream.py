"""Answers that are read while they arrive: limits of time, no redirects, no compression."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.contract.errors import NetworkRefused
from holdfast.net.client import HttpClient, HttpRequest, Limits, RequestFailed
from holdfast.net.network import Network
from holdfast.net.urls import parse_url
from tests.runtime.support import run
from tests.tools.web.site import Page, Reply, Writer, serving

pytestmark = pytest.mark.spec("B6h")


def streamed(page: Page, limits: Limits | None = None, *, allowed: bool = True) -> tuple[int, bytes]:
    async def work() -> tuple[int, bytes]:
        async with serving({"/": page}) as site:
            network = Network(private=(site.entry,) if allowed else ())
            async with HttpClient(network.gateway("test"), user_agent="tests/1") as client:
                request = HttpRequest(url=parse_url(f"{site.url}/"))
                async with client.stream(request, limits or Limits(seconds=50)) as answer:
                    body = b"".join([block async for block in answer.blocks])
            assert site.seen[0].headers["accept-encoding"] == "identity"
            return answer.status, body

    return run(work())


def test_a_body_arrives_in_blocks_and_a_redirect_is_only_an_answer() -> None:
    assert streamed(Reply("text")) == (200, b"text")
    assert streamed(Reply("", status=302, headers={"Location": "/other"})) == (302, b"")


def test_the_first_block_is_there_before_the_last_is_sent() -> None:
    async def work() -> list[bytes]:
        first = asyncio.Event()

        async def rest(writer: Writer) -> None:
            await first.wait()
            writer.write(b"last")
            await writer.drain()

        head = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfirst"
        async with serving({"/": Reply(raw=head, then=rest)}) as site:
            network = Network(private=(site.entry,))
            async with HttpClient(network.gateway("test"), user_agent="tests/1") as client:
                request = HttpRequest(url=parse_url(f"{site.url}/"))
                found: list[bytes] = []
                async with client.stream(request, Limits(seconds=50)) as answer:
                    async for block in answer.blocks:
                        found.append(block)
                        first.set()
                return found

    assert run(work()) == [b"first", b"last"]


def test_the_time_of_a_stream_is_limited_while_it_is_read() -> None:
    async def never(writer: Writer) -> None:
        await asyncio.sleep(60)

    head = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfirst"
    with pytest.raises(RequestFailed, match="sent only 5 bytes of its answer, and not the rest, within") as error:
        streamed(Reply(raw=head, then=never), Limits(seconds=0.4))
    assert error.value.timed_out


def test_compression_that_was_not_asked_for_is_refused() -> None:
    with pytest.raises(RequestFailed, match="compressed an answer"):
        streamed(Reply("x", headers={"Content-Encoding": "gzip"}))


def test_a_stream_goes_through_the_gateway() -> None:
    with pytest.raises(NetworkRefused):
        streamed(Reply("x"), allowed=False)


@pytest.mark.parametrize("error", [OSError("disk full"), TimeoutError("of the caller")], ids=["error", "timeout"])
def test_an_error_of_the_caller_is_none_of_the_network(error: OSError) -> None:
    async def work() -> None:
        async with serving({"/": Reply("text")}) as site:
            network = Network(private=(site.entry,))
            request = HttpRequest(url=parse_url(f"{site.url}/"))
            client = HttpClient(network.gateway("test"), user_agent="tests/1")
            async with client, client.stream(request, Limits(seconds=50)):
                raise error

    with pytest.raises(OSError, match=str(error)) as caught:
        run(work())
    assert caught.value is error
