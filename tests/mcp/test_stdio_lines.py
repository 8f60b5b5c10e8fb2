"""Lines and messages: split anywhere they are the same, and they are what the SDK reads."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import jsonrpc_message_adapter

from holdfast.mcp.client.server_process import TailBuffer
from holdfast.mcp.stdio_lines import MAX_LINE, LineSplitter, LineTooLong, NotAMessage, message_of
from tests.quick import least, quickly

Some = st.SearchStrategy[Any]


def _object(optional: dict[str, Some] | None = None, /, **required: Some) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required, optional=optional or {})


NUMBERS: Some = st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False)
VALUES: Some = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
OBJECTS: Some = st.dictionaries(st.text(), VALUES, max_size=4)
IDS: Some = st.integers(-(2**70), 2**70) | st.text()
ERRORS: Some = _object({"data": VALUES}, code=st.integers(-(2**31), 2**31), message=st.text())
MESSAGES = st.one_of(
    _object({"params": OBJECTS}, id=IDS, method=st.text()),
    _object({"params": OBJECTS}, method=st.text()),
    _object(id=IDS, result=OBJECTS),
    _object(id=IDS, error=ERRORS),
)


@pytest.mark.spec("K1")
@given(st.lists(st.binary(max_size=40).map(lambda piece: piece.replace(b"x", b"\n"))))
def test_lines_are_the_same_wherever_they_were_cut(blocks: list[bytes]) -> None:
    lines = LineSplitter()
    for block in blocks:
        lines.feed(block)
    assert [bytes(line) for line in lines.ready] == b"".join(blocks).split(b"\n")[:-1]


@pytest.mark.spec("K1")
@given(st.lists(st.binary(min_size=1, max_size=20)), st.integers(1, 20))
def test_a_line_over_the_limit_is_refused_before_it_is_whole(blocks: list[bytes], limit: int) -> None:
    lines, held = LineSplitter(limit), 0
    for block in blocks:
        first, *rest = block.split(b"\n")
        grown = held + len(first)
        last = len(rest[-1]) if rest else grown
        if (held and grown > limit) or last > limit:
            with pytest.raises(LineTooLong):
                lines.feed(block)
            return
        lines.feed(block)
        held = last


@pytest.mark.spec("K1")
def test_a_line_that_comes_byte_by_byte_takes_time_in_proportion() -> None:
    def feed(size: int) -> None:
        lines = LineSplitter()
        for _ in range(size):
            lines.feed(b"x")

    hundredfold = least(lambda: feed(200_000), 1)
    assert hundredfold < 1000 * least(lambda: feed(2_000), 5), "a hundred times as long, not ten thousand"


@pytest.mark.spec("K1")
@given(MESSAGES)
def test_a_message_is_what_the_sdk_reads(message: dict[str, Any]) -> None:
    line = msgspec.json.encode({"jsonrpc": "2.0", **message})
    ours, theirs = message_of(line), jsonrpc_message_adapter.validate_json(line, by_name=False)
    assert type(ours) is type(theirs)
    assert ours.model_dump() == theirs.model_dump()


@pytest.mark.spec("K1")
@given(st.binary() | VALUES.map(msgspec.json.encode))
def test_anything_else_is_no_message_and_nothing_worse(line: bytes) -> None:
    with pytest.raises(NotAMessage):
        message_of(line)


@pytest.mark.spec("K1")
@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\0",
        b"[]",
        b"{}",
        b'[{"jsonrpc":"2.0","method":"x"}]',
        b'{"jsonrpc":"1.0","method":"x"}',
        b'{"jsonrpc":"2.0","id":true,"method":"x"}',
        b'{"jsonrpc":"2.0","id":null,"method":"x"}',
        b'{"jsonrpc":"2.0","id":1.5,"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"result":[]}',
        b'{"jsonrpc":"2.0","id":1,"error":"x"}',
        b'{"jsonrpc":"2.0","method":3}',
        b'{"jsonrpc":"2.0","method":"x","params":[1]}',
        b'{"jsonrpc":"2.0","method":"x","params":{"a":NaN}}',
        b'{"jsonrpc":"2.0","method":"x","params":{"a":"\xff"}}',
        b'{"jsonrpc":"2.0","method":"x","params":{"a":"\\ud800"}}',
        b'{"jsonrpc":"2.0","method":"x","params":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001,
    ],
)
def test_what_only_looks_like_a_message_is_none(line: bytes) -> None:
    with pytest.raises(NotAMessage):
        message_of(line)


@pytest.mark.spec("K1")
def test_a_large_text_is_read_and_a_large_heap_of_values_is_not() -> None:
    head = b'{"jsonrpc":"2.0","id":1,"result":{"x":'
    text = b'"' + b'[{},\\"\\\\' * (MAX_LINE // 16) + b'"'
    assert len(text) > MAX_LINE // 3
    assert message_of(head + text + b"}}").model_dump()["result"]["x"].startswith("[{},")
    with pytest.raises(LineTooLong, match="1,000,000 values"):
        message_of(head + b"[" + b"{}," * 1_000_001 + b"1]}}")


@pytest.mark.spec("K1")
@pytest.mark.parametrize("piece", [b'\\"', b'"\\', b"[", b'"', b"\\", b'{"a":', b'"a', b'"",', b'"\\\\",'])
def test_a_large_line_is_refused_in_linear_time_whatever_it_is_made_of(piece: bytes) -> None:
    with quickly(), pytest.raises((NotAMessage, LineTooLong)):
        message_of(b'{"' + piece * (MAX_LINE // len(piece) - 1))


@pytest.mark.spec("K1")
@given(st.lists(st.binary(max_size=30)), st.integers(1, 40))
def test_a_ring_keeps_the_end(blocks: list[bytes], size: int) -> None:
    ring = TailBuffer(size)
    for block in blocks:
        ring.add(block)
    assert ring.text == b"".join(blocks)[-size:].decode("utf-8", "replace")
