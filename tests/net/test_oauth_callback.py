"""The page the browser comes back to: it takes one answer, and whatever else is sent to it changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.net import oauth_callback
from holdfast.net.oauth_callback import CallbackResult, CallbackServer

T = TypeVar("T")

pytestmark = pytest.mark.spec("K1")


def with_callback(work: Callable[[CallbackServer], Awaitable[T]]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(60):
            callback = await CallbackServer.open(0)
            callback.expect("the-state")
            try:
                return await work(callback)
            finally:
                await callback.close()

    return asyncio.run(bounded())


async def send(callback: CallbackServer, raw: bytes) -> bytes:
    """What it answers; it may hang up before all is sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", callback.port)
    try:
        writer.write(raw)
        await writer.drain()
        writer.write_eof()
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def what_came(reader: asyncio.StreamReader) -> bytes:
    """Everything up to the end of a connection, which may be reset."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


def serving(callback: CallbackServer) -> list[Any]:
    return [*callback._serving.values()]  # pyright: ignore[reportPrivateUsage]


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - the other end of the connection tells nobody
        await asyncio.sleep(0.01)


def get(callback: CallbackServer, target: str, *, host: str | None = None, method: str = "GET") -> bytes:
    return f"{method} {target} HTTP/1.1\r\nHost: {host or f'127.0.0.1:{callback.port}'}\r\n\r\n".encode()


async def still_waits(callback: CallbackServer) -> bool:
    """It takes the right answer after all that."""
    await send(callback, get(callback, "/callback?code=right&state=the-state"))
    return (await callback.arrival()).code == "right"


def test_the_right_answer_is_taken_with_all_it_says() -> None:
    async def work(callback: CallbackServer) -> None:
        query = urlencode({"code": "a b/+", "state": "the-state", "iss": "https://as.example"})
        page = await send(callback, get(callback, f"/callback?{query}"))
        assert page.startswith(b"HTTP/1.1 200 ") and b"no-store" in page
        assert await callback.arrival() == CallbackResult(code="a b/+", state="the-state", issuer="https://as.example")

    with_callback(work)


def test_the_first_right_answer_counts() -> None:
    async def work(callback: CallbackServer) -> None:
        for code in ("first", "second"):
            await send(callback, get(callback, f"/callback?code={code}&state=the-state"))
        assert (await callback.arrival()).code == "first"

    with_callback(work)


@pytest.mark.parametrize(
    "target",
    [
        "/callback?code=x&state=other",
        "/callback?code=x&state=",
        "/callback?code=x",
        "/callback?state=the-state",
        "/callback?code=x&state=the-state&state=other",
        "/callback?code=x&code=y&state=the-state",
        "/callback/?code=x&state=the-state",
        "/favicon.ico",
        "/",
        "//evil.example/callback?code=x&state=the-state",
        "http://evil.example/callback?code=x&state=the-state",
        "/callback?" + "&".join(f"a{number}=1" for number in range(100)) + "&code=x&state=the-state",
        "/callback#?code=x&state=the-state",
        "http://[/callback?code=x&state=the-state",
    ],
)
def test_an_answer_that_is_not_quite_right_is_refused(target: str) -> None:
    async def work(callback: CallbackServer) -> None:
        page = await send(callback, get(callback, target))
        assert page.startswith(b"HTTP/1.1 400 ")
        assert await still_waits(callback)

    with_callback(work)


@pytest.mark.parametrize("host", ["localhost", "evil.example", "127.0.0.1", "127.0.0.1:1"])
def test_a_page_under_another_name_is_refused(host: str) -> None:
    async def work(callback: CallbackServer) -> None:
        page = await send(callback, get(callback, "/callback?code=x&state=the-state", host=host))
        assert page.startswith(b"HTTP/1.1 400 ")
        assert await still_waits(callback)

    with_callback(work)


@pytest.mark.parametrize("method", ["POST", "HEAD", "OPTIONS", "get"])
def test_another_method_is_refused(method: str) -> None:
    async def work(callback: CallbackServer) -> None:
        page = await send(callback, get(callback, "/callback?code=x&state=the-state", method=method))
        assert page.startswith(b"HTTP/1.1 400 ")
        assert await still_waits(callback)

    with_callback(work)


def test_before_it_expects_something_nothing_is_right() -> None:
    async def work(callback: CallbackServer) -> None:
        callback.expect("")
        page = await send(callback, get(callback, "/callback?code=x&state="))
        assert page.startswith(b"HTTP/1.1 400 ")

    with_callback(work)


@pytest.mark.parametrize(
    "raw", [b"", b"\r\n\r\n", b"GET", b"\x16\x03\x01\x02", b"A" * 100_000, b"\xff" * 50 + b"\r\n\r\n"]
)
def test_what_is_no_request_changes_nothing(raw: bytes) -> None:
    async def work(callback: CallbackServer) -> None:
        page = await send(callback, raw)
        assert not page.startswith(b"HTTP/1.1 200 ")
        assert await still_waits(callback)

    with_callback(work)


def test_many_silent_connections_do_not_pile_up_and_end_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth_callback, "_HEAD_SECONDS", 300.0)

    async def work(callback: CallbackServer) -> list[bytes]:
        silent = [await asyncio.open_connection("127.0.0.1", callback.port) for _ in range(40)]
        async with asyncio.timeout(40):  # which is less than a silent one is waited for
            closed = [await what_came(reader) for reader, _ in silent[:24]]
        assert await still_waits(callback)
        await callback.close()
        ended = [await what_came(reader) for reader, _ in silent[24:]]
        for _, writer in silent:
            writer.close()
        return closed + ended

    assert with_callback(work) == [b""] * 40


def test_connections_that_have_sent_something_are_not_closed_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth_callback, "_HEAD_SECONDS", 300.0)

    async def work(callback: CallbackServer) -> bytes:
        first, writer = await asyncio.open_connection("127.0.0.1", callback.port)
        request = get(callback, "/callback?code=slow&state=the-state")
        writer.write(request[:1])
        await until(lambda: any(not each.is_silent for each in serving(callback)))
        silent = [await asyncio.open_connection("127.0.0.1", callback.port) for _ in range(20)]
        async with asyncio.timeout(40):
            assert [await what_came(reader) for reader, _ in silent[:5]] == [b""] * 5
        writer.write(request[1:])
        page = await first.read()
        for _, each in silent:
            each.close()
        writer.close()
        return page

    assert with_callback(work).startswith(b"HTTP/1.1 200 ")


def test_closing_with_an_idle_connection_reports_no_error() -> None:
    told = list[dict[str, Any]]()

    async def work(callback: CallbackServer) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        reader, writer = await asyncio.open_connection("127.0.0.1", callback.port)
        await until(lambda: bool(serving(callback)))
        await callback.close()
        assert await what_came(reader) == b""
        writer.close()

    with_callback(work)
    assert told == []


def test_it_listens_on_this_machine_only() -> None:
    async def work(callback: CallbackServer) -> str:
        return callback.address

    address = with_callback(work)
    assert address.startswith("http://127.0.0.1:") and address.endswith("/callback")


@given(st.text(max_size=60), st.text(max_size=60))
def test_whatever_is_asked_only_the_right_state_is_an_answer(path: str, state: str) -> None:
    async def work(callback: CallbackServer) -> bytes:
        target = f"/callback?{urlencode({'code': path, 'state': state})}"
        return await send(callback, get(callback, target))

    right = state == "the-state" and path != ""
    assert with_callback(work).startswith(b"HTTP/1.1 200 ") == right
