"""Reading requests: bounded, strict, and with the status of each error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from msgspec import Struct
from starlette.requests import Request
from starlette.types import Message

from holdfast.contract.errors import ConfigError, LedgerUnavailable, NotPending, StaleApproval, UnknownCall, UnknownTool
from holdfast.serve.requests import (
    MAX_STREAMS,
    BadRequest,
    Forbidden,
    Streams,
    TooMany,
    read_fields,
    read_json,
    require_answer,
    status_of,
)
from holdfast.serve.security import MAX_BODY, PERSON
from holdfast.store.people import Person


class Point(Struct, forbid_unknown_fields=True):
    x: int


def request(*parts: bytes, person: Any = None) -> Request:
    messages: list[Message] = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    messages.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive() -> Message:
        return messages.pop(0)

    return Request({"type": "http", "method": "POST", "path": "/", "headers": [], PERSON: person}, receive)


@pytest.mark.spec("E3a")
def test_a_body_is_read_in_parts_and_bounded() -> None:
    assert asyncio.run(read_json(request(b'{"x"', b": 1}"), Point)) == Point(1)
    with pytest.raises(BadRequest, match="larger"):
        asyncio.run(read_json(request(*[b"x" * (MAX_BODY // 2)] * 3), Point))


@pytest.mark.spec("E3a")
@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"x": "1"}', b'{"x": 1, "y": 2}', b'{"x": 1}x', b"\xff", b"[" * 100_000]
)
def test_a_body_that_does_not_fit_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest, match="cannot be read"):
        asyncio.run(read_json(request(body), Point))


@pytest.mark.spec("E3a")
def test_a_form_keeps_the_order_of_its_fields() -> None:
    assert asyncio.run(read_fields(request(b"a=1&b=&a=%C3%A4+x"))) == [("a", "1"), ("b", ""), ("a", "ä x")]
    assert asyncio.run(read_fields(request(b""))) == []
    for bad in (b"\xff=1", b"a", b"&".join([b"a=1"] * 5001)):
        with pytest.raises(BadRequest, match="form cannot be read"):
            asyncio.run(read_fields(request(bad)))


@pytest.mark.spec("E3b")
def test_a_person_who_may_only_look_is_forbidden_to_answer() -> None:
    viewer = Person(name="bob", identity="token:bob", right="view")
    with pytest.raises(Forbidden, match="bob may look, but not answer"):
        require_answer(request(person=viewer))


@pytest.mark.spec("E3a")
def test_every_error_has_its_status() -> None:
    found = [
        status_of(error)[0]
        for error in (
            UnknownCall(""), UnknownTool(""), StaleApproval(""), NotPending(""), BadRequest(""), Forbidden(""),
            ConfigError(""), LedgerUnavailable(""), TooMany(""),
        )
    ]  # fmt: skip
    assert found == [404, 404, 409, 409, 400, 403, 400, 503, 429]


@pytest.mark.spec("E3b")
def test_one_person_cannot_take_all_connections_with_streams() -> None:
    async def events() -> AsyncGenerator[bytes]:
        yield b"first"
        yield b"second"

    async def body() -> None:
        ann, bob = (
            request(person=Person(name=name, identity=f"token:{name}", right="view")) for name in ("ann", "bob")
        )
        streams = Streams()
        opened = [aiter(streams.reply(ann, events()).body_iterator) for _ in range(MAX_STREAMS)]
        for stream in opened:
            assert await anext(stream) == b"first"
        with pytest.raises(TooMany, match="ann has 64 event streams open"):
            streams.reply(ann, events())
        assert await anext(aiter(streams.reply(bob, events()).body_iterator)) == b"first"
        assert [block async for block in opened[0]] == [b"second"]
        streams.reply(ann, events())

    asyncio.run(body())
